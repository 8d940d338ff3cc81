"""The job of verification: whole stores, and of large ones each piece of a file of the log.

What the files hold of each queue grows with files times queues. Where a store has many files, they form stretches, and the spans of each
stretch are joined in the tasks that reduce: what comes back grows with the queues alone.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import groupby, islice
from uuid import uuid4
from zlib import crc32

import numpy as np

from rmqstore.errors import RmqstoreError, StoreChangedError, UnreadableError
from rmqstore.pipeline.filesystems import is_remote
from rmqstore.pipeline.job import Packet, Part, StoreAt
from rmqstore.reading.progress import Advance
from rmqstore.store.mapped import MappedFile
from rmqstore.verify.context import Context, Options
from rmqstore.verify.engine import Outcome, Verification, last_file_with_data
from rmqstore.verify.log.pieces import Piece, fit, whole
from rmqstore.verify.log.result import FileResult
from rmqstore.verify.queues.spans import Spans, joined

MOST_SPANS = 1_280_000
"""Pieces of a log times its queues up to which the spans of each piece come back as they are: a second stage takes seconds."""
MOST_STRETCHES = 16
"""Stretches of a store whose spans come back, if they would be more."""
_SHARES = 16
"""Shares of the queues of a stretch, by topic; each is reduced separately."""
_QUEUES_IN_PACKET = 16_384

ReportOf = Callable[..., object]
"""Whole verification of a store, for parts that are stores, from `at`, `options` and `advance`; its result can be pickled."""


@dataclass(frozen=True, slots=True)
class StorePart(Part):
    """A whole store, by its number."""

    store: int


@dataclass(frozen=True, slots=True)
class FilePart(Part):
    """A piece of a file of the log of a store, and the stretch of files that it belongs to."""

    store: int
    stretch: int
    piece: Piece


@dataclass(frozen=True, slots=True)
class VerifyJob:
    """Stores and files of stores. `report`: how a part that is a store is verified."""

    stores: tuple[StoreAt, ...]
    options: Options
    parts: Sequence[StorePart | FilePart]
    report: ReportOf | None
    shuffles: bool
    """Whether a stretch has more than one piece."""
    token: str = field(default_factory=lambda: uuid4().hex)
    """What a process listed of a store is for one job alone: later the store may have changed."""

    @property
    def title(self) -> str:
        """Return the work and its extent."""
        files = sum(isinstance(part, FilePart) and not part.piece.number for part in self.parts)
        name = self.stores[0].path if len(self.stores) == 1 else f"{len(self.stores):,} stores"
        return f"verify {name}: {files:,} log files" if files else f"verify {name}"

    def map(self, part: Part, advance: Advance) -> Iterator[Packet]:
        """Yield the pickled report of a store, or the outcome of a file and its spans.

        Of several stores, one that fails does not end the job.
        """
        if isinstance(part, StorePart):
            assert self.report is not None
            report = self.report(at=self.stores[part.store], options=replace(self.options, threads=1), advance=advance)
            yield Packet(f"store {part.store}", 0, pickle.dumps(report))
            return
        assert isinstance(part, FilePart)
        try:
            outcome = self._outcome(part, advance)
        except RmqstoreError as error:
            if len(self.stores) == 1:
                raise
            yield Packet(f"failed {part.store} {part.number}", 0, pickle.dumps(error))
            return
        spans = Spans()
        if isinstance(outcome, FileResult):
            spans, outcome.spans = outcome.spans, spans
        yield Packet(f"file {part.number}", 0, pickle.dumps(outcome))
        for share, some in _shares(spans) if self.shuffles else [(0, spans)]:
            for order, packet in enumerate(_pieces(some)):
                yield Packet(f"spans {part.store} {part.stretch} {share}", order, pickle.dumps(packet))

    def _outcome(self, part: FilePart, advance: Advance) -> Outcome:
        at = self.stores[part.store]
        verification = _verification(self.token, at, self.options)
        path = str(at.directory / part.name)
        outcome = verification.pass_over(path, part.piece, advance)
        if self.shuffles and isinstance(outcome, StoreChangedError):
            # Another file of this process may have lost its pages. Later it is too late: the stretch is joined without this file.
            outcome = verification.pass_over(path, part.piece)
            if isinstance(outcome, StoreChangedError):
                return UnreadableError(outcome.message, outcome.hint)
        return outcome

    def reduce(self, key: str, packets: Iterator[bytes]) -> bytes:
        """Return the spans of a share of the queues of a stretch, joined, or the one packet of another key."""
        if not key.startswith("spans "):
            return b"".join(packets)
        return pickle.dumps(joined(map(pickle.loads, packets)))


@lru_cache(maxsize=1)
def _verification(token: str, at: StoreAt, options: Options) -> Verification:
    """Return a verification of which a process lists queues and index once, not for each piece of the log."""
    return Verification(at.open(), options)


def _shares(spans: Spans) -> Iterator[tuple[int, Spans]]:
    """Yield shares of the queues, each with its number."""
    share = np.array([_share(topic) for topic in spans.topics], np.int64)[spans.queues[:, 0]]
    for number in np.unique(share).tolist():
        yield number, spans.of_rows(np.flatnonzero(share == number))


def _share(topic: str) -> int:
    """Return the same number in every process, which the hash of a text is not."""
    return crc32(topic.encode("utf-8", "surrogatepass")) % _SHARES


def _pieces(spans: Spans) -> Iterator[Spans]:
    """Yield the spans in pieces that are not too large for a packet."""
    for begin in range(0, len(spans.queues), _QUEUES_IN_PACKET):
        yield spans.of_rows(np.arange(begin, min(begin + _QUEUES_IN_PACKET, len(spans.queues))))


def job_of(
    stores: tuple[StoreAt, ...], options: Options, parts: Sequence[StorePart | FilePart], report: ReportOf | None = None
) -> VerifyJob:
    """Return the job over these parts."""
    stretches = {(part.store, part.stretch) for part in parts if isinstance(part, FilePart)}
    files = sum(isinstance(part, FilePart) for part in parts)
    return VerifyJob(stores, options, parts, report, shuffles=files > len(stretches))


def parts_of_files(
    at: StoreAt, files: Sequence[MappedFile], store: int = 0, first_number: int = 0, *, queues: int, largest: int | None = None
) -> list[FilePart]:
    """Return the parts of files of the log, in order. Files of a stretch follow each other, and there is none between them.

    `queues`: how many the store has. With `largest`, files before the last one with records are read in pieces of about so many bytes.
    """
    last = None if largest is None else last_file_with_data(list(files))
    divided = [[Piece()] if last is None or not largest or file.start >= last.start else Piece.all_of(file, largest) for file in files]
    is_joined = sum(map(len, divided)) * queues > MOST_SPANS
    longest = -(-len(files) // MOST_STRETCHES)
    parts: list[FilePart] = []
    stretch, count, end = -1, longest, 0
    for file, pieces in zip(files, divided, strict=True):
        if is_joined and (count == longest or file.start != end):
            stretch, count = stretch + 1, 0
        count, end = count + 1, file.end
        # A copy of a store at a URI has another path in each process; the log of others may be outside of their root.
        name = str(file.path.relative_to(at.directory)) if is_remote(at.path) else str(file.path)
        for piece in pieces:
            stretch += not is_joined
            size = min(piece.size, file.length - piece.number * piece.size) if piece.size else file.length
            parts.append(FilePart(first_number + len(parts), name, size, store, stretch, piece))
    return parts


@dataclass(slots=True)
class Found:
    """Results of a job for one store, as they arrive: outcomes by number of the part, spans by stretch."""

    error: RmqstoreError | None = None
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    spans: dict[int, list[Spans]] = field(default_factory=lambda: defaultdict(list))

    def of_files(self, files: Sequence[MappedFile], parts: Sequence[FilePart], context: Context) -> list[Outcome] | None:
        """Return the outcomes of the files, in their order; the last one of a stretch that could be read has its spans.

        None if the pieces of a file could not all be read, or do not fit together. Raises the error of a part that failed.
        """
        if self.error is not None:
            raise self.error
        outcomes: list[Outcome] = []
        firsts = [part for part in parts if not part.piece.number]
        pieces = iter(parts)
        for file, first in zip(files, firsts, strict=True):
            found = [self._here(part, file) for part in islice(pieces, first.piece.count)]
            read = [one for one in found if isinstance(one, FileResult)]
            if len(found) > 1 and (len(read) < len(found) or not fit(read)):
                return None
            outcomes.append(whole(context, read) if read else found[0])
        self._add_spans(parts, files, {file.start: one for file, one in zip(files, outcomes, strict=True) if isinstance(one, FileResult)})
        return outcomes

    def _add_spans(self, parts: Sequence[FilePart], files: Sequence[MappedFile], results: Mapping[int, FileResult]) -> None:
        """Enter the spans of each stretch in the result of the last of its files that could be read."""
        begins: dict[int, int] = {}
        last: dict[int, int] = {}
        number = -1
        for part in parts:
            number += not part.piece.number
            start = files[number].start
            begins.setdefault(part.stretch, start)
            if start in results:
                last[part.stretch] = start
        for start, stretches in groupby(last, key=last.__getitem__):
            result, first, *others = results[start], *stretches
            result.spans_from = begins[first]
            result.spans = joined(spans for stretch in (first, *others) for spans in self.spans.pop(stretch, []))

    def _here(self, part: FilePart, file: MappedFile) -> Outcome:
        """Return the outcome for a file, which has another path in another process if it belongs to a copy of a store."""
        outcome = self.outcomes[part.number]
        if isinstance(outcome, FileResult):
            outcome.file = file
            outcome.moved = [replace(run, file=file) for run in outcome.moved]
            outcome.leftover = [replace(run, file=file) for run in outcome.leftover]
        return outcome


def sorted_out(results: Iterator[tuple[str, bytes]], parts: Sequence[StorePart | FilePart]) -> tuple[dict[int, object], dict[int, Found]]:
    """Return the reports of whole stores, and what was found of the files of others, by the number of the store."""
    reports: dict[int, object] = {}
    found: dict[int, Found] = defaultdict(Found)
    for key, data in results:
        kind, number, *rest = key.split()
        value = pickle.loads(data)
        if kind == "store":
            reports[int(number)] = value
        elif kind == "failed":
            found[int(number)].error = found[int(number)].error or value
        elif kind == "file":
            found[parts[int(number)].store].outcomes[int(number)] = value
        else:
            found[int(number)].spans[int(rest[0])].append(value)
    return reports, found
