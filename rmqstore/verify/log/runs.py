"""Runs of valid records in a file, and where in the log each belongs by its PHYSICALOFFSETs: evidence that bytes were moved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from rmqstore.formats.message import BLANK, BLANK_MAGIC, BLANK_SIZE
from rmqstore.scan.columns import Check, Fault
from rmqstore.scan.walk import LogScanner
from rmqstore.store.mapped import MappedFile
from rmqstore.store.window import read_at

_DEEPEST = 2  # invalid records inside of invalid ones that are searched: blocks of a disk are in one, and crafted bytes may nest for ever
_UNSOUND = int(Fault.BODY_CRC | Fault.PROPERTY_CRC)


@dataclass(frozen=True, slots=True)
class LogBytes:
    """Bytes [position, position + length) of `file` that belong at physical offset `start`; `records` of them are known to be valid."""

    file: MappedFile
    position: int
    start: int
    length: int
    records: int

    @property
    def end(self) -> int:
        """The physical offset after the bytes, where they belong."""
        return self.start + self.length

    @property
    def position_end(self) -> int:
        """The byte of the file after them."""
        return self.position + self.length


@dataclass(frozen=True, slots=True)
class Run(LogBytes):
    """Valid records one after another. Times are STORETIMESTAMPs of the first and the last one, in ms since the epoch."""

    first_timestamp: int
    last_timestamp: int
    last_size: int  # bytes of the last record

    @property
    def shift(self) -> int:
        """The distance of the run from its place by the name of its file: bytes to add; 0 for records in their place."""
        return self.start - self.file.start - self.position


def runs_of(file: MappedFile, start: int = 0, stop: int | None = None, *, depth: int = 0) -> Iterator[Run]:
    """Yield the runs of a file in the order of their bytes, those in their place among them; `start` and `stop` are bytes of the file.

    Valid means consistent lengths, and CRCs of body and properties that fit. Bytes inside of a record that is not valid are searched as
    well, up to a `depth`: they may be those of another place. Raises UnreadableError, StoreChangedError.
    """
    yield from joined(_pieces(file, start, stop, depth))


def _pieces(file: MappedFile, start: int, stop: int | None, depth: int) -> Iterator[Run]:
    """Yield the runs of a file, cut where batches of the scan end."""
    scanner = LogScanner(checks=Check.BODY_CRC | Check.PROPERTY_CRC, displaced=True)
    part = file if stop is None else replace(file, length=min(stop, file.length))
    for batch in scanner.batches(part, start=file.start + start):
        for run, sound in runs_of_batch(file, batch.records):
            if sound:
                yield run
            elif depth < _DEEPEST:
                yield from _inside(file, run.position, batch.records, depth + 1)


def blank_after(run: LogBytes, file_size: int) -> int:
    """Return the bytes of the BLANK after records that closes the log file of `file_size` bytes where they belong, 0 for none."""
    rest = -run.end % file_size
    if rest < BLANK_SIZE or run.position_end + BLANK_SIZE > run.file.length:
        return 0
    fields = BLANK.parse(read_at(run.file, run.position_end, BLANK_SIZE))
    return rest if (fields.total_size, fields.magic_code) == (rest, BLANK_MAGIC) else 0


def foreign_ranges(file: MappedFile, file_size: int) -> list[tuple[int, int]]:
    """Return the ranges [start, end) of a log file, as physical offsets by its name, that belong to other files of the log, ascending.

    Bytes between two such runs do as well, if no record of this file is between them: a file is written from its start on. `file_size`
    is that of all log files. Raises UnreadableError, StoreChangedError.
    """
    found: list[tuple[int, int]] = []
    follows = False
    for run in runs_of(file):
        start, end = file.start + run.position, file.start + run.position_end + (BLANK_SIZE if blank_after(run, file_size) else 0)
        if run.start // file_size == file.start // file_size:
            follows = False
            continue
        found.append((found.pop()[0] if follows else start, end))
        follows = True
    return found


def _inside(file: MappedFile, position: int, records: npt.NDArray[np.void], depth: int) -> Iterator[Run]:
    """Yield the runs inside of records that are not valid, from the one at byte `position` of the file on, which are of one kind."""
    for row in range(int(np.searchsorted(records["position"], file.start + position)), len(records)):
        if not records["faults"][row] & _UNSOUND:
            return
        begin = int(records["position"][row]) - file.start
        yield from runs_of(file, begin + 1, begin + int(records["size"][row]), depth=depth)


def runs_of_batch(file: MappedFile, records: npt.NDArray[np.void]) -> Iterator[tuple[Run, bool]]:
    """Yield the runs of consecutive records of a scan (RECORD_DTYPE), each with whether its records are valid."""
    if not len(records):
        return
    sound = ((records["faults"] & _UNSOUND) == 0) & (records["physical_offset"] >= 0)
    places, sizes = records["position"], records["size"].astype(np.int64)
    shifts = np.where(sound, records["physical_offset"] - places, 0)
    breaks = np.flatnonzero((shifts[1:] != shifts[:-1]) | (places[1:] != places[:-1] + sizes[:-1]) | (sound[1:] != sound[:-1])) + 1
    for first, behind in zip([0, *breaks.tolist()], [*breaks.tolist(), len(records)], strict=True):
        last = behind - 1
        run = Run(
            file,
            int(places[first]) - file.start,
            int(records["physical_offset"][first]),
            int(places[last] + sizes[last] - places[first]),
            behind - first,
            int(records["store_timestamp"][first]),
            int(records["store_timestamp"][last]),
            int(sizes[last]),
        )
        yield run, bool(sound[first])


def joined(runs: Iterable[Run]) -> Iterator[Run]:
    """Yield runs in the order of their bytes, each joined with the next one where that continues it."""
    run: Run | None = None
    for found in runs:
        if run is not None and run.file == found.file and (run.position_end, run.end) == (found.position, found.start):
            run = _joined(run, found)
            continue
        if run is not None:
            yield run
        run = found
    if run is not None:
        yield run


def _joined(run: Run, following: Run) -> Run:
    return replace(
        run,
        length=run.length + following.length,
        records=run.records + following.records,
        last_timestamp=following.last_timestamp,
        last_size=following.last_size,
    )
