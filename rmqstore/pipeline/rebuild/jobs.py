"""The rebuild of queues and index as two jobs: pieces of the log are scattered, then every share of the queues and every file of the index
is gathered.

Which keys go into which file of the index is known between the two, because every file but the last one is full.
"""

from __future__ import annotations

import pickle
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from rmqstore.pipeline.job import Runner, StoreAt
from rmqstore.pipeline.logparts import LARGEST_PIECE
from rmqstore.pipeline.rebuild.exchange import Exchange, Left, exchange_in
from rmqstore.pipeline.rebuild.futureparts import MisalignedSplitError, Source
from rmqstore.pipeline.rebuild.gather import GatherJob, IndexFile, QueueShare, Region
from rmqstore.pipeline.rebuild.scatter import QUEUES, ScatterJob, ShuffleOutput, of_range, of_share
from rmqstore.reading.progress import Advance, silent
from rmqstore.rebuild import IndexResult, Mode, QueueResult, RebuiltIndexFile
from rmqstore.rebuild.index import next_index_file_name
from rmqstore.repair.derived.requests import IndexRequest, Made, Planning, QueueRequest, Rebuilt
from rmqstore.repair.derived.settings_evidence import settings_of
from rmqstore.repair.log.future import FutureLog
from rmqstore.repair.plan.staging import Staging
from rmqstore.verify.queues.spans import QueueKey
from rmqstore.versions import Profile

_SHARE = 1 << 30
"""Bytes of log per share of the queues: with more shares, packets are smaller and cost more, with fewer, processors wait."""
_LEAST_SHARES, _MOST_SHARES = 4, 64

Built = tuple[QueueShare | IndexFile, Any, Mapping[str, Left]]
"""The request, its result, and its files where they were left."""


class DistributedRebuild:
    """Rebuilds by a runner, for the planners of `rmqstore.repair`."""

    def __init__(self, runner: Runner, at: StoreAt, *, largest: int = LARGEST_PIECE, work_directory: str | None = None) -> None:
        """Use pieces of the log of about `largest` bytes. `work_directory`: where tasks leave files, None for the staging area."""
        self._work_directory = work_directory
        self._runner = runner
        self._at = at.marked()
        self._largest = largest

    def rebuild(
        self, planning: Planning, log: FutureLog, profile: Profile, queues: QueueRequest | None, index: Sequence[IndexRequest]
    ) -> Rebuilt:
        """Rebuild as `rmqstore.repair.derived.rebuild.rebuild_derived` does in this process."""
        staging = planning.staging
        settings = settings_of(self._at.open())
        settings = settings if queues is None else queues.settings(settings)
        capacity = settings.index_capacity if index else 0
        with exchange_in(staging, self._at.path, self._work_directory) as exchange:
            source = Source(self._at, log, profile, settings)
            shares = min(max(_LEAST_SHARES, sum(file.length for file in log.files) // _SHARE), _MOST_SHARES)
            mode = None if queues is None else queues.mode
            job = ScatterJob(source, (), mode, shares, index, exchange)
            scattered = self._scattered(job, planning.advance)
            outputs = outputs_of(job, scattered, capacity)
            results = self._runner.run(GatherJob(source, outputs, exchange, staging.forced), silent)
            built = [(output, *pickle.loads(data)) for output, (_, data) in zip(outputs, results, strict=True)]
            return Rebuilt(
                None if queues is None else _queues(scattered, built, queues, exchange, staging),
                [_index(scattered, built, number, exchange, staging) for number in range(len(index))],
            )

    def _scattered(self, job: ScatterJob, advance: Advance) -> list[ShuffleOutput]:
        """Return the results of all pieces of the log. A file cut in the wrong place is not cut; if there is another one, no file is."""
        whole: set[str] = set()
        while True:
            pieces = job.source.pieces(self._largest, whole)
            try:
                return [pickle.loads(data) for _, data in self._runner.run(replace(job, parts=pieces), advance)]
            except MisalignedSplitError as error:
                whole |= {piece.name for piece in pieces} if whole else {error.message}


def outputs_of(job: ScatterJob, scattered: Sequence[ShuffleOutput], capacity: int) -> list[QueueShare | IndexFile]:
    """Return what is built of scattered records; `capacity` = entries of an index file."""
    outputs: list[QueueShare | IndexFile] = []
    if job.mode is not None:
        outputs += _shares(scattered, job.shares, job.mode)
    for number, request in enumerate(job.index):
        outputs += _index_files(scattered, number, request, capacity)
    return [replace(output, number=number) for number, output in enumerate(outputs)]


def _shares(scattered: Sequence[ShuffleOutput], shares: int, mode: Mode) -> Iterator[QueueShare]:
    for share in range(shares):
        name = of_share(share)
        regions = _regions(scattered, name)
        if regions:
            yield QueueShare(0, name, sum(region.length for _, region in regions), regions, share, shares, mode)


def _index_files(scattered: Sequence[ShuffleOutput], number: int, request: IndexRequest, capacity: int) -> Iterator[IndexFile]:
    """Yield the files of a range; maybe an unused one after a full one."""
    name = of_range(number)
    regions = _regions(scattered, name)
    ends = list(accumulate(region.keys for _, region in regions))
    first = 0
    while regions and first <= ends[-1]:
        # From the region with the key before the first one to the region with the last one.
        begin = bisect_left(ends, first) if first else 0
        chosen = regions[begin : bisect_left(ends, first + capacity) + 1]
        skipped = first - (ends[begin] - regions[begin][1].keys)
        yield IndexFile(0, name, sum(region.length for _, region in chosen), chosen, number, skipped, request.follows)
        first += capacity


def _regions(scattered: Sequence[ShuffleOutput], name: str) -> list[Region]:
    """Return the regions of a name in all pieces, in the order of the log."""
    return [(each.address, region) for each in scattered for region in each.regions.get(name, ())]


def _queues(
    scattered: Sequence[ShuffleOutput], built: Sequence[Built], request: QueueRequest, exchange: Exchange, staging: Staging
) -> tuple[QueueResult, Made]:
    shares = [(result, files) for output, result, files in built if isinstance(output, QueueShare)]
    refused = sum(each.refused.get(QUEUES, 0) for each in scattered)
    result = _merged([share for share, _ in shares], refused, request.wanted)
    listed = {path for queue in result.queues for path in (*queue.files, *queue.ext_files)}
    made: Made = {}
    for _, files in shares:
        made |= exchange.adopt({path: left for path, left in files.items() if path in listed}, staging)
    return result, made


def _index(
    scattered: Sequence[ShuffleOutput], built: Sequence[Built], number: int, exchange: Exchange, staging: Staging
) -> tuple[IndexResult, Made]:
    """Return the files of a range one after the other, under names that rise."""
    files: list[RebuiltIndexFile] = []
    made: Made = {}
    full_until = 0
    for output, result, left in built:
        if isinstance(output, IndexFile) and output.range == number:
            for file in result.files:
                path = f"index/{next_index_file_name(file.name, files[-1].name if files else '')}"
                full_until = (max(0, files[-1].end_timestamp) if files else 0) or full_until
                made |= exchange.adopt({path: left[file.path]}, staging)
                files.append(replace(file, path=path))
    return IndexResult(tuple(files), sum(each.refused.get(of_range(number), 0) for each in scattered), full_until), made


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
