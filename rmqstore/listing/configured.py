"""Tables of the configuration that lists are made from, and why one cannot be used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rmqstore.errors import UnreadableError
from rmqstore.formats.javahash import LONG_MAX, LONG_MIN
from rmqstore.store.root import Store
from rmqstore.verify.parts.config import (
    CONSUMER_OFFSETS,
    FILES,
    GROUPS,
    TOPICS,
    State,
    Text,
    in_rocksdb,
    in_use,
    read_both,
    texts_in_database,
)


def configuration(store: Store, *needed: str) -> Mapping[str, Text]:
    """Return the configuration as a start takes it: of a damaged file the `.bak`, and what RocksDB has from there.

    Raises UnreadableError where one of the files `needed` is damaged, or RocksDB has it and it cannot be read, or is in use.
    """
    texts = {name: in_use(*read_both(store.config_path / name)) for name in FILES}
    if in_rocksdb(store):
        texts |= texts_in_database(store)
    for name in needed:
        text = texts[name]
        if text.in_database and text.state is State.MISSING and name in (TOPICS, GROUPS, CONSUMER_OFFSETS):
            raise UnreadableError(
                f"{name} of {store.root} is kept in RocksDB, in a database that is in use, cannot be read, or is one of several.",
                "`rmqstore verify` names what is wrong with a database; settings (--broker-conf) decide between several.",
            )
        if text.state in (State.DAMAGED, State.EMPTY):
            raise UnreadableError(f"{text.path} is {text.why}.", "`rmqstore recover` restores it if a backup can be read.")
    return texts


def number(config: Mapping[str, Any], name: str) -> int | None:
    """Return a number of an entry of the configuration, None for anything else, such as one that no Java number holds."""
    value = config.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and LONG_MIN <= value <= LONG_MAX else None
