"""The streams between this program and the processes that use the RocksDB library: lengths are four bytes, big-endian."""

from __future__ import annotations

import struct
from collections.abc import Sequence

ENTRY = b"P"
"""The letter before an entry: its key and its value, each with its length before it."""
FAMILY = b"F"
"""The letter before a column family, of which the entries after it are."""
END = b"."
LENGTH = 4
"""Bytes of a length."""
OFFSET_SIZE = 8
"""Bytes of a queue offset."""
_LENGTH = struct.Struct(">I")


def with_length(data: bytes) -> bytes:
    """Return bytes with their length before them."""
    return len(data).to_bytes(LENGTH, "big") + data


def framed(pairs: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Return entries, given as key and value, as they are in a stream."""
    length = _LENGTH.pack
    return b"".join([part for key, value in pairs for part in (ENTRY, length(len(key)), key, length(len(value)), value)])
