"""The messages that a start discards, counted as far as that costs no more than the start's own reading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rmqstore.errors import RmqstoreError
from rmqstore.prediction.losses import lost_records
from rmqstore.store.mapped import MappedFile
from rmqstore.store.window import data_extents

CHEAP = 256 << 20
"""Bytes that may always be read."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Valid messages after the end that recovery finds. `uncounted`: further files with data that were not read, and their bytes."""

    messages: int = 0
    bytes: int = 0
    uncounted_files: int = 0
    uncounted_bytes: int = 0

    @property
    def anything(self) -> bool:
        """Whether something is lost."""
        return self.messages > 0 or self.uncounted_files > 0


def losses_after(files: Sequence[MappedFile], end: int, unread: Sequence[MappedFile], budget: int) -> Loss:
    """Return what `files` hold at or after offset `end`.

    Of `unread`, files after the range, as many are read as `budget` bytes allow, or `CHEAP` ones.

    Files whose first bytes are zeros hold nothing a broker would read; they are in neither of the two. Raises StoreChangedError,
    UnreadableError.
    """
    counted = [file for file in files if file.start <= end < file.end]
    known = {file.start for file in counted}
    left = max(budget, CHEAP)
    skipped: list[int] = []
    for file in unread:
        if file.end <= end or file.start in known:
            continue
        size = _data_bytes(file)
        if size <= left:
            counted.append(file)
            left -= size
        else:
            skipped.append(size)
    lost = lost_records(counted, end)
    return Loss(lost.messages, lost.bytes, len(skipped), sum(skipped))


def _data_bytes(file: MappedFile) -> int:
    """Return the bytes of the file that are no hole; all of them where that is unknown."""
    try:
        return sum(end - begin for begin, end in data_extents(file))
    except RmqstoreError:
        return file.length
