"""Rows of a table and objects of `rmqstore dump`, in a form in which they can be compared."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rmqstore.pipeline.job import StoreAt
from rmqstore.pipeline.tables.registry import find_table
from rmqstore.pipeline.tables.selection import Selection
from rmqstore.pipeline.tables.table import everything, schema
from rmqstore.reading.progress import silent
from tests.support.cli import rmqstore
from tests.support.stores import Case

Row = dict[str, Any]


def rows_of(name: str, at: StoreAt, selection: Selection | None = None) -> list[Row]:
    """The rows of all parts; every batch has the schema of the table and holds what Arrow allows."""
    table = find_table(name)
    chosen = selection or everything(table)
    found: list[Row] = []
    for part in table.parts(at, chosen):
        for batch in table.read(part, chosen, silent):
            batch.validate(full=True)
            assert batch.schema.equals(schema(table, chosen.columns))
            assert batch.num_rows
            found += batch.to_pylist(maps_as_pydicts="strict")
    return found


def at_sample(sample: Case, root: Path) -> StoreAt:
    """A sample store, or a damaged copy of it, with the settings that it was written with."""
    return StoreAt.of(root, None, sample.settings(root))


def dumped(sample: Case, root: Path, *options: str) -> list[Row]:
    """The objects of `rmqstore dump`."""
    run = rmqstore("dump", root, "--format", "json", *sample.set_options(root), *options)
    assert run.status == 0, run.err
    return run.objects


def dumped_messages(sample: Case, root: Path, *options: str) -> list[Row]:
    """The messages of `rmqstore dump`, those inside of DLedger entries too, as rows of the table of messages."""
    return [_message(value) for value in _messages(dumped(sample, root, "--body", "hex", *options))]


def _messages(objects: Iterable[Row]) -> Iterable[Row]:
    for value in objects:
        if value["type"] == "message":
            yield value
        elif value["type"] == "dledger_entry" and value["message"]:
            yield value["message"]


def _message(value: Row) -> Row:
    row = {"faults": None} | value | {"body": bytes.fromhex(value["body"])}
    return {name: row[name] for name in row if name not in ("type", "schema", "body_encoding")}
