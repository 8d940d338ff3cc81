"""The streams between this program and the processes that use the RocksDB library: lengths are four bytes, big-endian."""

from __future__ import annotations

LENGTH = 4
"""Bytes of a length."""
OFFSET_SIZE = 8
"""Bytes of a queue offset."""


def with_length(data: bytes) -> bytes:
    """Return bytes with their length before them."""
    return len(data).to_bytes(LENGTH, "big") + data
