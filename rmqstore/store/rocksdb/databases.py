"""RocksDB databases of a store: their directories, purposes and files. Nothing in them is read here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from rmqstore.store.brokerconf import ROCKSDB_STORE, BrokerConfig
from rmqstore.store.mapped import list_directory
from rmqstore.store.parts import PartKind

CURRENT = "CURRENT"
LOCK = "LOCK"
_TABLE = re.compile(r"[0-9]{6,}\.sst")
_WRITE_AHEAD_LOG = re.compile(r"[0-9]{6,}\.log")
_OWN = re.compile(
    r"CURRENT|IDENTITY|LOCK|LOG(\.old.*)?|(MANIFEST|OPTIONS)-[0-9]+(\.dbtmp)?|[0-9]{6,}\.(sst|log|blob|dbtmp)|rocksdict-config\.json"
)
_DATA = re.compile(r"CURRENT|MANIFEST-[0-9]+|[0-9]{6,}\.sst")
"""Without any of these there is no database; other files are remains of one."""
KEPT = ("IDENTITY", LOCK)
"""Files that a repair leaves, so that the directory is still known as one of RocksDB; a broker takes them over."""


class DatabaseUse(StrEnum):
    """The purpose of a database."""

    QUEUES = "consume queues"
    CONFIGURATION = "configuration"
    MESSAGES = "index, timer and transactions"
    POP = "pop consumption"


ENTRIES = "default"
"""The column family of the queues that holds their entries."""
OFFSETS = "offset"
"""The column family of the queues that holds their first and last offsets; a load reads it."""
_REACHED = b"CHECKPOINT_TOPIC"
REACHED_KEY = len(_REACHED).to_bytes(4, "big") + b"\x01" + _REACHED + b"\x01max\x01" + bytes(4)
"""Key in that family of the physical offset after the last record that was dispatched into the queues (fact sheet queues §8.3)."""
V2 = "rdb"
"""Database of the configuration with `configManagerVersion=v2`; all others are of v1."""
USERS = ("users", "acls")
"""Databases of the configuration that hold users and their rights, whatever `storeType` is."""
_PLACES = (
    (PartKind.CONSUMEQUEUE, DatabaseUse.QUEUES, ("",)),
    (PartKind.CONSUMEQUEUE_ROCKSDB, DatabaseUse.QUEUES, ("",)),
    (
        PartKind.CONFIG,
        DatabaseUse.CONFIGURATION,
        ("topics", "subscriptionGroups", "consumerOffsets", "metadata", V2, *USERS),
    ),
    (PartKind.ROCKSDBSTORE, DatabaseUse.MESSAGES, ("",)),
    (PartKind.KV_STORE, DatabaseUse.POP, ("",)),
)
"""Fact sheets queues §8.1, §9, releases 5.3.4 to 5.5 §9."""

_SWITCHES = {
    DatabaseUse.MESSAGES: ("indexRocksDBEnable", "timerRocksDBEnable", "transRocksDBEnable"),
    DatabaseUse.POP: ("popConsumerKVServiceInit", "popConsumerKVServiceEnable"),
}
"""Settings without which a broker does not use a database."""


@dataclass(frozen=True, slots=True)
class Database:
    """A directory with files of RocksDB. `files` are the names that belong to it; topics of file queues may be beside them."""

    directory: Path
    use: DatabaseUse
    files: tuple[str, ...]

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the SST files, listed in the MANIFEST or not."""
        return tuple(name for name in self.files if _TABLE.fullmatch(name))

    @property
    def starts_empty(self) -> bool:
        """Return whether a broker makes a new database here and deletes the tables: without CURRENT, and without a write-ahead log."""
        return CURRENT not in self.files and not any(map(_WRITE_AHEAD_LOG.fullmatch, self.files))

    @property
    def may_have_entries(self) -> bool:
        """Return whether there is a table, or a write-ahead log that is not empty."""
        return bool(self.tables) or any(_WRITE_AHEAD_LOG.fullmatch(name) and (self.directory / name).stat().st_size for name in self.files)

    @property
    def table_bytes(self) -> int:
        """Return the length of all SST files."""
        return sum((self.directory / name).stat().st_size for name in self.tables)


class _Store(Protocol):
    """The attributes of a store that this module needs."""

    config: BrokerConfig

    def covers(self, kind: PartKind) -> bool:
        """Return whether a part of this kind can be here."""

    def path_of(self, kind: PartKind) -> Path:
        """Return the directory or file of a part."""


def databases(store: _Store, use: DatabaseUse | None = None) -> Iterator[Database]:
    """Yield the databases of a store, or those of one use. Raises UnreadableError."""
    for kind, its_use, names in _PLACES:
        if store.covers(kind) and use in (None, its_use):
            for name in names:
                database = database_in(store.path_of(kind) / name, its_use)
                if database is not None:
                    yield database


def use_of(directory: Path) -> DatabaseUse:
    """Return the purpose of a database by the name of its directory; any other name is that of a configuration."""
    return next((use for kind, use, names in _PLACES if names == ("",) and kind.value == directory.name), DatabaseUse.CONFIGURATION)


def is_database_name(name: str) -> bool:
    """Return whether a file of this name belongs to a database."""
    return _OWN.fullmatch(name) is not None


def database_in(directory: Path, use: DatabaseUse) -> Database | None:
    """Return the database in a directory, None without one. Raises UnreadableError."""
    files = tuple(entry.name for entry in list_directory(directory) if is_database_name(entry.name) and entry.is_file())
    return Database(directory, use, files) if any(map(_DATA.fullmatch, files)) else None


def had_database(directory: Path) -> bool:
    """Return whether a directory holds a database, or the remains of one. Raises UnreadableError."""
    return any(entry.name == KEPT[0] or _DATA.fullmatch(entry.name) for entry in list_directory(directory) if entry.is_file())


def is_needed(store: _Store, database: Database) -> bool:
    """Return whether a broker uses a database, as far as its settings are known: without a setting, an existing one is used."""
    config = store.config
    match database.use:
        case DatabaseUse.MESSAGES | DatabaseUse.POP:
            return any(is_on(config.explicit(name)) for name in _SWITCHES[database.use])
        case DatabaseUse.QUEUES:
            return config.explicit("storeType") in (None, ROCKSDB_STORE) or is_on(config.explicit("rocksdbCQDoubleWriteEnable"))
        case DatabaseUse.CONFIGURATION if database.directory.name == V2:
            return config.explicit("configManagerVersion") in (None, "v2")
        case DatabaseUse.CONFIGURATION:
            return config.explicit("storeType") in (None, ROCKSDB_STORE) or database.directory.name in USERS


def searched_files(store: _Store) -> int:
    """Return how many files of the log, from the last one on, a start after a crash may go back to, from 5.4.0 on."""
    configured = store.config.integer("commitLogRecoverMaxNum")
    return configured if configured > 0 else BrokerConfig().integer("commitLogRecoverMaxNum")


def is_on(setting: str | None) -> bool:
    """Return whether a setting is true, as brokers read it."""
    return setting is not None and setting.strip().lower() == "true"
