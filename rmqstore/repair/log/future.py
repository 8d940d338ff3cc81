"""The commit log as it will be after its edits: the same bytes through an overlay, so that further planning reads the future log.

Nothing is written for that. Fillers are records like all others to a scanner, but no message: `batches` leaves them out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from rmqstore.formats.record import Record
from rmqstore.reading.records import record_at
from rmqstore.store.mapped import MappedFile, MappedFileQueue
from rmqstore.store.window import Window, map_window, read_at

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rmqstore.scan.walk import Batch, LogScanner


@dataclass(frozen=True, slots=True)
class Patch:
    """New bytes of the log: `data` at physical offset `start`, or, without data, zeros up to `end`."""

    start: int
    end: int
    data: bytes | None = None

    @classmethod
    def write(cls, start: int, data: bytes) -> Patch:
        """Return the patch that writes `data` at `start`."""
        return cls(start, start + len(data), data)


@dataclass(frozen=True, slots=True)
class LostUnit:
    """A queue unit whose message is lost: it points at physical offset `position`, `size` bytes."""

    topic: str
    queue_id: int
    queue_offset: int
    position: int
    size: int


@dataclass(frozen=True)
class FutureLog:
    """The log as it will be. All positions are physical offsets, all ranges [start, end).

    `files`: the files by offset, of full length; `present`: bytes of a file that are on disk where it is shorter than that (0 for a new
    file). `end_offset`: after the last record, where a broker continues. `damages`: ranges that hold fillers, placeholders or a BLANK,
    sorted, apart from each other. `lost_units`: the places in queues of the messages that were there, as far as they are known.
    `corrected`: records of which a field is corrected.
    """

    files: tuple[MappedFile, ...]
    end_offset: int
    patches: tuple[Patch, ...] = ()
    damages: tuple[tuple[int, int], ...] = ()
    lost_units: tuple[LostUnit, ...] = ()
    present: dict[str, int] = field(default_factory=dict)
    corrected: tuple[int, ...] = ()

    @property
    def min_offset(self) -> int:
        """Start of the first file, 0 without files."""
        return self.files[0].start if self.files else 0

    @cached_property
    def queue(self) -> MappedFileQueue:
        """The files, to find the one that holds an offset."""
        return MappedFileQueue(self.files, (), self.files[0].length if self.files else None)

    def is_damaged(self, offset: int) -> bool:
        """Return whether the record that began at this physical offset is lost."""
        at = bisect_right(self.damages, offset, key=lambda damage: damage[0]) - 1
        return at >= 0 and offset < self.damages[at][1]

    def batches(self, scanner: LogScanner) -> Iterator[Batch]:
        """Yield the records up to the end that are no fillers, in offset order; `scanner` was made with `windows=self.window`.

        The arrays of a batch are reused by the next one. Raises UnreadableError, StoreChangedError.
        """
        for file in self.files:
            if file.start >= self.end_offset:
                return
            for batch in scanner.batches(file):
                live = self.live(batch)
                if len(live.records):
                    yield live
                else:
                    scanner.drop()
                if int(batch.records["position"][-1]) >= self.end_offset:
                    return

    def live(self, batch: Batch) -> Batch:
        """Return the records of a batch, at least one, that are before the end and no fillers; maybe none."""
        kept = self._live(batch.records["position"])
        return batch if kept is None else _selected(batch, kept)

    def _live(self, positions: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Return which records of ascending positions are before the end and outside of damages; None for all."""
        first, last = int(positions[0]), int(positions[-1])
        low = bisect_right(self.damages, first, key=lambda damage: damage[1])
        touched = [damage for damage in self.damages[low:] if damage[0] <= last]
        if not touched and last < self.end_offset:
            return None
        kept = positions < self.end_offset
        for start, end in touched:
            kept &= (positions < start) | (positions >= end)
        return kept

    def record_at(self, offset: int) -> Record | None:
        """Return the record that will begin at `offset`, None where there is none."""
        return record_at(self.queue, offset, self.read) if offset < self.end_offset else None

    def read(self, file: MappedFile, position: int, length: int) -> bytes:
        """Return `length` bytes from byte `position` inside a file of the future log."""
        if not self._touches(file, position, length):
            return read_at(file, position, length)
        with self.window(file, position, length) as window:
            return window.array.tobytes()

    def window(self, file: MappedFile, position: int, length: int) -> Window:
        """Map as `map_window` does, with the bytes that will be there: a LogScanner takes this as `windows`."""
        if not self._touches(file, position, length):
            return map_window(file, position, length)
        import numpy as np

        array = np.zeros(length, np.uint8)
        there = min(length, max(0, self.present.get(str(file.path), file.length) - position))
        if there:
            with map_window(replace(file, length=position + there), position, there) as window:
                array[:there] = window.array
        start, end = file.start + position, file.start + position + length
        for patch in self._patches_in(start, end):
            low, high = max(patch.start, start), min(patch.end, end)
            if patch.data is None:
                array[low - start : high - start] = 0
            else:
                array[low - start : high - start] = np.frombuffer(patch.data, np.uint8)[low - patch.start : high - patch.start]
        array.flags.writeable = False
        return Window(None, array)

    def _touches(self, file: MappedFile, position: int, length: int) -> bool:
        if position + length > self.present.get(str(file.path), file.length):
            return True
        start = file.start + position
        return next(self._patches_in(start, start + length), None) is not None

    @cached_property
    def _ends(self) -> list[int]:
        return [patch.end for patch in self.patches]

    def _patches_in(self, start: int, end: int) -> Iterator[Patch]:
        """Yield the patches that touch [start, end)."""
        for number in range(bisect_right(self._ends, start), len(self.patches)):
            patch = self.patches[number]
            if patch.start >= end:
                return
            yield patch


def _selected(batch: Batch, kept: NDArray[np.bool_]) -> Batch:
    from rmqstore.scan.columns import select

    records, keys = select(batch.records, batch.keys, kept)
    return replace(batch, records=records, keys=keys)
