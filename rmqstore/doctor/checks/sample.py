"""A sample of the commit log: the queues of its records, and the records that queues and index lack after the start.

Bytes that a start does not read can show that a queue or an index file is gone, so the first bytes of every file are read, and
all of a small log. Nothing is verified.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from rmqstore.errors import RmqstoreError
from rmqstore.prediction.indexes import IndexHeader
from rmqstore.scan.columns import Check, Fault
from rmqstore.scan.walk import Batch, LogScanner
from rmqstore.verify.context import Context
from rmqstore.verify.queues.spans import QueueKey

WHOLE = 64 << 20
"""Bytes of a log that is read whole; of a larger one each file gives its share, at least `HEAD`."""
HEAD = 16 << 10
_NOT_QUEUED = 4  # bit of prepared and of rolled back records in SYSFLAG
_ROLLED_BACK = 12

Flags = npt.NDArray[np.bool_]


@dataclass(slots=True)
class SampledQueue:
    """Records of one queue in the sample since its numbers last restarted: QUEUEOFFSETs of the first and after the last, messages.

    `last_position`: physical offset of the last.
    """

    first_offset: int
    next_offset: int
    messages: int
    last_position: int

    def add(self, rows: npt.NDArray[np.void]) -> None:
        """Add further records of the queue, in the order of the log."""
        offsets = rows["queue_offset"]
        falls = np.flatnonzero(offsets[1:] < offsets[:-1])
        restarted = bool(len(falls)) or int(offsets[0]) < self.next_offset
        if len(falls):
            rows = rows[int(falls[-1]) + 1 :]
            offsets = rows["queue_offset"]
        if restarted:
            self.first_offset, self.messages = int(offsets[0]), 0
        self.next_offset = int(offsets[-1]) + int(rows["batch_size"][-1])
        self.messages += int(rows["batch_size"].sum(dtype=np.int64))
        self.last_position = int(rows["position"][-1])


@dataclass(frozen=True, slots=True)
class Sample:
    """The contents of a sample: queues, positions of records with keys, bytes read and bytes of the files that were not."""

    queues: Mapping[QueueKey, SampledQueue] = field(default_factory=dict)
    keyed: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    bytes: int = 0
    unread: int = 0


def read_sample(context: Context, end: int) -> Sample:
    """Return the sample of the log up to physical offset `end`. A file that cannot be read counts as unread."""
    store = context.store
    files = store.message_log.files
    if not files or (store.dledger is not None and store.commitlog.files):  # records of two forms
        return Sample()
    share = max(HEAD, WHOLE // len(files))
    scanner = LogScanner(checks=Check.KEYS, lead=store.entry_header(files[0]))
    queues: dict[QueueKey, SampledQueue] = {}
    keyed: list[npt.NDArray[np.int64]] = []
    done = unread = 0
    for file in files:
        part = min(file.length, share, max(0, end - file.start))
        try:
            for batch in scanner.batches(replace(file, length=part)):
                _take_queues(queues, scanner, batch.records, end)
                keyed.append(_keyed(batch))
        except RmqstoreError:
            unread += file.length
            continue
        done += part
        unread += max(0, min(file.length, end - file.start) - part)
    return Sample(queues, np.concatenate(keyed) if keyed else np.zeros(0, np.int64), done, unread)


def _valid(records: npt.NDArray[np.void]) -> Flags:
    return np.asarray((records["faults"] & int(Fault.PHYSICAL_OFFSET | Fault.QUEUE_ID | Fault.TOPIC)) == 0)


def _take_queues(queues: dict[QueueKey, SampledQueue], scanner: LogScanner, records: npt.NDArray[np.void], end: int) -> None:
    wanted = _valid(records) & (records["sys_flag"] & _NOT_QUEUED == 0) & (records["position"] < end)
    rows = records[wanted]
    if not len(rows):
        return
    order = np.argsort(rows["queue"], kind="stable")
    rows = rows[order]
    starts = np.flatnonzero(np.diff(rows["queue"], prepend=-1))
    for first, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(rows)], strict=True):
        mine = rows[first:stop]
        key = scanner.queue(int(mine["queue"][0]))
        begin = int(mine["queue_offset"][0])
        queues.setdefault(key, SampledQueue(begin, begin, 0, 0)).add(mine)


def _keyed(batch: Batch) -> npt.NDArray[np.int64]:
    """Return the positions of records that every release indexes."""
    records, keys = batch.records, batch.keys
    has_key = np.zeros(len(records), np.bool_)
    has_key[keys["record"][keys["is_tag"] == 0]] = True
    wanted = has_key & _valid(records) & (records["sys_flag"] & _ROLLED_BACK != _ROLLED_BACK)
    return np.asarray(records["position"][wanted].astype(np.int64))


def uncovered(positions: npt.NDArray[np.int64], files: Sequence[IndexHeader]) -> npt.NDArray[np.int64]:
    """Return the positions that are within none of the index files."""
    ranges = sorted((file.begin_phy_offset, file.end_phy_offset) for file in files if file.index_count > 1)
    if not ranges:
        return positions
    begins = np.array([begin for begin, _ in ranges], np.int64)
    reached = np.maximum.accumulate(np.array([end for _, end in ranges], np.int64))
    place = np.searchsorted(begins, positions, "right") - 1
    return positions[(place < 0) | (reached[np.maximum(place, 0)] < positions)]
