"""Databases of a store that can be read: `rocksdbstore` – index, timed messages and transactions of 5.4.0 and later – and others."""

from __future__ import annotations

from rmqstore.store.liveness import liveness
from rmqstore.store.rocksdb.databases import Database, DatabaseUse, databases
from rmqstore.store.rocksdb.library import EVERYTHING, probe
from rmqstore.store.root import Store


def message_database(store: Store, *, family: str | None = None, limit: int = EVERYTHING) -> Database | None:
    """Return the database if it may have entries, of `family` if given, and the library found nothing wrong in it.

    None without one, and where a broker has the store open. Up to `limit` bytes of its tables are read. Raises OSError.
    """
    return readable_database(store, DatabaseUse.MESSAGES, family=family, limit=limit)


def readable_database(store: Store, use: DatabaseUse, *, family: str | None = None, limit: int = EVERYTHING) -> Database | None:
    """Return as `message_database` the first database of a use."""
    database = next(databases(store, use), None)
    if database is None or not database.may_have_entries or store.only is not None or liveness(store).in_use:
        return None
    report = probe(database, limit)
    if not report.sound or (family is not None and not any(one.name == family and one.entries for one in report.families)):
        return None
    return database
