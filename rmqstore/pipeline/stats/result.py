"""Counts as the objects that users see: one per dimension and value, and a summary. docs/stats.md documents the fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rmqstore.formats.sysflag import CompressionType
from rmqstore.pipeline.stats.counts import Counts, Rest, Sums, Value
from rmqstore.pipeline.stats.piece import COMPRESSED
from rmqstore.pipeline.stats.weights import Weight

FIELDS = ("type", "dimension", "value", "values", "messages", "bytes")
"""The fields of an object of type `stats`, in their order."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension: `shown` converts a counted value for users. `ranked`: ordered by weight and cut to a number of values."""

    name: str
    ranked: bool
    shown: Callable[[Value], Value]


def _same(value: Value) -> Value:
    return value


def _compression(value: Value) -> str:
    code = int(value)
    if not code:
        return "none"
    try:
        return CompressionType(code - COMPRESSED).name.lower()
    except ValueError:
        return f"unknown_{code - COMPRESSED}"


DIMENSIONS = (
    Dimension("store", True, _same),
    Dimension("topic", True, _same),
    Dimension("queue", True, _same),
    Dimension("tag", True, _same),
    Dimension("host", True, _same),
    Dimension("day", False, lambda value: str(np.datetime64(int(value), "D"))),
    Dimension("hour", False, lambda value: str(np.datetime64(int(value), "h"))),
    Dimension("size", False, lambda value: 1 << int(value)),
    Dimension("compression", False, _compression),
    Dimension("weight", False, lambda value: Weight(int(value)).name.lower()),
)


def objects(counts: Counts, top: int) -> Iterator[dict[str, Any]]:
    """Yield objects of type `stats`, dimension by dimension; of ranked ones the `top` heaviest values and one object for all others."""
    for dimension in DIMENSIONS:
        sums = counts.dimensions.get(dimension.name, Sums())
        rows, rest = sums.heaviest(), sums.rest
        if dimension.ranked:
            rows, others = rows[:top], rows[top:]
            rest = Rest(rest[0] + len(others), rest[1] + sum(row[1] for row in others), rest[2] + sum(row[2] for row in others))
        else:
            rows.sort()
        for value, messages, size in rows:
            yield _object(dimension.name, dimension.shown(value), 1, messages, size)
        if rest.values:
            yield _object(dimension.name, None, *rest)


def summary(counts: Counts, stores: int) -> dict[str, Any]:
    """Return the sums of all stores. `values`: the number of values per dimension, an upper bound for those in `approximate`."""
    weights = counts.dimensions.get("weight", Sums()).rows
    found = {each.name: counts.dimensions[each.name] for each in DIMENSIONS if each.name in counts.dimensions}
    return {
        "stores": stores,
        **asdict(counts.totals),
        "live_bytes": weights.get(int(Weight.LIVE), (0, 0))[1],
        "damaged_bytes": weights.get(int(Weight.DAMAGED), (0, 0))[1],
        "values": {name: len(sums.rows) + sums.rest.values for name, sums in found.items()},
        "approximate": [name for name, sums in found.items() if not sums.exact],
    }


def _object(dimension: str, value: Value | None, values: int, messages: int, size: int) -> dict[str, Any]:
    return dict(zip(FIELDS, ("stats", dimension, value, values, messages, size), strict=True))
