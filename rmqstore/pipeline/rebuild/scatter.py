"""The first half of a remote rebuild: the records of every piece of the log, sorted by what will be built of them.

The result of a piece, a tenth of its bytes, is in one file, in regions per share of the queues and per range of the index, so a builder
reads a few runs of bytes per piece. Every attempt makes a file of its own, and the builder receives one that was finished.
"""

from __future__ import annotations

import os
import pickle
import tempfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from rmqstore.pipeline.job import MapOnly, Packet, Part
from rmqstore.pipeline.rebuild.exchange import Exchange
from rmqstore.pipeline.rebuild.futureparts import FuturePiece, Source
from rmqstore.reading.progress import Advance
from rmqstore.rebuild import Mode
from rmqstore.rebuild.packing import FOR_INDEX, FOR_QUEUES, pack, pack_apart, without_bytes
from rmqstore.rebuild.requests import QueueOf, requests_of
from rmqstore.repair.derived.requests import IndexRequest
from rmqstore.scan.columns import READ_PROPERTIES, Mark
from rmqstore.scan.walk import Batch
from rmqstore.verify.queues.spans import QueueKey

_MOST_WAITING = 32 << 20
"""Bytes of packets that are kept in memory."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive packets in the file of a piece, and the number of index keys in them."""

    position: int
    length: int
    keys: int


@dataclass(frozen=True, slots=True)
class ShuffleOutput:
    """The result of a piece: the address of its file, regions by what is built of them, in the order of the log, and refused records."""

    address: str
    regions: Mapping[str, Sequence[Segment]]
    refused: Mapping[str, int]


def of_share(share: int) -> str:
    """Return the name of the regions for a share of the queues."""
    return f"queues {share:02d}"


def of_range(number: int) -> str:
    """Return the name of the regions for a range of the index."""
    return f"index {number}"


QUEUES = "queues"
"""Key in `ShuffleOutput.refused` of the records that no queue gets."""


@dataclass(frozen=True, slots=True)
class ScatterJob(MapOnly):
    """The job over the pieces of a log; the result of each is a ShuffleOutput, pickled. Without a `mode` nothing is sorted for queues."""

    source: Source
    parts: Sequence[FuturePiece]
    mode: Mode | None
    shares: int
    index: Sequence[IndexRequest]
    exchange: Exchange

    @property
    def title(self) -> str:
        """Return the work and its extent."""
        return f"rebuild for {self.source.at.path}: read {len(self.parts):,} pieces of the log"

    def map(self, part: Part, advance: Advance) -> Iterator[Packet]:
        """Yield one packet. Raises MisalignedSplitError, and what reading the log and writing the file raise."""
        assert isinstance(part, FuturePiece)
        self.exchange.require()
        settings = self.source.settings
        index = self.index if settings.builds_index(self.source.profile) else ()
        requests = [(number, request) for number, request in enumerate(index) if request.touches(part.start, part.end)]
        scanner = self.source.scanner(part, keys=bool(requests))
        queue_of = scanner.queue
        shares = _Shares(queue_of, self.shares)
        refused: Counter[str] = Counter()
        with self.exchange.scratch() as directory:
            with _PartitionSpill(directory) as shelves:
                for batch in self.source.batches(scanner, part, advance):
                    if self.mode is not None:
                        refused[QUEUES] += _for_queues(shelves, batch, self.mode, shares, settings.enable_multi_dispatch, queue_of)
                    for number, request in requests:
                        name = of_range(number)
                        refused[name] += _for_index(shelves, name, batch, request, self.source.profile.indexes_tags, queue_of)
            address = self.exchange.leave(shelves.path)
        yield Packet(part.name, 0, pickle.dumps(ShuffleOutput(address, dict(shelves.regions), dict(refused))))


def _for_queues(shelves: _PartitionSpill, batch: Batch, mode: Mode, shares: _Shares, fans_out: bool, queue_of: QueueOf) -> int:
    """Add the records of a batch for every share and return how many were refused."""
    kept, refused = requests_of(batch, mode, queue_of)
    # Text that is no UTF-8 was read there.
    kept = replace(kept, marks=kept.marks & ~Mark.MALFORMED_TEXT)
    if not len(kept.records):
        return refused
    of_queues = shares.of_queues(int(kept.records["queue"].max()) + 1)
    if not kept.marks & READ_PROPERTIES:
        for share, packet in pack_apart(kept, of_queues, queue_of):
            shelves.add(of_share(share), packet)
        return refused
    everywhere = kept.records["marks"] & int(Mark.MULTI_DISPATCH) != 0 if fans_out else False
    of_records = of_queues[kept.records["queue"]]
    for share in range(shares.count):
        rows = np.flatnonzero((of_records == share) | everywhere)
        if rows.size:
            shelves.add(of_share(share), pack(_taken(kept, rows), queue_of, FOR_QUEUES))
    return refused


def _for_index(shelves: _PartitionSpill, name: str, batch: Batch, request: IndexRequest, tags: bool, queue_of: QueueOf) -> int:
    """Add the records of a batch with their keys and return how many were refused."""
    refused = 0
    for chosen in request.select([batch], tags=tags):
        kept, more = requests_of(chosen, Mode.USEFUL, queue_of)
        refused += more
        if len(kept.records):
            keys = _indexed(kept, request.follows[1], tags=tags)
            shelves.add(name, pack(without_bytes(replace(kept, keys=keys)), queue_of, FOR_INDEX), len(keys))
    return refused


def _indexed(batch: Batch, follows: int, *, tags: bool) -> npt.NDArray[np.void]:
    """Return the keys that become entries: those of tags if they are indexed, and none before what is indexed already."""
    keys = batch.keys if tags else batch.keys.take(np.flatnonzero(batch.keys["is_tag"] == 0))
    return keys.take(np.flatnonzero(batch.records["physical_offset"][keys["record"]] >= follows)) if follows else keys


def _taken(batch: Batch, rows: npt.NDArray[np.int64]) -> Batch:
    """Return a batch of these records, without keys, and with the marks of its own records."""
    records = batch.records.take(rows)
    marks = Mark(int(np.bitwise_or.reduce(records["marks"], initial=0))) & batch.marks
    return replace(batch, records=records, keys=batch.keys[:0], marks=marks)


class _PartitionSpill:
    """The packets of a piece, in memory until they are many, then region by region in a file."""

    def __init__(self, directory: Path) -> None:
        """Raise OSError if the file cannot be created."""
        descriptor, path = tempfile.mkstemp(prefix="records-", dir=directory)
        self.path = Path(path)
        self._file = os.fdopen(descriptor, "wb")
        self._packets: defaultdict[str, list[bytes]] = defaultdict(list)
        self._keys: Counter[str] = Counter()
        self._waiting = 0
        self.regions: defaultdict[str, list[Segment]] = defaultdict(list)

    def add(self, name: str, packet: bytes, keys: int = 0) -> None:
        """Append a packet to those of its name. Raises OSError."""
        self._packets[name].append(packet)
        self._keys[name] += keys
        self._waiting += len(packet)
        if self._waiting >= _MOST_WAITING:
            self._write()

    def _write(self) -> None:
        for name, packets in self._packets.items():
            self.regions[name].append(Segment(self._file.tell(), sum(map(len, packets)), self._keys[name]))
            self._file.writelines(packets)
        self._packets.clear()
        self._keys.clear()
        self._waiting = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._file:
            if kind is None:
                self._write()


class _Shares:
    """The share of every queue by its number in a scan."""

    def __init__(self, queue_of: Callable[[int], QueueKey], count: int) -> None:
        self._queue_of = queue_of
        self.count = count
        self._known = np.zeros(0, np.uint8)

    def of_queues(self, numbers: int) -> npt.NDArray[np.uint8]:
        """Return the shares of at least as many queues."""
        if numbers > len(self._known):
            more = [share_of(self._queue_of(number), self.count) for number in range(len(self._known), numbers)]
            self._known = np.concatenate([self._known, np.array(more, np.uint8)])
        return self._known


def share_of(key: QueueKey, shares: int) -> int:
    """Return the share of a queue, the same in every process."""
    return zlib.crc32(f"{key[0]}/{key[1]}".encode("utf-8", "surrogatepass")) % shares
