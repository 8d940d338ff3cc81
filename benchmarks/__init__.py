"""Benchmarks: makes stores as a broker would have written them and measures how fast this machine goes through them."""
