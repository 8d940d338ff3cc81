"""RocksDB databases: an object for each entry."""

from __future__ import annotations

from collections.abc import Iterator

from rmqstore.dump.items import Value
from rmqstore.errors import UnreadableError
from rmqstore.store.rocksdb.databases import Database


def entries_of_database(name: str, database: Database) -> Iterator[Value]:
    """Yield the entries of all column families in their order. Raises UnreadableError if the library cannot read the database."""
    from rmqstore.reading.rocksdb.databaseentries import decoded
    from rmqstore.store.rocksdb.library import probe
    from rmqstore.store.rocksdb.streams import pairs_of_database

    report = probe(database, 0)
    if report.failed is not None or report.refused is not None:
        raise UnreadableError(
            f"{database.directory} is not opened by RocksDB: {report.failed or report.refused}.", "Run `rmqstore verify`."
        )
    for family, pair in pairs_of_database(database):
        if pair is not None:
            entry = decoded(database.use, family, *pair)
            yield {"type": "rocksdb_entry", "file": name, "family": family, "entry": entry.kind, "key": entry.key, "value": entry.value}
