"""Copies of databases and stores to damage."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rocksdict import Options, Rdict

from rmqstore.store.rocksdb.databases import OFFSETS, REACHED_KEY, Database, DatabaseUse, database_in
from tests.rocksdb.damages import DATABASE_DAMAGES
from tests.support import stores

HERE = Path(__file__).parent
QUEUES = "consumequeue"
STORES = ("5.2.0-rocksdb", "5.3.3-rocksdb", "5.5.1-rocksdb")
"""Stores of the store code by itself, without a configuration."""


def recorded(name: str) -> Iterator[dict[str, Any]]:
    """The recorded cases in a file of this directory."""
    with (HERE / name).open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def damaged_store(base: str, damage: str, tmp_path: Path, database: str = QUEUES) -> Path:
    """An own copy of a sample store with a damaged database."""
    root = stores.fresh_store(base, tmp_path)
    DATABASE_DAMAGES[damage](root / database)
    return root


def unpack_database(name: str, target: Path) -> None:
    """Unpack a database that a broker of 5.3.3 wrote below `target`: rdb, topics, or topics-wal, which is `topics` after a kill."""
    with tarfile.open(HERE / "databases" / f"5.3.3-{name}.tar.xz") as archive:
        archive.extractall(target, filter="data")


@contextmanager
def opened(database: Path) -> Iterator[Mapping[str, Rdict]]:
    """Open a database for writing; yield its column families, all of which are written to tables at the end."""
    names = Rdict.list_cf(str(database))
    handle = Rdict(str(database), Options(raw_mode=True), column_families={name: Options(raw_mode=True) for name in names})
    families = {name: handle.get_column_family(name) for name in names}
    yield families
    for family in families.values():
        family.flush()
    families.clear()  # each of them keeps the database open
    handle.close()
    for path in database.iterdir():
        if path.name.startswith(("LOG", "rocksdict-config")):
            path.unlink()


def set_reached(database: Path, offset: int) -> None:
    """Make queues in RocksDB say that they know the log up to a physical offset."""
    with opened(database) as families:
        families[OFFSETS][REACHED_KEY] = offset.to_bytes(8, "big")


def database_of(root: Path, database: str = QUEUES, use: DatabaseUse = DatabaseUse.QUEUES) -> Database:
    found = database_in(root / database, use)
    assert found is not None
    return found
