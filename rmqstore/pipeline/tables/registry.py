"""The tables of a store by name. A table is imported on first use."""

from __future__ import annotations

import re
from importlib import import_module

from rmqstore.errors import UsageError
from rmqstore.pipeline.tables.table import Table

_LISTINGS = ("topics", "queues", "consumer_groups", "consumer_offsets", "delay_offsets", "checkpoint", "log_files")
TABLE_NAMES = ("messages", "consumequeue", "index", "timer", "findings", *_LISTINGS)


def find_table(name: str) -> Table:
    """Return the table with this name. Raises UsageError if there is none."""
    if name not in TABLE_NAMES:
        raise UsageError(f"There is no table {name!r}.", f"Tables are {', '.join(TABLE_NAMES)}.")
    if name in _LISTINGS:
        from rmqstore.pipeline.tables.listings import TABLES

        return next(table for table in TABLES if table.name == name)
    found: Table = import_module(f"rmqstore.pipeline.tables.{name}").TABLE
    return found


def named_in(text: str) -> tuple[str, ...]:
    """Return the tables whose names are words of a text."""
    return tuple(name for name in TABLE_NAMES if re.search(rf"\b{name}\b", text, re.IGNORECASE))
