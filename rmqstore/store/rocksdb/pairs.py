"""A process that prints the keys and values of one database, so that a crash of the library ends this process alone.

`python -m rmqstore.store.rocksdb.pairs DIRECTORY MODE [FAMILY]` writes to standard output: for each column family, or that one, `F` and its
name, for each of its entries `P`, the key and the value; each of these with its length (4 bytes, big-endian) before it; `.` at the end.
"""

from __future__ import annotations

import sys

from rmqstore.store.rocksdb.child import open_families, pairs_of, restrict
from rmqstore.store.rocksdb.framing import with_length


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
        out.write(b"F" + with_length(name.encode()))
        for key, value in pairs_of(family):
            out.write(b"P" + with_length(key) + with_length(value))
    out.write(b".")


if __name__ == "__main__":
    main()
