"""Labelling by hand: `session` (labels, predictions, next row) and `server` (its page, for one person)."""
