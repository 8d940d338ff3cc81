"""Which keys of the log lie between two index files: what a file that is built anew has to hold, when its neighbours stay.

The keys of one record may end one file and go on in the next, so a border is a record and a number of its keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from rmqstore.scan.walk import Batch
from rmqstore.verify.index import IndexView, first_record_items, last_record_items


@dataclass(frozen=True, slots=True)
class Border:
    """The record at physical offset `position`, of which a file that stays has `keys` items."""

    position: int
    keys: int


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Keys behind those that `after` has and before those that `before` has; None where no file is."""

    after: Border | None
    before: Border | None

    @property
    def start(self) -> int:
        """Physical offset before which no key of the range lies."""
        return 0 if self.after is None else self.after.position

    @property
    def stop(self) -> int | None:
        """Physical offset behind which no key of the range lies, None for none."""
        return None if self.before is None else self.before.position

    def select(self, batches: Iterable[Batch], *, tags: bool) -> Iterator[Batch]:
        """The records with keys in the range, and those keys; `tags`: keys of tags are indexed, too."""
        for batch in batches:
            keys = batch.keys if tags else batch.keys[batch.keys["is_tag"] == 0]
            if not len(keys):
                continue
            rows = keys["record"]
            positions = batch.records["position"][rows]
            # The keys of a record stand together: how many, and which of them each one is.
            counts = np.bincount(rows, minlength=len(batch.records))
            numbers = np.arange(len(rows)) - np.searchsorted(rows, rows)
            wanted = np.ones(len(rows), np.bool_)
            if self.after is not None:
                wanted &= (positions > self.after.position) | ((positions == self.after.position) & (numbers >= self.after.keys))
            if self.before is not None:
                left = counts[rows] - self.before.keys
                wanted &= (positions < self.before.position) | ((positions == self.before.position) & (numbers < left))
            if wanted.any():
                first, last = int(rows[wanted][0]), int(rows[wanted][-1])
                kept = keys[wanted].copy()
                kept["record"] -= first
                yield replace(batch, records=batch.records[first : last + 1], keys=kept)


def first_border(view: IndexView) -> Border:
    """The border at the beginning of a file with items. Raises UnreadableError, StoreChangedError."""
    return Border(view.item_offset(1), first_record_items(view))


def last_border(view: IndexView) -> Border:
    """The border at the end of a file with items. Raises UnreadableError, StoreChangedError."""
    return Border(view.last_offset, last_record_items(view))
