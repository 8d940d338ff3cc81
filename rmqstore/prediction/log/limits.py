"""Limits of index and transactions in RocksDB: a recovery from 5.4.0 on begins where they have all messages (newer releases §3.3)."""

from __future__ import annotations

from rmqstore.errors import UnreadableError
from rmqstore.prediction.blockers import Unknown
from rmqstore.reading.rocksdb.halves import last_half
from rmqstore.reading.rocksdb.indexdatabase import last_indexed
from rmqstore.reading.rocksdb.messagedatabase import message_database
from rmqstore.store.rocksdb.databases import DatabaseUse, databases
from rmqstore.store.rocksdb.library import START, probe
from rmqstore.store.root import Store
from rmqstore.versions import Profile


def known_in_rocksdb(store: Store, profile: Profile) -> tuple[int, ...]:
    """Return the physical offset of the last message of each part that settings keep in RocksDB, 0 for a part without any.

    Raises Unknown where the database is in use or cannot be read: brokers continue with what they can read.
    """
    config = store.config
    index = profile.message_database and config.flag("indexRocksDBEnable")
    halves = profile.message_database and config.flag("transRocksDBEnable")
    halves = halves and (profile.transactions_hold_recovery or not config.flag("transWriteOriginTransHalfEnable"))
    if not index and not halves:
        return ()
    try:
        database = next(databases(store, DatabaseUse.MESSAGES), None)
        unread = database is not None and database.may_have_entries and message_database(store, limit=START) is None
        if unread or (database is not None and not probe(database, START).sound):
            raise Unknown("rocksdbstore is in use or cannot be read: recovery begins where its index and transactions end")
        last = [last_indexed(store)] if index else []
        last += [last_half(store)] if halves else []
    except (UnreadableError, OSError) as error:
        raise Unknown(f"rocksdbstore cannot be read: {error}") from None
    return tuple(max(one or 0, 0) for one in last)
