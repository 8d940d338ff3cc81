"""A process that prints the queue entries of one database, so that a crash of the library ends this process alone.

`python -m rmqstore.store.rocksdb.entries DIRECTORY` writes to standard output, numbers big-endian: for each offset of the family `offset`
`L`, its key with the length (4 bytes) before it, and its value (16 bytes); for each queue `Q` and its prefix – the key of an entry without
the queue offset – with the length before it; then for its entries `E`, their number (4 bytes), and for each the queue offset (8 bytes) and
the value (28 bytes); at the end `.` and the number of entries of another form (8 bytes). Fact sheet queues §8.2, §8.3.
"""

from __future__ import annotations

import sys
from typing import BinaryIO

from rocksdict import Rdict

from rmqstore.formats.rocksdb import QUEUE_END, QUEUE_ENTRY, QUEUE_KEY
from rmqstore.store.rocksdb.child import open_families, pairs_of, restrict
from rmqstore.store.rocksdb.databases import ENTRIES, OFFSETS
from rmqstore.store.rocksdb.framing import LENGTH, OFFSET_SIZE, with_length

VALUE_SIZE, STORED_SIZE = QUEUE_ENTRY.sizeof(), QUEUE_END.sizeof()
_SHORTEST_KEY = len(QUEUE_KEY.build({"length": 0, "topic": b"", "queue_id": 0, "queue_offset": 0}))
_LONGEST_KEY = 1 << 16
"""Bytes: more than a topic can make of it, whose length has two bytes in a record (fact sheet commit log §2.1)."""
_TOGETHER = 1 << 14
"""Entries of a piece."""


def main() -> None:
    """Print the entries of a database."""
    restrict()
    _, families = open_families(sys.argv[1], "point_in_time")
    out = sys.stdout.buffer
    for key, value in pairs_of(families.get(OFFSETS)):
        if len(value) == STORED_SIZE and len(key) <= _LONGEST_KEY:
            out.write(b"L" + with_length(key) + value)
    others = _print_entries(families.get(ENTRIES), out)
    out.write(b"." + others.to_bytes(OFFSET_SIZE, "big"))


def _print_entries(family: Rdict | None, out: BinaryIO) -> int:
    """Print the entries queue by queue, and return how many are of another form."""
    others = 0
    queue = b""
    piece: list[bytes] = []
    for key, value in pairs_of(family):
        if len(value) != VALUE_SIZE or len(key) > _LONGEST_KEY or len(key) != _SHORTEST_KEY + int.from_bytes(key[:LENGTH], "big"):
            others += 1
            continue
        if key[:-OFFSET_SIZE] != queue or len(piece) == _TOGETHER:
            _print_piece(piece, out)
            piece = []
            if key[:-OFFSET_SIZE] != queue:
                queue = key[:-OFFSET_SIZE]
                out.write(b"Q" + with_length(queue))
        piece.append(key[-OFFSET_SIZE:] + value)
    _print_piece(piece, out)
    return others


def _print_piece(piece: list[bytes], out: BinaryIO) -> None:
    if piece:
        out.write(b"E" + len(piece).to_bytes(LENGTH, "big") + b"".join(piece))


if __name__ == "__main__":
    main()
