"""Comparison of stores that should be copies of one another: their logs byte by byte, and everything derived from them."""
