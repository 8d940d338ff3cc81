"""The result of a statement: its columns and its rows, whose values are those of JSON."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

READ_ONLY = "Only statements that read are possible: select, with, values, describe, show, explain."


@dataclass(frozen=True, slots=True)
class Result:
    """Unique names of the columns, and the rows, which can be read once."""

    columns: tuple[str, ...]
    rows: Iterator[dict[str, Any]]


def unique(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names; a repeated one gets a number."""
    found: list[str] = []
    for name in names:
        number = 2
        wanted = name
        while wanted in found:
            wanted, number = f"{name}_{number}", number + 1
        found.append(wanted)
    return tuple(found)


def readable(schema: pa.Schema) -> Callable[[pa.RecordBatch], list[dict[str, Any]]]:
    """Return a function that makes rows of batches with this schema: bytes as base64, times as ISO 8601, decimal numbers as text.

    Columns whose values JSON has are not converted.
    """
    odd = [field.name for field in schema if not _is_plain(field.type)]

    def rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = batch.to_pylist(maps_as_pydicts="lossy")
        for row in found:
            for name in odd:
                row[name] = _value(row[name])
        return found

    return rows


def _is_plain(kind: pa.DataType) -> bool:
    types = pa.types
    if types.is_map(kind):
        return _is_plain(kind.item_type) and bool(types.is_string(kind.key_type))
    if types.is_list(kind):
        return _is_plain(kind.value_type)
    return bool(types.is_integer(kind) or types.is_string(kind) or types.is_boolean(kind) or types.is_null(kind))


def _value(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dict):
        return {name if isinstance(name, str) else str(_value(name)): _value(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_value(item) for item in value]
    return value.isoformat() if hasattr(value, "isoformat") else value
