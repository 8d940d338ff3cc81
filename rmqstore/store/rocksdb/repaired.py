"""A process that repairs a copy of one database with the RocksDB library, and prints the keys and values that are left.

`python -m rmqstore.store.rocksdb.repaired DIRECTORY` writes to standard output what `rmqstore.store.rocksdb.pairs` does. The directory must
be a copy: the library writes tables into it and moves what it cannot read.
"""

from __future__ import annotations

import sys

from rocksdict import Options, Rdict

from rmqstore.store.rocksdb.child import restrict
from rmqstore.store.rocksdb.pairs import print_pairs
from rmqstore.store.rocksdb.streams import RECOVERY

_WRITTEN = 1 << 30


def main() -> None:
    """Repair the copy, and print its keys and values."""
    (directory,) = sys.argv[1:]
    restrict(_WRITTEN)
    Rdict.repair(directory, Options(raw_mode=True))
    print_pairs(directory, RECOVERY)


if __name__ == "__main__":
    main()
