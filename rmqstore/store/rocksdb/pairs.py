"""A process that prints the keys and values of one database, so that a crash of the library ends this process alone.

`python -m rmqstore.store.rocksdb.pairs DIRECTORY MODE [FAMILY]` writes to standard output: for each column family, or that one, `F` and its
name, for each of its entries `P`, the key and the value; each of these with its length (4 bytes, big-endian) before it; `.` at the end.
"""

from __future__ import annotations

import sys
from itertools import islice

from rmqstore.store.rocksdb.child import open_families, pairs_of, restrict
from rmqstore.store.rocksdb.framing import END, FAMILY, framed, with_length

_TOGETHER = 1 << 12
"""Entries of a piece."""


def main() -> None:
    """Print the keys and values of a database."""
    directory, mode, *wanted = sys.argv[1:]
    restrict()
    print_pairs(directory, mode, *wanted)


def print_pairs(directory: str, mode: str, *wanted: str) -> None:
    """Print the keys and values of a database, or of its column families `wanted`."""
    _, families = open_families(directory, mode)
    out = sys.stdout.buffer
    for name, family in families.items():
        if wanted and name not in wanted:
            continue
        out.write(FAMILY + with_length(name.encode()))
        pairs = pairs_of(family)
        while piece := list(islice(pairs, _TOGETHER)):
            out.write(framed(piece))
    out.write(END)


if __name__ == "__main__":
    main()
