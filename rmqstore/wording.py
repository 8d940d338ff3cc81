"""Parts of sentences for users."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """Return `1 queue`, `2 queues`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
