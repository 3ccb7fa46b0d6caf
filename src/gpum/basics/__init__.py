"""Helpers of several folders: checks and errors, neighbours, scaling, missing readings, padding, threads, progress."""
