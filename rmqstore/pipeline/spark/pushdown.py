"""Filters that Spark pushes down (4.1 and later), as conditions of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql.datasource import EqualNullSafe, EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

from rmqstore.pipeline.spark.columns import TIMESTAMP, WITHIN, milliseconds
from rmqstore.pipeline.tables.selection import Condition

_BOUNDS: dict[type[Filter], Callable[[Any], Condition]] = {
    EqualTo: lambda value: Condition(among=frozenset({value})),
    EqualNullSafe: lambda value: Condition(among=frozenset({value})),
    GreaterThan: lambda value: Condition(low=value + 1),
    GreaterThanOrEqual: lambda value: Condition(low=value),
    LessThan: lambda value: Condition(high=value - 1),
    LessThanOrEqual: lambda value: Condition(high=value),
    In: lambda values: Condition(among=frozenset(value for value in values if value is not None)),
}
_SETS = (EqualTo, EqualNullSafe, In)
_UP = (GreaterThanOrEqual, LessThan)


def condition_of(one: Filter, kinds: Mapping[str, str]) -> tuple[str, Condition | None]:
    """Return (column, condition) for a filter that can be applied here, None for any other. `kinds`: types of the columns to select by."""
    bound = _BOUNDS.get(type(one))
    name = ".".join(getattr(one, "attribute", ()))
    if bound is None or name not in kinds:
        return name, None
    value: Any = one.value  # type: ignore[attr-defined]
    if kinds[name] == TIMESTAMP:
        low, high = (milliseconds(value, up=up) for up in (False, True))
        limit = high if isinstance(one, _UP) else low
        return name, None if limit is None or (isinstance(one, _SETS) and low != high) else bound(limit).both(WITHIN)
    values = [item for item in value if item is not None] if isinstance(one, In) else [value]
    is_text = kinds[name] == "string"
    fits = all(isinstance(item, str if is_text else int) and not isinstance(item, bool) for item in values)
    return name, bound(value) if fits and (isinstance(one, _SETS) or not is_text) else None
