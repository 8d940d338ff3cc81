"""Index files: each one alone, and their entries compared with the keys of the log."""
