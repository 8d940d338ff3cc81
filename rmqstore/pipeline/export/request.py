"""The request for an export: format, columns, bodies, partitions, filters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any

from rmqstore.dump.message import MESSAGE_FIELDS
from rmqstore.dump.request import BodyForm, Filters, Request
from rmqstore.errors import UsageError
from rmqstore.pipeline.tables.selection import Condition, Selection

_BODY_COLUMNS = ("body", "body_encoding")
PARTITIONS = ("topic", "queue_id", "day")
"""Fields by which Parquet files can be divided; `day` is the day of the store time in UTC."""


class Format(StrEnum):
    """The format of exported messages."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


class Body(StrEnum):
    """The bodies in an export: none, as stored, or decompressed."""

    NONE = "none"
    RAW = "raw"
    DECODED = "decoded"


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """A consistent request, made by `of`. `whole_lines`: JSON lines are those of a dump, with the fields that each has.

    `csv_raw`: cells of CSV are not changed, not even those that a spreadsheet would execute.
    """

    format: Format
    columns: tuple[str, ...]
    body: Body
    partition_by: tuple[str, ...]
    filters: Filters
    whole_lines: bool
    csv_raw: bool = False

    @classmethod
    def of(
        cls,
        format: Format,
        columns: Sequence[str] | None,
        body: Body,
        partition_by: Sequence[str],
        filters: Filters,
        *,
        csv_raw: bool = False,
    ) -> ExportRequest:
        """Return the request; without columns, all that the format has. Raises UsageError for contradicting options."""
        known = known_columns(format, body)
        unknown = next((name for name in columns or () if name not in known), None)
        if unknown in _BODY_COLUMNS and body is Body.NONE:
            raise UsageError(f"There is no column {unknown} without bodies.", "Give --body raw or --body decoded, too.")
        if unknown is not None:
            raise UsageError(f"There is no column {unknown!r}.", f"Columns are {', '.join(known)}.")
        odd = next((name for name in partition_by if name not in PARTITIONS), None)
        if odd is not None:
            raise UsageError(f"Files cannot be divided by {odd!r}.", f"They can be by {', '.join(PARTITIONS)}.")
        if partition_by and format is not Format.PARQUET:
            raise UsageError(f"--partition-by is for Parquet, not for {format}.", "Leave it out, or use --format parquet.")
        chosen = tuple(dict.fromkeys(columns or known))
        if set(chosen) <= set(partition_by):
            raise UsageError("No column would be left for the files.", "Give more columns than those that the files are divided by.")
        whole_lines = format is Format.JSONL and not columns
        return cls(format, chosen, body, tuple(dict.fromkeys(partition_by)), filters, whole_lines, csv_raw and format is Format.CSV)

    @property
    def conditions(self) -> Selection:
        """Return the filters as conditions on numeric columns of the scan; key and tag are not among them."""
        filters = self.filters
        before = None if filters.to_offset is None else filters.to_offset - 1
        bounds = {
            "position": (filters.from_offset, before),
            "queue_id": (filters.queue_id, filters.queue_id),
            "queue_offset": (filters.queue_offset, filters.queue_offset),
            "store_timestamp": (filters.from_time, filters.to_time),
        }
        conditions = {name: Condition(low, high) for name, (low, high) in bounds.items() if (low, high) != (None, None)}
        if filters.topic is not None:
            conditions["topic"] = Condition(among=frozenset({filters.topic}))
        return Selection(self.columns, conditions)

    @property
    def body_form(self) -> BodyForm:
        """Return how text shows bodies."""
        return {Body.NONE: BodyForm.NONE, Body.RAW: BodyForm.BASE64, Body.DECODED: BodyForm.TEXT}[self.body]

    def dump_request(self, filters: Filters) -> Request:
        """Return the same as a request for a dump, with other filters."""
        return Request(filters, body=self.body_form, decompress=self.body is Body.DECODED)

    def as_json(self) -> dict[str, Any]:
        """Return everything that decides what is written, by the names of the options."""
        wanted = {one.name: getattr(self.filters, one.name) for one in fields(Filters) if not one.name.startswith("_")}
        plain = {name: value for name, value in asdict(self).items() if name != "filters"}
        if self.format is not Format.CSV:
            del plain["csv_raw"]
        return {**plain, "columns": list(self.columns), "partition_by": list(self.partition_by), "filters": wanted}


def known_columns(format: Format, body: Body) -> tuple[str, ...]:
    """Return the columns that a format can have, in order: the fields of a message in `rmqstore dump --format json`."""
    bodies = () if body is Body.NONE else _BODY_COLUMNS[:1] if format is Format.PARQUET else _BODY_COLUMNS
    return (*MESSAGE_FIELDS, "tags_code", "position", *bodies, "faults")
