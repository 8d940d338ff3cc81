"""Compacted logs and their queues: replacements that were interrupted, and damaged or missing content."""
