"""Counts that add up: messages and bytes by the values of each dimension, and the sums of a log, as packets that travel.

Values of a dimension are divided into shares by a hash, and each share is added up where its packets come together. So a process holds the
values of a share and not of a dimension, and the heaviest values of all shares are the heaviest of the dimension.
"""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

MOST_VALUES = 10_000
"""Values of a dimension that a result lists."""

SHARES = 16
MOST_OF_SHARE = 1 << 18
"""Values of a share that are counted apart: four million of a dimension. With more, the lightest ones are removed while adding up."""

Value = str | int
"""A value of a dimension: a number if values have an order of their own (hours, sizes, codes), else a text."""


class Rest(NamedTuple):
    """Values without a row of their own, and their messages and bytes."""

    values: int = 0
    messages: int = 0
    bytes: int = 0


NOTHING = Rest()


@dataclass(slots=True)
class Sums:
    """(messages, bytes) by value. `rest` has the values that were removed; unless the sums are `exact`, a value may be in both."""

    rows: dict[Value, tuple[int, int]] = field(default_factory=dict)
    rest: Rest = NOTHING
    exact: bool = True

    def add(self, value: Value, messages: int, size: int) -> None:
        """Count messages and bytes of one value."""
        before = self.rows.get(value, (0, 0))
        self.rows[value] = before[0] + messages, before[1] + size

    def add_rest(self, values: int, messages: int, size: int) -> None:
        """Count what has no row of its own."""
        self.rest = Rest(self.rest.values + values, self.rest.messages + messages, self.rest.bytes + size)

    def merge(self, other: Sums) -> None:
        """Add other sums."""
        for value, (messages, size) in other.rows.items():
            self.add(value, messages, size)
        self.add_rest(*other.rest)
        self.exact &= other.exact

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

    def shares(self) -> Iterator[tuple[int, Sums]]:
        """Yield (number, sums) of the shares that have values; the rest belongs to the first one."""
        parts: dict[int, Sums] = defaultdict(Sums)
        for value, sums in self.rows.items():
            parts[zlib.crc32(str(value).encode("utf-8", "surrogatepass")) % SHARES].rows[value] = sums
        if self.rest != NOTHING or not self.exact:
            parts[0].rest, parts[0].exact = self.rest, self.exact
        yield from parts.items()

    def pack(self) -> bytes:
        """Return the sums as bytes; `unpack` reads them."""
        rows = [[value, *sums] for value, sums in self.rows.items()]
        return json.dumps([rows, self.rest, self.exact], separators=(",", ":")).encode()

    @classmethod
    def unpack(cls, data: bytes) -> Sums:
        """Return the sums of a packet."""
        rows, rest, exact = json.loads(data)
        return cls({value: (messages, size) for value, messages, size in rows}, Rest(*rest), exact)


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

    def merge(self, other: Totals) -> None:
        """Add the sums of other logs."""
        self.messages += other.messages
        self.bytes += other.bytes
        self.log_bytes += other.log_bytes
        self.damaged_ranges += other.damaged_ranges
        if other.first_store_timestamp is not None and other.last_store_timestamp is not None:
            self.saw(other.first_store_timestamp, other.last_store_timestamp)


_TOTALS = "totals"


@dataclass(slots=True)
class Counts:
    """All counts, by the name of the dimension."""

    dimensions: dict[str, Sums] = field(default_factory=dict)
    totals: Totals = field(default_factory=Totals)

    def of(self, name: str) -> Sums:
        """Return the sums of a dimension."""
        return self.dimensions.setdefault(name, Sums())

    def packets(self) -> Iterator[tuple[str, bytes]]:
        """Yield (key, data), which `added` adds up by key and `of_results` reads."""
        yield _TOTALS, json.dumps(asdict(self.totals), separators=(",", ":")).encode()
        for name, sums in self.dimensions.items():
            for number, share in sums.shares():
                yield f"{name}/{number:02d}", share.pack()

    @classmethod
    def of_results(cls, results: Iterable[tuple[str, bytes]]) -> Counts:
        """Return the counts of packets that were added up; of each dimension the heaviest values have rows."""
        counts = cls()
        for key, data in results:
            if key == _TOTALS:
                counts.totals.merge(Totals(**json.loads(data)))
            else:
                counts.of(key.partition("/")[0]).merge(Sums.unpack(data))
        for sums in counts.dimensions.values():
            sums.cut()
        return counts


def added(key: str, packets: Iterable[bytes]) -> bytes:
    """Return the sum of the packets of one key, cut to what a result may list; memory is bounded by twice MOST_OF_SHARE values."""
    if key == _TOTALS:
        totals = Totals()
        for packet in packets:
            totals.merge(Totals(**json.loads(packet)))
        return json.dumps(asdict(totals), separators=(",", ":")).encode()
    sums = Sums()
    for packet in packets:
        sums.merge(Sums.unpack(packet))
        if len(sums.rows) > 2 * MOST_OF_SHARE:
            sums.cut(MOST_OF_SHARE)
            sums.exact = False
    sums.cut()
    return sums.pack()
