"""Counts that add up: messages and bytes by the values of each dimension, and the sums of a log, as a packet that travels."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

MOST_VALUES = 10_000
"""Values of a dimension that a packet or a result holds; up to this number, counts are exact."""

Value = str | int
"""A value of a dimension: a number if values have an order of their own (hours, sizes, codes), else a text."""


@dataclass(slots=True)
class Sums:
    """(messages, bytes) by value. `rest` are (values, messages, bytes) of the lightest ones, which were removed; a value may be in both."""

    rows: dict[Value, tuple[int, int]] = field(default_factory=dict)
    rest: tuple[int, int, int] = (0, 0, 0)

    def add(self, value: Value, messages: int, size: int) -> None:
        """Count messages and bytes of one value."""
        before = self.rows.get(value, (0, 0))
        self.rows[value] = before[0] + messages, before[1] + size

    def add_rest(self, values: int, messages: int, size: int) -> None:
        """Count what has no row of its own."""
        self.rest = self.rest[0] + values, self.rest[1] + messages, self.rest[2] + size

    def heaviest(self) -> list[tuple[Value, int, int]]:
        """Return (value, messages, bytes), most bytes first, equal ones by messages and value."""
        rows = [(value, *sums) for value, sums in self.rows.items()]
        return sorted(rows, key=lambda row: (-row[2], -row[1], row[0]))

    def cut(self, most: int = MOST_VALUES) -> None:
        """Move the lightest values to the rest if there are more than `most`."""
        if len(self.rows) <= most:
            return
        for value, messages, size in self.heaviest()[most:]:
            del self.rows[value]
            self.add_rest(1, messages, size)


@dataclass(slots=True)
class Totals:
    """Sums of logs. Times are ms since epoch, of records with a plausible one; None without any."""

    messages: int = 0
    bytes: int = 0  # of records
    log_bytes: int = 0  # of files
    damaged_ranges: int = 0
    first_store_timestamp: int | None = None
    last_store_timestamp: int | None = None

    def saw(self, first: int, last: int) -> None:
        """Widen the range of times."""
        self.first_store_timestamp = first if self.first_store_timestamp is None else min(first, self.first_store_timestamp)
        self.last_store_timestamp = last if self.last_store_timestamp is None else max(last, self.last_store_timestamp)


@dataclass(slots=True)
class Counts:
    """All counts, by the name of the dimension."""

    dimensions: dict[str, Sums] = field(default_factory=dict)
    totals: Totals = field(default_factory=Totals)

    def of(self, name: str) -> Sums:
        """Return the sums of a dimension."""
        return self.dimensions.setdefault(name, Sums())

    def add(self, other: Counts) -> None:
        """Add other counts; memory stays bounded by twice MOST_VALUES for each dimension."""
        for name, sums in other.dimensions.items():
            own = self.of(name)
            for value, (messages, size) in sums.rows.items():
                own.add(value, messages, size)
            own.add_rest(*sums.rest)
            own.cut()
        mine, theirs = self.totals, other.totals
        mine.messages += theirs.messages
        mine.bytes += theirs.bytes
        mine.log_bytes += theirs.log_bytes
        mine.damaged_ranges += theirs.damaged_ranges
        if theirs.first_store_timestamp is not None and theirs.last_store_timestamp is not None:
            mine.saw(theirs.first_store_timestamp, theirs.last_store_timestamp)

    def pack(self) -> bytes:
        """Return the counts as bytes; `unpack` reads them."""
        dimensions = {name: [list(_rows(sums)), sums.rest] for name, sums in self.dimensions.items()}
        return json.dumps([dimensions, asdict(self.totals)], separators=(",", ":")).encode()

    @classmethod
    def unpack(cls, data: bytes) -> Counts:
        """Return the counts of a packet."""
        dimensions, totals = json.loads(data)
        return cls({name: _sums(rows, rest) for name, (rows, rest) in dimensions.items()}, Totals(**totals))


def added(packets: Iterable[bytes]) -> Counts:
    """Return the sum of packets."""
    counts = Counts()
    for packet in packets:
        counts.add(Counts.unpack(packet))
    return counts


def _rows(sums: Sums) -> Iterator[list[Any]]:
    for value, (messages, size) in sums.rows.items():
        yield [value, messages, size]


def _sums(rows: list[list[Any]], rest: list[int]) -> Sums:
    values, messages, size = rest
    return Sums({row[0]: (row[1], row[2]) for row in rows}, (values, messages, size))
