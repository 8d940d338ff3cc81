"""Entries of consume queues that were exchanged with entries of another place, found by the order of physical offsets in each queue.

In a queue, physical offsets ascend. An entry that is out of order between two others that are in order belongs at another place. If
exactly one other such entry would be in order in its place, and it in the place of that one, the two were exchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

_MOST = 1024  # entries out of order: more of them are damage, and the search would grow with their square

EntryPlace = tuple[str, int, int]
"""Topic, queue id and queue offset of an entry."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry out of order: its place, its physical offset, and those of the entries before and after it."""

    place: EntryPlace
    position: int
    low: int
    high: int

    def takes(self, other: _Entry) -> bool:
        """Return whether another entry would be in order in this place."""
        return self.low < other.position < self.high


@dataclass(slots=True)
class OutOfOrder:
    """The entries out of order of a store, collected while its queues are read."""

    _entries: list[_Entry] = field(default_factory=list)

    def add(self, topic: str, queue_id: int, queue_offsets: npt.NDArray[np.int64], rows: npt.NDArray[np.void]) -> None:
        """Add those of consecutive entries of a queue; the first and the last one are not judged."""
        used = np.flatnonzero(rows["size"] > 0)
        positions = rows["physical_offset"][used].astype(np.int64)
        before, here, after = positions[:-2], positions[1:-1], positions[2:]
        for number in np.flatnonzero((before < after) & ((here < before) | (here > after)))[: _MOST + 1].tolist():
            place = topic, queue_id, int(queue_offsets[used[number + 1]])
            self._entries.append(_Entry(place, int(here[number]), int(before[number]), int(after[number])))

    def exchanged(self) -> Mapping[EntryPlace, EntryPlace]:
        """Return the place that each exchanged entry belongs to, by the place that holds it."""
        if len(self._entries) > _MOST:
            return {}
        found: dict[EntryPlace, EntryPlace] = {}
        for one in self._entries:
            partners = [other.place for other in self._entries if other is not one and other.takes(one) and one.takes(other)]
            if len(partners) == 1:
                found[one.place] = partners[0]
        return {here: there for here, there in found.items() if found.get(there) == here}
