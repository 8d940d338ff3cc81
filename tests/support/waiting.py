"""How long a test waits for another process before it calls that a hang."""

PATIENCE = 600
"""Seconds: a guard against tests that never end; a busy machine, many workers and a first compilation may need minutes."""
