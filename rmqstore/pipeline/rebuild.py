"""The rebuild of queues and index as jobs: files of the log are scanned where they can be, queues are built a share at a time.

The builders are those of `rmqstore.rebuild`; a share of the queues, or the whole index, gets the records of all files in the order of the
log. Every attempt writes into a directory of its own, and only those whose results come back are taken into the staging area.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rmqstore.pipeline.engine import Runner
from rmqstore.pipeline.job import Advance, Packet, Part, StoreAt
from rmqstore.rebuild import IndexBuilder, IndexResult, Mode, QueueBuilder, QueueResult, rebuild
from rmqstore.rebuild.packing import FOR_INDEX, FOR_QUEUES, Unpacker, pack, without_bytes
from rmqstore.rebuild.requests import requests_of
from rmqstore.repair.indexranges import KeyRange
from rmqstore.repair.logview import FutureLog
from rmqstore.repair.rebuilding import FutureRecords, StagedFiles, records_of, settings_of, told
from rmqstore.repair.staging import StagedFile, Staging
from rmqstore.scan.columns import Mark
from rmqstore.scan.walk import Batch
from rmqstore.verify.units import QueueKey
from rmqstore.versions import Profile

_SHARE = 512 << 20
"""Bytes of log per share of the queues: with more shares, packets are smaller and cost more, with fewer, processors wait."""
_LEAST_SHARES, _MOST_SHARES = 4, 64
_INDEX = "index"
_NO_ROWS = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Source:
    """The records of a future log, file by file."""

    at: StoreAt
    log: FutureLog
    profile: Profile

    def records(self, part: Part, *, keys: bool) -> FutureRecords:
        """The records of a file. Raises what opening the store and scanning raise."""
        return records_of(self.at.open(), replace(self.log, files=(self.log.files[part.number],)), keys=keys)


class _OverLog:
    """What jobs over a log have in common whose packets are as many as its records."""

    __slots__ = ()
    source: Source
    directory: str

    @property
    def parts(self) -> Sequence[Part]:
        """The files of the log."""
        return [Part(number, str(file.path), file.length) for number, file in enumerate(self.source.log.files)]

    @property
    def shuffles(self) -> bool:
        """What is built has records of many files of the log."""
        return True

    @property
    def spool(self) -> str:
        """Beside the files that are made."""
        return self.directory


@dataclass(frozen=True, slots=True)
class QueuesJob(_OverLog):
    """All queues. A result is (QueueResult, staged files by path) of one share, pickled."""

    source: Source
    mode: Mode
    directory: str

    @property
    def shares(self) -> int:
        """Parts that the queues are built in."""
        return min(max(_LEAST_SHARES, sum(part.size for part in self.parts) // _SHARE), _MOST_SHARES)

    def map(self, part: Part, advance: Advance) -> Iterator[Packet]:
        """The records of every share."""
        records = self.source.records(part, keys=False)
        fans_out = settings_of(self.source.at.open()).enable_multi_dispatch
        queue_of = records.scanner.queue
        shares = _Shares(queue_of, self.shares)
        refused = 0
        order = 0
        for batch in _told(records, part, advance):
            kept, more = requests_of(batch, self.mode, queue_of)
            refused += more
            everywhere = np.flatnonzero(kept.records["marks"] & int(Mark.MULTI_DISPATCH)) if fans_out else _NO_ROWS
            for share, rows in enumerate(shares.rows(kept.records["queue"])):
                wanted = np.union1d(rows, everywhere) if everywhere.size else rows
                if wanted.size:
                    yield Packet(f"{share:02d}", order, pack(_taken(kept, wanted), queue_of, FOR_QUEUES))
                    order += 1
        if refused:
            yield Packet("refused", 0, str(refused).encode())

    def reduce(self, key: str, packets: Iterator[bytes]) -> bytes:
        """Builds a share; or adds up what was refused."""
        if key == "refused":
            return str(sum(map(int, packets))).encode()
        unpacker, share, shares = Unpacker(), int(key), self.shares
        sink = StagedFiles(Staging.attempt(Path(self.directory)))
        builder = QueueBuilder(
            unpacker.queue,
            settings_of(self.source.at.open()),
            self.source.profile,
            sink,
            log_start=self.source.log.min_offset,
            mode=self.mode,
            wanted=lambda topic, queue_id: _share_of((topic, queue_id), shares) == share,
        )
        for packet in packets:
            builder.put(unpacker.batch(packet))
        return pickle.dumps((builder.finish(), sink.files))


@dataclass(frozen=True, slots=True)
class IndexJob(_OverLog):
    """Index files with the keys of a range. The result is (IndexResult, staged files by path), pickled."""

    source: Source
    keys: KeyRange | None
    follows: tuple[int, int]
    directory: str

    def map(self, part: Part, advance: Advance) -> Iterator[Packet]:
        """The records with their keys."""
        records = self.source.records(part, keys=True)
        batches = _told(records, part, advance)
        chosen = batches if self.keys is None else self.keys.select(batches, tags=self.source.profile.indexes_tags)
        for order, batch in enumerate(chosen):
            kept, _ = requests_of(batch, Mode.USEFUL, records.scanner.queue)
            if len(kept.records):
                yield Packet(_INDEX, order, pack(without_bytes(kept), records.scanner.queue, FOR_INDEX))

    def reduce(self, key: str, packets: Iterator[bytes]) -> bytes:
        """Builds the files."""
        unpacker = Unpacker()
        sink = StagedFiles(Staging.attempt(Path(self.directory)))
        builder = IndexBuilder(unpacker.queue, settings_of(self.source.at.open()), self.source.profile, sink, follows=self.follows)
        # One task builds the whole index, so it has a thread of its own for fetching and unpacking.
        rebuild(map(unpacker.batch, packets), builder)
        return pickle.dumps((builder.finish(), sink.files))


class Elsewhere:
    """Rebuilds by a runner, for the planners of `rmqstore.repair`."""

    def __init__(self, runner: Runner, at: StoreAt) -> None:
        self._runner = runner
        self._at = at

    def queues(
        self, log: FutureLog, profile: Profile, staging: Staging, mode: Mode, wanted: Callable[[QueueKey], bool], advance: Advance
    ) -> tuple[QueueResult, dict[str, StagedFile]]:
        """As `rmqstore.repair.rebuilding.rebuild_queues` does it in this process."""
        with staging.attempts() as attempts:
            results = dict(self._runner.run(QueuesJob(Source(self._at, log, profile), mode, str(attempts)), advance))
            refused = int(results.pop("refused", b"0"))
            shares: list[tuple[QueueResult, dict[str, StagedFile]]] = [pickle.loads(data) for data in results.values()]
            result = _merged([share for share, _ in shares], refused, wanted)
            made = {path: staged for _, files in shares for path, staged in files.items()}
            listed = [path for queue in result.queues for path in (*queue.files, *queue.ext_files)]
            return result, {path: staging.adopt(made[path]) for path in listed}

    def index(
        self, log: FutureLog, profile: Profile, staging: Staging, keys: KeyRange | None, follows: tuple[int, int], advance: Advance
    ) -> tuple[IndexResult, dict[str, StagedFile]]:
        """The index files with the keys of a range."""
        with staging.attempts() as attempts:
            results = dict(self._runner.run(IndexJob(Source(self._at, log, profile), keys, follows, str(attempts)), advance))
            if not results:
                return IndexResult((), 0, 0), {}
            result, files = pickle.loads(results[_INDEX])
            return result, {path: staging.adopt(staged) for path, staged in files.items()}


class _Shares:
    """The share of every queue by its number in a scan."""

    def __init__(self, queue_of: Callable[[int], QueueKey], shares: int) -> None:
        self._queue_of = queue_of
        self._shares = shares
        self._known = np.zeros(0, np.uint8)

    def rows(self, numbers: npt.NDArray[Any]) -> list[npt.NDArray[np.int64]]:
        """Of a column of numbers, the rows of each share, in their order."""
        highest = int(numbers.max(initial=-1))
        if highest >= len(self._known):
            more = [_share_of(self._queue_of(number), self._shares) for number in range(len(self._known), highest + 1)]
            self._known = np.concatenate([self._known, np.array(more, np.uint8)])
        shares = self._known[numbers]
        order = np.argsort(shares, kind="stable")
        return np.split(order, np.searchsorted(shares[order], np.arange(1, self._shares)))


def _share_of(key: QueueKey, shares: int) -> int:
    """The share of a queue, the same in every process."""
    return zlib.crc32(f"{key[0]}/{key[1]}".encode("utf-8", "surrogatepass")) % shares


def _taken(batch: Batch, rows: npt.NDArray[np.int64]) -> Batch:
    """A batch of these records, without keys, and with the marks of its own records."""
    records = batch.records.take(rows)
    marks = Mark(int(np.bitwise_or.reduce(records["marks"], initial=0))) & ~Mark.MALFORMED_TEXT
    return replace(batch, records=records, keys=batch.keys[:0], marks=marks)


def _told(records: FutureRecords, part: Part, advance: Advance) -> Iterator[Batch]:
    """The batches of a file; their bytes are told as they go by, and the rest of the file at the end."""
    rest = part.size

    def count(length: int) -> None:
        nonlocal rest
        rest -= length
        advance(length)

    yield from told(records, count)
    advance(rest)


def _merged(shares: Sequence[QueueResult], refused: int, wanted: Callable[[QueueKey], bool]) -> QueueResult:
    queues = sorted((queue for share in shares for queue in share.queues), key=lambda queue: (queue.topic, queue.queue_id))
    last = max((share for share in shares if share.last_physical_offset is not None), key=_last_offset, default=None)
    return QueueResult(
        tuple(queue for queue in queues if wanted((queue.topic, queue.queue_id))),
        refused + sum(share.refused for share in shares),
        tuple(sorted({key for share in shares for key in share.unwritable})),
        None if last is None else last.last_store_timestamp,
        None if last is None else last.last_physical_offset,
    )


def _last_offset(result: QueueResult) -> int:
    return -1 if result.last_physical_offset is None else result.last_physical_offset
