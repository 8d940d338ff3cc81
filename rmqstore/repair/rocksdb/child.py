"""A process that makes a database of queues, so that a crash of the library ends this process alone.

`python -m rmqstore.repair.rocksdb.child DIRECTORY` reads from standard input, numbers big-endian: for each offset `L`, key and value, each
with its length (4 bytes) before it; for each queue `Q` and its prefix, as `rmqstore.store.rocksdb.entries` prints it, and then its entries
`E`, their number (4 bytes), and for each the queue offset (8 bytes) and the value (28 bytes); `.` at the end. Every broker opens what
comes of that: tables of format version 5 without compression (fact sheet queues §8.1).
"""

from __future__ import annotations

import resource
import sys
from typing import IO

from rocksdict import BlockBasedOptions, DBCompressionType, Options, Rdict, WriteBatch, WriteOptions

from rmqstore.store.rocksdb.databases import OFFSETS
from rmqstore.store.rocksdb.entries import ENTRIES, VALUE_SIZE
from rmqstore.store.rocksdb.framing import LENGTH, OFFSET_SIZE
from rmqstore.store.rocksdb.streams import exactly, prefixed

_FORMAT_VERSION = 5


def main() -> None:
    """Make the database."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    _write(sys.argv[1], sys.stdin.buffer)


def _write(directory: str, source: IO[bytes]) -> None:
    families = {ENTRIES: _options(), OFFSETS: _options()}
    database = Rdict(directory, _options(), column_families=families)
    entries, offsets = database.get_column_family_handle(ENTRIES), database.get_column_family_handle(OFFSETS)
    how = WriteOptions()
    how.disable_wal = True  # type: ignore[method-assign,assignment]  # an attribute, whatever the stubs say
    queue = b""
    while (kind := exactly(source, 1)) != b".":
        batch = WriteBatch(raw_mode=True)
        if kind == b"L":
            batch.put(prefixed(source), prefixed(source), offsets)
        elif kind == b"Q":
            queue = prefixed(source)
        else:
            for _ in range(int.from_bytes(exactly(source, LENGTH), "big")):
                batch.put(queue + exactly(source, OFFSET_SIZE), exactly(source, VALUE_SIZE), entries)
        database.write(batch, how)
    for name in families:
        family = database.get_column_family(name)
        family.flush()
        del family
    database.close()


def _options() -> Options:
    tables = BlockBasedOptions()
    tables.set_format_version(_FORMAT_VERSION)
    options = Options(raw_mode=True)
    options.set_compression_type(DBCompressionType.none())
    options.set_block_based_table_factory(tables)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    return options


if __name__ == "__main__":
    main()
