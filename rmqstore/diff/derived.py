"""Everything besides the log in two copies: epochs, queues, index, consumer offsets, topics, groups and messages that wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rmqstore.diff.copies import Copy
from rmqstore.errors import RmqstoreError
from rmqstore.formats.epoch import EpochEntry, parse_epoch_file
from rmqstore.listing.configured import configuration
from rmqstore.listing.groups import list_groups
from rmqstore.listing.queues import list_queues
from rmqstore.listing.timers import list_timers
from rmqstore.reading.entries import unit_at
from rmqstore.store.mapped import MappedFileQueue
from rmqstore.store.parts import PartKind
from rmqstore.store.window import read_whole
from rmqstore.verify.parts.config import DELAY_OFFSETS, GROUPS, TABLES, TOPICS, stored_offsets

_LARGEST_EPOCHS = 16 << 20
_MOST_LISTED = 1000
_LEVEL = "delay level "
Rows = list[dict[str, Any]]
Place = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class NotCompared:
    """An area that could not be compared, and why."""

    area: str
    reason: str


@dataclass
class Derived:
    """The differences besides the log; each row names its place, the values of both copies as `first` and `second`, and their effect.

    `epochs`, `index`: values of both copies. Lists have the rows that differ. `timers`: messages that wait in one copy alone.
    """

    epochs: dict[str, Any]
    queues: Rows
    index: dict[str, Any]
    offsets: Rows
    topics: Rows
    groups: Rows
    timers: Rows
    not_compared: list[NotCompared]

    def as_json(self) -> dict[str, Any]:
        """Return the members of the object that JSON output shows (docs/json.md)."""
        return asdict(self)


def compare_derived(one: Copy, other: Copy, now: int) -> Derived:
    """Return the differences besides the log; `now` (ms) is the time for which delayed messages are listed."""
    missing: list[NotCompared] = []

    def compared(area: str, compare: Callable[[], Any], empty: Any) -> Any:
        try:
            return compare()
        except RmqstoreError as error:
            missing.append(NotCompared(area, error.message))
            return empty

    return Derived(
        compared("epochs", lambda: _epochs(one, other), {}),
        compared("queues", lambda: list(_queues(one, other)), []),
        {name: asdict(copy.summary.index) for name, copy in (("first", one), ("second", other))},
        compared("consumer offsets", lambda: [*_offsets(one, other), *_delays(one, other)], []),
        compared("topics", lambda: list(_settings(one, other, TOPICS, "topic")), []),
        compared("groups", lambda: list(_settings(one, other, GROUPS, "group")), []),
        compared("timers", lambda: list(_timers(one, other, now)), []),
        missing,
    )


def epochs_of(copy: Copy) -> Sequence[EpochEntry]:
    """Return the epochs of a copy, none without an epoch file. Raises UnreadableError, and ValueError for a damaged file."""
    path = copy.store.root / PartKind.EPOCH.value
    return parse_epoch_file(read_whole(path, _LARGEST_EPOCHS)).entries if path.is_file() else ()


def _epochs(one: Copy, other: Copy) -> dict[str, Any]:
    found: list[Sequence[EpochEntry] | None] = []
    for copy in (one, other):
        try:
            found.append(epochs_of(copy))
        except ValueError:
            found.append(None)
    first, second = (None if entries is None else [entry._asdict() for entry in entries] for entries in found)
    differing = next((number for number, (left, right) in enumerate(zip(first or (), second or (), strict=False)) if left != right), None)
    return {"first": first, "second": second, "first_difference": differing}


def _queues(one: Copy, other: Copy) -> Iterator[dict[str, Any]]:
    ends: list[dict[tuple[str, int], tuple[int | None, int | None]]] = []
    files: list[dict[tuple[str, int], MappedFileQueue]] = []
    for copy in (one, other):
        ends.append({(row.topic, row.queue_id): (row.min_offset, row.max_offset) for row in list_queues(copy.store, times=False)})
        files.append({(queue.topic, queue.queue_id): queue.files for queue in copy.store.queue_directories()})
    for key in sorted({*ends[0], *ends[1]}):
        first, second = ends[0].get(key), ends[1].get(key)
        shift = _shift(files[0].get(key), files[1].get(key), first, second)
        if first != second or shift:
            yield {
                "topic": key[0],
                "queue_id": key[1],
                "first": None if first is None else list(first),
                "second": None if second is None else list(second),
                "shift": shift,
            }


def _shift(
    one: MappedFileQueue | None,
    other: MappedFileQueue | None,
    first: tuple[int | None, int | None] | None,
    second: tuple[int | None, int | None] | None,
) -> int | None:
    """Return by how much the queue offset of the last message that both queues have is higher in the second one, None if unknown."""
    if one is None or other is None or first is None or second is None or None in (*first, *second):
        return None
    low, high = first[0] or 0, first[1] or 0
    last = unit_at(other, (second[1] or 0) - 1)
    while low < high:  # the last entry of the first queue at or before the last one of the second
        middle = (low + high) // 2
        unit = unit_at(one, middle)
        if unit is None or last is None or unit.physical_offset > last.physical_offset:
            high = middle
        else:
            low = middle + 1
    at = low - 1
    unit = unit_at(one, at) if at >= 0 else None
    if unit is None:
        return None
    low, high = second[0] or 0, second[1] or 0
    while low < high:
        middle = (low + high) // 2
        found = unit_at(other, middle)
        if found is not None and found.physical_offset < unit.physical_offset:
            low = middle + 1
        else:
            high = middle
    found = unit_at(other, low)
    return low - at if found is not None and found.physical_offset == unit.physical_offset else None


def _offsets(one: Copy, other: Copy) -> Iterator[dict[str, Any]]:
    """Yield the offsets that differ, with what a group gets twice or misses if it continues at the second copy after the first."""
    rows = [{(row.group, row.topic, row.queue_id): row.offset for row in list_groups(copy.store)} for copy in (one, other)]
    yield from _other_offsets(*rows)


def _delays(one: Copy, other: Copy) -> Iterator[dict[str, Any]]:
    """Yield the offsets of delay levels that differ, as `_offsets` does."""
    found = []
    for copy in (one, other):
        levels = [
            stored for stored in stored_offsets(copy.store, configuration(copy.store, DELAY_OFFSETS)) if stored.owner.startswith(_LEVEL)
        ]
        found.append({(stored.owner, stored.topic, stored.queue_id): stored.offset for stored in levels})
    yield from _other_offsets(*found)


def _other_offsets(one: Mapping[Place, int], other: Mapping[Place, int]) -> Iterator[dict[str, Any]]:
    for key in sorted({*one, *other}):
        first, second = one.get(key), other.get(key)
        if first != second:
            more = None if first is None or second is None else second - first
            yield {
                "group": key[0],
                "topic": key[1],
                "queue_id": key[2],
                "first": first,
                "second": second,
                "ahead": None if more is None else "second" if more > 0 else "first",
                "twice": None if more is None else max(0, -more),
                "missed": None if more is None else max(0, more),
            }


def _settings(one: Copy, other: Copy, file: str, what: str) -> Iterator[dict[str, Any]]:
    """Yield the topics or groups that one copy alone has, or that differ, with the names of the members that do."""
    tables: list[Mapping[str, Any]] = []
    for copy in (one, other):
        value = configuration(copy.store, file)[file].value or {}
        table = value.get(TABLES[file])
        tables.append(table if isinstance(table, dict) else {})
    for name in sorted({*tables[0], *tables[1]}):
        first, second = tables[0].get(name), tables[1].get(name)
        if first == second:
            continue
        members: list[str] = []
        if isinstance(first, dict) and isinstance(second, dict):
            members = sorted(key for key in {*first, *second} if first.get(key) != second.get(key))
        yield {what: name, "in": "first" if second is None else "second" if first is None else "both", "members": members}


def _timers(one: Copy, other: Copy, now: int) -> Iterator[dict[str, Any]]:
    one_only, other_only = ({row.physical_offset: row for row in list_timers(copy.store, now)} for copy in (one, other))
    for name, mine, others in (("first", one_only, other_only), ("second", other_only, one_only)):
        for offset in sorted(mine.keys() - others.keys())[:_MOST_LISTED]:
            row = mine[offset]
            yield {"in": name, "due": row.due, "kind": row.kind, "topic": row.topic, "physical_offset": offset}
