"""A selection of a table: columns, and conditions on columns that let whole parts be skipped and drop rows before they are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a value: from `low` to `high`, both included, and one of `among`; None means no limit. A null meets none."""

    low: int | None = None
    high: int | None = None
    among: frozenset[Any] | None = None

    def __str__(self) -> str:
        limits = [] if self.among is None else [f"one of {sorted(self.among)}"]
        limits += [f"{word} {value}" for word, value in (("from", self.low), ("to", self.high)) if value is not None]
        return " ".join(limits) or "any value"

    def both(self, other: Condition) -> Condition:
        """Return the conjunction with another condition."""
        lows = [one.low for one in (self, other) if one.low is not None]
        highs = [one.high for one in (self, other) if one.high is not None]
        bounds = Condition(max(lows, default=None), min(highs, default=None))
        sets = [one.among for one in (self, other) if one.among is not None]
        if not sets:
            return bounds
        return replace(bounds, among=frozenset(value for value in sets[0] & sets[-1] if bounds.met_by(value)))

    def met_by(self, value: Any) -> bool:
        """Return whether one value meets it."""
        if value is None:
            return False
        if self.among is not None and value not in self.among:
            return False
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    def may_be_met(self, first: int, last: int) -> bool:
        """Return whether some number from `first` to `last` can meet it."""
        if self.among is not None:
            return any(first <= value <= last and self.met_by(value) for value in self.among)
        return (self.low is None or self.low <= last) and (self.high is None or self.high >= first)

    def mask(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which of the numbers meet it."""
        met = np.ones(len(values), np.bool_)
        if self.low is not None:
            met &= values >= self.low
        if self.high is not None:
            met &= values <= self.high
        if self.among is not None:
            met &= np.isin(values, np.array(sorted(self.among), np.int64))
        return met


@dataclass(frozen=True, slots=True)
class Selection:
    """Columns by name, in the selected order, and conditions that a row must all meet, by column; those need not be selected columns.

    `derived`: messages are found by what brokers derive from the log where that answers.
    """

    columns: tuple[str, ...]
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    derived: bool = False

    def meets(self, column: str, value: Any) -> bool:
        """Return whether rows with this value in a column can be selected."""
        condition = self.conditions.get(column)
        return condition is None or condition.met_by(value)

    def may_meet(self, column: str, first: int, last: int) -> bool:
        """Return whether a part whose values in a column are from `first` to `last` can have selected rows."""
        condition = self.conditions.get(column)
        return condition is None or condition.may_be_met(first, last)

    def accepts(self, row: Mapping[str, Any]) -> bool:
        """Return whether a row is selected."""
        return all(condition.met_by(row[name]) for name, condition in self.conditions.items())

    def wants(self, *columns: str) -> bool:
        """Return whether any of these columns is to be made."""
        return not set(columns).isdisjoint(self.columns)

    def first(self, column: str) -> int | None:
        """Return the smallest selected number in a column, None without such a bound."""
        condition = self.conditions.get(column, Condition())
        return min(condition.among) if condition.among else condition.low

    def last(self, column: str) -> int | None:
        """Return the largest selected number in a column, None without such a bound."""
        condition = self.conditions.get(column, Condition())
        return max(condition.among) if condition.among else condition.high
