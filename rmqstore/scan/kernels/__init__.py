"""Compiled kernels: bytes at machine addresses to columns, and comparisons of columns."""
