"""Ranges of keys of the log between two index files: what a rebuilt file has to hold, when its neighbours stay.

The keys of one record may end one file and continue in the next, so a border is a record and a number of its keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from rmqstore.scan.walk import Batch
from rmqstore.verify.index.views import IndexView, first_record_items, last_record_items


@dataclass(frozen=True, slots=True)
class Border:
    """The record at physical offset `position`, of which a file that stays has `keys` entries; `hashes` are theirs if it begins there."""

    position: int
    keys: int
    hashes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Keys after those that `after` has and before those that `before` has; None where no file is."""

    after: Border | None
    before: Border | None

    @property
    def start(self) -> int:
        """Physical offset before which the range has no key."""
        return 0 if self.after is None else self.after.position

    @property
    def stop(self) -> int | None:
        """Physical offset after which the range has no key, None for none."""
        return None if self.before is None else self.before.position

    def select(self, batches: Iterable[Batch], *, tags: bool) -> Iterator[Batch]:
        """Yield the records with keys in the range, and those keys; `tags`: keys of tags are indexed, too."""
        for batch in batches:
            keys = batch.keys if tags else batch.keys[batch.keys["is_tag"] == 0]
            if not len(keys):
                continue
            rows = keys["record"]
            positions = batch.records["position"][rows]
            # The keys of a record follow each other: which of them each one is.
            numbers = np.arange(len(rows)) - np.searchsorted(rows, rows)
            wanted = np.ones(len(rows), np.bool_)
            if self.after is not None:
                wanted &= (positions > self.after.position) | ((positions == self.after.position) & (numbers >= self.after.keys))
            if self.before is not None:
                here = positions == self.before.position
                wanted &= (positions < self.before.position) | (here & (numbers < self._left(keys[here])))
            if wanted.any():
                first, last = int(rows[wanted][0]), int(rows[wanted][-1])
                kept = keys[wanted].copy()
                kept["record"] -= first
                yield replace(batch, records=batch.records[first : last + 1], keys=kept)

    def _left(self, keys: npt.NDArray[np.void]) -> int:
        """Return how many of the keys (KEY_DTYPE) of the border's record come before those that the file `before` has.

        A file of a release before 5.4.0 has no index entry for the tag, which is the last key.
        """
        assert self.before is not None
        with_tag = len(keys) - self.before.keys
        for left in (with_tag, with_tag - int(keys["is_tag"].sum())):
            if 0 <= left < len(keys) and tuple(keys["hash"][left : left + self.before.keys].tolist()) == self.before.hashes:
                return left
        return with_tag


def first_border(view: IndexView) -> Border:
    """Return the border at the beginning of a file with entries. Raises UnreadableError, StoreChangedError."""
    count = first_record_items(view)
    hashes = [int(value) for _, rows in view.rows(1, count + 1) for value in rows["key_hash"].tolist()]
    return Border(view.item_offset(1), count, tuple(hashes))


def last_border(view: IndexView) -> Border:
    """Return the border at the end of a file with entries. Raises UnreadableError, StoreChangedError."""
    return Border(view.last_offset, last_record_items(view))
