"""Labels by hand: `session` (what is known, what to ask next), `server` (its page, for one person on one machine)."""
