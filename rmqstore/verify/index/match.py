"""A cursor that compares the entries of the index with the keys of the log."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from rmqstore.scan.kernels.index import (
    ITEM_SIZE,
    ITEMS_END,
    MATCHED_DTYPE,
    ODDITY_DTYPE,
    match_items,
)
from rmqstore.store.window import read_into
from rmqstore.verify.index.views import CHUNK_ITEMS, IndexView, first_item, first_record_items

_LOOK_AHEAD = 64
_LOOK_BACK = 64


@dataclass(slots=True)
class IndexMatch:
    """The comparison of one commit-log file with the index. Uncovered = keys for which no index file claims to hold entries."""

    matched: int = 0
    oddities: list[tuple[IndexView, npt.NDArray[np.void]]] = field(default_factory=list)
    before: int = 0  # keys before the first index file
    between: int = 0
    behind: int = 0  # keys after the last index file
    between_position: int = 0
    first_key_position: int = -1
    behind_position: int = -1
    leftovers: list[tuple[IndexView, int, int]] = field(default_factory=list)  # entries [from, to) without a key in the log


class IndexFiles:
    """The index files in the order of their names, those of them with entries (`filled`), and up to where these reach."""

    def __init__(self, views: Sequence[IndexView]) -> None:
        self.views = views
        self.filled = [view for view in views if view.items]
        self._reached = list(accumulate((view.reach for view in self.filled), max))

    def first_reaching(self, offset: int) -> int:
        """Return the number of the first file in `filled` that reaches physical offset `offset`; the number of them for none."""
        return bisect_left(self._reached, offset)


class IndexCursor:
    """A cursor over the entries of all index files beside the records of one commit-log file."""

    def __init__(self, files: IndexFiles) -> None:
        self._files = files
        self._views = files.filled
        self.result = IndexMatch()
        self._file = 0
        self._item = 1
        self._chunk_first = 0
        self._chunk_items = 0
        self._chunk_of: IndexView | None = None
        self._chunk = np.empty(CHUNK_ITEMS * ITEM_SIZE, np.uint8)
        self._matched = np.zeros(1, MATCHED_DTYPE)
        self._matched["last_offset"] = np.iinfo(np.int64).max  # that of no entry before a key
        self._oddities = np.empty(256, ODDITY_DTYPE)
        self._addresses = tuple(array.ctypes.data for array in (self._chunk, self._matched, self._oddities))

    def seek(self, offset: int) -> None:
        """Go to the first entry whose physical offset is not below `offset`."""
        self._file, self._item = self._files.first_reaching(offset), 1
        if self._file < len(self._views) and self._views[self._file].first_offset < offset:
            self._item = first_item(self._views[self._file], offset)

    def _load(self, view: IndexView) -> tuple[int, bool]:
        """Buffer entries at the cursor, and return (number of them, whether the buffer reaches the last entry)."""
        behind = self._chunk_first + self._chunk_items
        here = self._chunk_of is view and self._chunk_first <= self._item < behind
        if not here or (behind <= view.items and self._item + _LOOK_AHEAD >= behind):
            # Some entries before the cursor show whether one is there for the second time.
            first = max(self._item - _LOOK_BACK, 1)
            self._chunk_of, self._chunk_items = None, min(CHUNK_ITEMS, view.items + 1 - first)
            read_into(view.file, view.item_position(first), self._chunk[: self._chunk_items * ITEM_SIZE])
            self._chunk_first, self._chunk_of = first, view
            behind = first + self._chunk_items
        return self._chunk_items, behind > view.items

    def match(self, records: npt.NDArray[np.void], keys: npt.NDArray[np.void]) -> None:
        """Compare the keys of the next records with the entries at the cursor."""
        result = self.result
        key = 0
        if result.first_key_position < 0:
            result.first_key_position = int(records["position"][keys["record"][0]])
        while key < keys.size:
            if self._file >= len(self._views):
                positions = records["position"][keys["record"]]
                plain = keys["is_tag"] == 0
                missed = int(np.count_nonzero(plain[key:]))
                if missed and result.behind_position < 0:
                    result.behind_position = int(positions[key:][np.argmax(plain[key:])])
                result.behind += missed
                return
            view = self._views[self._file]
            if self._item == 1:
                positions = records["position"][keys["record"]]
                plain = keys["is_tag"] == 0
                covered = int(np.searchsorted(positions, view.first_offset, side="left"))
                if covered > key and not _is_outlier(view):
                    missed = int(np.count_nonzero(plain[key:covered]))
                    if self._file == 0:
                        result.before += missed
                    elif missed:
                        result.between_position = result.between_position or int(positions[key])
                        result.between += missed
                    key = covered
                    if key >= keys.size:
                        return
                key = self._skip_straddled(view, positions, keys, key)
            count, last = self._load(view)
            chunk, matched, oddities = self._addresses
            key, local, used, state = match_items(
                records.ctypes.data,
                keys.ctypes.data,
                key,
                keys.size,
                chunk,
                self._chunk_first,
                self._item - self._chunk_first,
                count,
                int(last),
                view.begin,
                view.first_seconds,
                matched,
                oddities,
                self._oddities.size,
            )
            self._item = self._chunk_first + local
            if used:
                result.oddities.append((view, self._oddities[:used].copy()))
            if state == ITEMS_END and last:
                self._file += 1
                self._item = 1

    def _skip_straddled(self, view: IndexView, positions: npt.NDArray[np.int64], keys: npt.NDArray[np.void], key: int) -> int:
        """Return the first key in this file: keys of one message may begin in an earlier file, and those are gone if that file is."""
        if key >= keys.size or positions[key] != view.first_offset:
            return key
        same = int(np.searchsorted(positions, view.first_offset, side="right"))
        hits = np.flatnonzero(keys["hash"][key:same] == view.first_hash)
        if hits.size > 1:
            # A message may have the same key twice: as many of its keys are here as there are entries of it, with tags or without.
            items, tags = first_record_items(view), int(np.count_nonzero(keys["is_tag"][key:same]))
            left = same - key - hits
            hits = np.concatenate([hits[(left == items) | (left - tags == items)], hits])
        return key + int(hits[0]) if hits.size else key

    def finish(self, end: int) -> IndexMatch:
        """Collect the entries below physical offset `end` that no key came up for, and return the result."""
        while self._file < len(self._views):
            view = self._views[self._file]
            stop = first_item(view, end, self._item)
            if stop > self._item:
                self.result.leftovers.append((view, self._item, stop))
            if stop <= view.items:
                break
            self._file += 1
            self._item = 1
        self.result.matched = int(self._matched["items"][0])
        return self.result


def _is_outlier(view: IndexView) -> bool:
    """Return whether the offset of entry 1 is after that of entry 2: then it does not show where the file begins."""
    return view.items > 1 and view.item_offset(2) < view.first_offset
