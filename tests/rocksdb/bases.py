"""Copies of databases and stores to damage."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rmqstore.store.rocksdb import Database, DatabaseUse, database_in
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


def database_of(root: Path, database: str = QUEUES, use: DatabaseUse = DatabaseUse.QUEUES) -> Database:
    found = database_in(root / database, use)
    assert found is not None
    return found
