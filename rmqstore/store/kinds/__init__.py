"""The format of a directory or a file, and the release or other program that wrote it."""
