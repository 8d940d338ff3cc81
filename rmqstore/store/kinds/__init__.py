"""What a directory or a file is, and which release or other program wrote it."""
