"""Parts of the log that are ranges of its files, and the scan of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from rmqstore.errors import UnreadableError
from rmqstore.pipeline.job import Part, StoreAt
from rmqstore.pipeline.logparts import LogPiece
from rmqstore.pipeline.tables.access import Ranges
from rmqstore.reading.progress import Advance
from rmqstore.scan.columns import Check
from rmqstore.scan.walk import Batch, LogScanner
from rmqstore.store.mapped import MappedFile

MOST_RANGES = 65_536
"""Ranges of a part."""

Count = Callable[[Batch, LogScanner], int]
"""The number of messages of the selected queues in a batch of a scanner."""


class FileRanges(NamedTuple):
    """Ranges of one file of the log, and its name for messages."""

    file: MappedFile
    name: str
    ranges: Ranges


@dataclass(frozen=True, slots=True)
class RangesPart(Part):
    """Ranges of some files of the log, all with `lead` bytes before every record."""

    store: StoreAt
    lead: int
    files: tuple[FileRanges, ...]


def parts_of_ranges(pieces: Sequence[LogPiece], ranges: Ranges, largest: int) -> list[RangesPart]:
    """Return the ranges that are in the pieces, which are in the order of the log, in parts of about `largest` bytes, numbered from 0."""
    groups: list[tuple[int, list[FileRanges]]] = []
    size = count = 0
    for piece in pieces:
        inside = _inside(piece, ranges)
        if not len(inside):
            continue
        size, count = size + _bytes(inside), count + len(inside)
        if not groups or groups[-1][0] != piece.lead or size > largest or count > MOST_RANGES:
            groups.append((piece.lead, []))
            size, count = _bytes(inside), len(inside)
        groups[-1][1].append(FileRanges(piece.file, piece.name, inside))
    return [
        RangesPart(number, files[0].name, sum(_bytes(file.ranges) for file in files), pieces[0].store, lead, tuple(files))
        for number, (lead, files) in enumerate(groups)
    ]


def _bytes(ranges: Ranges) -> int:
    return int((ranges["end"] - ranges["begin"]).sum())


def _inside(piece: LogPiece, ranges: Ranges) -> Ranges:
    """Return what is in a piece; of a range that is only in part how many messages are there is not known."""
    first, last = np.searchsorted(ranges["end"], piece.start, "right"), np.searchsorted(ranges["begin"], piece.end, "left")
    found = ranges[first:last].copy()
    found["entries"][(found["begin"] < piece.start) | (found["end"] > piece.end)] = 0
    np.clip(found["begin"], piece.start, None, out=found["begin"])
    np.clip(found["end"], None, piece.end, out=found["end"])
    return found


class RangesReader:
    """The records of a part, in batches of columns."""

    def __init__(self, part: RangesPart, checks: Check, count: Count) -> None:
        """Raise what opening the store raises."""
        self.store = part.store.open()
        self.scanner = LogScanner(checks=checks, delays=self.store.config.known_delay_levels, lead=part.lead)
        self._part = part
        self._count = count

    def batches(self, advance: Advance) -> Iterator[Batch]:
        """Yield batches in log order, each valid until the next one.

        Raises UnreadableError if there are fewer messages of the selected queues in a range than their entries place there.
        """
        for file, name, ranges in self._part.files:
            here = self._part.store.file_here(file, name)
            for begin, end, entries in ranges.tolist():
                found = 0
                for batch in self._of_range(here, begin, end):
                    found += self._count(batch, self.scanner)
                    yield batch
                advance(end - begin)
                if found < entries:
                    raise UnreadableError(
                        f"Queues have {entries} entries for messages at offsets {begin} to {end} of the log, where {found} are ({name}).",
                        "Read the log without the option access; `rmqstore verify` names the entries.",
                    )

    def _of_range(self, file: MappedFile, begin: int, end: int) -> Iterator[Batch]:
        # A window of the scan ends with its file, so of a store at a URI no more than the range is fetched. The second time is for ranges
        # whose last entry has a wrong size.
        for length in dict.fromkeys((end - file.start, file.length)):
            for whole in self.scanner.batches(replace(file, length=length), start=begin):
                batch = whole.before(end)
                if len(batch.records):
                    begin = int(batch.records["position"][-1]) + int(batch.records["size"][-1])
                    yield batch
                if len(batch.records) < len(whole.records):
                    break
            if begin >= end:
                return
