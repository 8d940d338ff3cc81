"""Tables of the configuration that lists are made from, and why one cannot be used."""

from __future__ import annotations

from collections.abc import Mapping

from rmqstore.errors import UnreadableError
from rmqstore.store.root import Store
from rmqstore.verify.parts.config import FILES, State, Text, in_rocksdb, in_use, read_both


def require_file_queues(store: Store) -> None:
    """Raise UnreadableError where the queues are kept in RocksDB alone."""
    if store.rocksdb_queues and next(store.queue_directories(), None) is None:
        raise UnreadableError(
            f"the queues of {store.root} are kept in RocksDB.", "RocksDB keeps its own format; read it with RocksDB's `ldb`."
        )


def configuration(store: Store, *needed: str) -> Mapping[str, Text]:
    """Return the configuration files as a start takes them, a damaged one from its `.bak`.

    Raises UnreadableError where RocksDB has the configuration, or one of the files `needed` is damaged.
    """
    if in_rocksdb(store):
        raise UnreadableError(
            f"topics, groups and consumer offsets of {store.root} are kept in RocksDB.",
            "RocksDB keeps its own format; read it with RocksDB's `ldb`.",
        )
    texts = {name: in_use(*read_both(store.config_path / name)) for name in FILES}
    for name in needed:
        if texts[name].state in (State.DAMAGED, State.EMPTY):
            raise UnreadableError(f"{texts[name].path} is {texts[name].why}.", "`rmqstore recover` restores it if a backup can be read.")
    return texts
