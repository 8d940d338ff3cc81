"""A process that makes a database, so that a crash of the library ends this process alone.

`python -m rmqstore.repair.rocksdb.child DIRECTORY FAMILY…` reads from standard input, numbers big-endian: `F` and the number of a family
(4 bytes), into which goes what follows; for each entry `P`, key and value, each with its length (4 bytes) before it; for each queue `Q`
and its prefix, as `rmqstore.store.rocksdb.entries` prints it, and then its entries `E`, their number (4 bytes), and for each the queue
offset (8 bytes) and the value (28 bytes); `.` at the end. Every broker opens what comes of that: tables of format version 5 without
compression (fact sheet queues §8.1).
"""

from __future__ import annotations

import resource
import sys
from typing import IO

from rocksdict import BlockBasedOptions, DBCompressionType, Options, Rdict, WriteBatch, WriteOptions

from rmqstore.store.rocksdb.entries import VALUE_SIZE
from rmqstore.store.rocksdb.framing import END, ENTRY, FAMILY, LENGTH, OFFSET_SIZE
from rmqstore.store.rocksdb.streams import exactly, prefixed

_FORMAT_VERSION = 5
_TOGETHER = 1 << 12
"""Entries of a write."""


def main() -> None:
    """Make the database."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    _write(sys.argv[1], sys.argv[2:], sys.stdin.buffer)


def _write(directory: str, names: list[str], source: IO[bytes]) -> None:
    database = Rdict(directory, _options(), column_families={name: _options() for name in names})
    handles = [database.get_column_family_handle(name) for name in names]
    how = WriteOptions()
    how.disable_wal = True  # type: ignore[method-assign,assignment]  # an attribute, whatever the stubs say
    queue, family, batch, waiting = b"", handles[0], WriteBatch(raw_mode=True), 0
    while (kind := exactly(source, 1)) != END:
        if kind == FAMILY:
            family = handles[int.from_bytes(exactly(source, LENGTH), "big")]
        elif kind == b"Q":
            queue = prefixed(source)
        elif kind == ENTRY:
            batch.put(prefixed(source), prefixed(source), family)
            waiting += 1
        else:
            count = int.from_bytes(exactly(source, LENGTH), "big")
            for _ in range(count):
                batch.put(queue + exactly(source, OFFSET_SIZE), exactly(source, VALUE_SIZE), family)
            waiting += count
        if waiting >= _TOGETHER:
            database.write(batch, how)
            batch, waiting = WriteBatch(raw_mode=True), 0
    database.write(batch, how)
    for name in names:
        written = database.get_column_family(name)
        written.flush()
        del written
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
