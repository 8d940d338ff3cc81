"""Verification of the other parts of a store, and of the names and lengths of all files."""
