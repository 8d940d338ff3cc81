"""Checks of tiered storage: its metadata, the segments of each queue, and the index files."""
