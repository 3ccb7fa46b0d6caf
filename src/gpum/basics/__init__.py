"""What several folders use: checks and errors, neighbours, scaling, missing readings, padding, threads, progress."""
