"""The report of progress while a store is read."""

from __future__ import annotations

from collections.abc import Callable

Advance = Callable[[int], None]
"""A callback that receives the number of bytes as they are read."""


def silent(count: int) -> None:
    """Ignore the progress."""
