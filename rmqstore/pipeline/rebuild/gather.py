"""The second half of a remote rebuild: builds a share of the queues, or one file of the index, from the regions with its records.

The builders are those of `rmqstore.rebuild`. Every attempt writes into a directory of its own, and only files of attempts whose results
are returned are brought to the staging area.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from rmqstore.pipeline.job import MapOnly, Packet, Part
from rmqstore.pipeline.rebuild.exchange import Exchange
from rmqstore.pipeline.rebuild.futureparts import Source
from rmqstore.pipeline.rebuild.scatter import Segment, share_of
from rmqstore.reading.progress import Advance
from rmqstore.rebuild import IndexBuilder, IndexResult, Mode, QueueBuilder, QueueResult, rebuild
from rmqstore.rebuild.packing import Unpacker, packets
from rmqstore.repair.derived.rebuild import StagedFiles
from rmqstore.repair.plan.staging import Staging
from rmqstore.scan.walk import Batch

Region = tuple[str, Segment]
"""The address of a file that was left, and what of it."""


@dataclass(frozen=True, slots=True)
class QueueShare(Part):
    """The queues of a share, of `shares` altogether. The result is (QueueResult, Left files by path)."""

    regions: Sequence[Region]
    share: int
    shares: int
    mode: Mode


@dataclass(frozen=True, slots=True)
class IndexFile(Part):
    """The file of a range that begins after the first `skipped` keys of its regions. The result is (IndexResult, Left files by path).

    `follows` as an IndexBuilder takes it, for a file without skipped keys; with some, the last of them is the end of the file before.
    """

    regions: Sequence[Region]
    range: int
    skipped: int
    follows: tuple[int, int]


@dataclass(frozen=True, slots=True)
class GatherJob(MapOnly):
    """The job over everything that is built; each result is pickled. `forced` as Staging takes it."""

    source: Source
    parts: Sequence[QueueShare | IndexFile]
    exchange: Exchange
    forced: bool

    @property
    def title(self) -> str:
        """Return the work and its extent."""
        return f"rebuild for {self.source.at.path}: build {len(self.parts):,} shares of queues and index files"

    def map(self, part: Part, advance: Advance) -> Iterator[Packet]:
        """Yield one packet. Raises what reading the regions and writing files raise."""
        assert isinstance(part, QueueShare | IndexFile)
        self.exchange.require()
        with self.exchange.scratch() as directory:
            staging = Staging.attempt(directory, forced=self.forced)
            sink = StagedFiles(staging)
            result = self._queues(part, sink) if isinstance(part, QueueShare) else self._index(part, sink)
            staging.sync()
            left = self.exchange.leave_built(sink.files)
        advance(part.size)
        yield Packet(part.name, 0, pickle.dumps((result, left)))

    def _queues(self, part: QueueShare, sink: StagedFiles) -> QueueResult:
        unpacker = Unpacker()
        builder = QueueBuilder(
            unpacker.queue,
            self.source.settings,
            self.source.profile,
            sink,
            log_start=self.source.log.min_offset,
            mode=part.mode,
            wanted=lambda topic, queue_id: share_of((topic, queue_id), part.shares) == part.share,
        )
        for batch in self._batches(part.regions, unpacker):
            builder.put(batch)
        return builder.finish()

    def _index(self, part: IndexFile, sink: StagedFiles) -> IndexResult:
        unpacker = Unpacker()
        batches = self._batches(part.regions, unpacker)
        follows = part.follows
        if part.skipped:
            follows, batches = _behind(batches, part.skipped)
        builder = IndexBuilder(unpacker.queue, self.source.settings, self.source.profile, sink, follows=follows, single=True)
        # A file of the index is the longest of all tasks, so it has a separate thread for reading and unpacking.
        rebuild(batches, builder)
        return builder.finish()

    def _batches(self, regions: Sequence[Region], unpacker: Unpacker) -> Iterator[Batch]:
        for address, region in regions:
            with self.exchange.open(address) as file:
                file.seek(region.position)
                for packet in packets(file, region.length):
                    yield unpacker.batch(packet)


def _behind(batches: Iterator[Batch], skipped: int) -> tuple[tuple[int, int], Iterator[Batch]]:
    """Return (time and offset of the last skipped key, the batches from the record on that needs a file after it).

    That is the record itself if it has more keys, else the next one (`IndexBuilder`).
    """
    for batch in batches:
        if skipped > len(batch.keys):
            skipped -= len(batch.keys)
            continue
        row = int(batch.keys["record"][skipped - 1])
        last = batch.records[row]
        ends = max(0, int(last["store_timestamp"])), max(0, int(last["physical_offset"]))
        if skipped == len(batch.keys) or int(batch.keys["record"][skipped]) != row:
            row += 1
        keys = batch.keys[skipped:].copy()
        keys["record"] -= row
        left = [replace(batch, records=batch.records[row:], keys=keys)] if row < len(batch.records) else []
        return ends, chain(left, batches)
    return (0, 0), iter(())
