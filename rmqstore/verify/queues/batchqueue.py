"""Batch consume queues: one 46-byte unit per record, in log order, found by physical offset."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rmqstore.errors import RmqstoreError
from rmqstore.findings import Finding
from rmqstore.formats import batchconsumequeue as declared
from rmqstore.formats.layout import fixed_layout
from rmqstore.formats.properties import INNER_BASE
from rmqstore.formats.record import decode_record
from rmqstore.scan.columns import Mark
from rmqstore.scan.walk import Batch, LogScanner
from rmqstore.store.mapped import MappedFile
from rmqstore.store.root import QueueDirectory
from rmqstore.store.window import read_at
from rmqstore.verify.context import Context
from rmqstore.verify.queues.spans import QueueKey

UNIT_DTYPE = np.dtype([(name, f">i{place.width}") for name, place in fixed_layout(declared.UNIT).items()])


@dataclass(frozen=True, slots=True)
class Units:
    """Units of a batch queue in order, as far as they are needed, and the place of each."""

    rows: npt.NDArray[np.void]
    files: tuple[MappedFile, ...]
    starts: npt.NDArray[np.int64]  # number of the first unit of each file
    order: npt.NDArray[np.int64]  # unit numbers by physical offset
    offsets: npt.NDArray[np.int64]  # physical offsets in that order

    def place(self, unit: int) -> tuple[MappedFile, int]:
        """Return (file, position in it) of a unit."""
        which = int(np.searchsorted(self.starts, unit, side="right")) - 1
        return self.files[which], (unit - int(self.starts[which])) * UNIT_DTYPE.itemsize

    def find(self, offset: int) -> int | None:
        """Return the number of the first unit with this physical offset, None without one."""
        at = int(np.searchsorted(self.offsets, offset))
        return int(self.order[at]) if at < self.offsets.size and int(self.offsets[at]) == offset else None


def load_units(files: Sequence[MappedFile]) -> Units:
    """Return the written units of these files without the zeros after the last one. 62 bytes of memory per unit. Raises UnreadableError."""
    parts = []
    starts = []
    total = 0
    for file in files:
        parts.append(_read_units(file))
        starts.append(total)
        total += len(parts[-1])
    rows = written_units(np.concatenate(parts) if parts else np.zeros(0, UNIT_DTYPE))
    offsets = rows["physical_offset"].astype(np.int64)
    order = np.argsort(offsets, kind="stable")
    return Units(rows, tuple(files), np.array(starts, np.int64), order, offsets[order])


def _read_units(file: MappedFile) -> npt.NDArray[np.void]:
    """Return all units of a file, written or not. Raises UnreadableError."""
    return np.frombuffer(read_at(file, 0, file.length // UNIT_DTYPE.itemsize * UNIT_DTYPE.itemsize), UNIT_DTYPE)


def written_units(rows: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """Return the units without the zeros after the last one that was written."""
    if not rows.size:
        return rows
    written = np.flatnonzero(rows.view((np.uint8, UNIT_DTYPE.itemsize)).any(axis=1))
    return rows[: int(written[-1]) + 1 if written.size else 0]


def files_between(directory: QueueDirectory, start: int, end: int) -> list[MappedFile]:
    """Return the queue's files that can hold units of physical offsets in [start, end): one file of a long queue, not all."""
    size = UNIT_DTYPE.itemsize
    chosen = []
    for file, following in itertools.zip_longest(directory.files.files, directory.files.files[1:]):
        if file.length < size:
            continue
        first = int(np.frombuffer(read_at(file, 0, size), UNIT_DTYPE)["physical_offset"][0])
        behind = (
            int(np.frombuffer(read_at(following, 0, size), UNIT_DTYPE)["physical_offset"][0])
            if following and following.length >= size
            else end
        )
        # Offsets ascend unless a first unit is damaged; then its file is read rather than left out.
        if (first < end and behind >= start) or first > behind:
            chosen.append(file)
    return chosen


class BatchRows:
    """Comparison of the records of batch topics in one scan with the units of their queues. `matched` counts the units found per queue."""

    def __init__(self, context: Context, queues: Mapping[QueueKey, QueueDirectory], start: int, end: int) -> None:
        self._context = context
        self._queues = queues
        self._range = (start, end)
        self._units: dict[QueueKey, Units] = {}
        self.matched: Counter[QueueKey] = Counter()

    def check(self, scanner: LogScanner, records: npt.NDArray[np.void], batch: Batch) -> Iterator[Finding]:
        """Yield findings about the units that the records should have."""
        for number in np.unique(records["queue"]):
            key = scanner.queue(int(number))
            directory = self._queues.get(key)
            if directory is None:
                continue
            if key not in self._units:
                try:
                    self._units[key] = load_units(files_between(directory, *self._range))
                except RmqstoreError as error:
                    self._units[key] = load_units([])
                    yield self._context.finding("RMQ-ST-UNREADABLE", error.message, file=directory.directory, topic=key[0], queue_id=key[1])
            transaction = records["sys_flag"] & 0xC
            mine = records[(records["queue"] == number) & (transaction != 4) & (transaction != 0xC)]
            yield from self._compare(key, directory, self._units[key], mine, batch)

    def _compare(
        self, key: QueueKey, directory: QueueDirectory, units: Units, records: npt.NDArray[np.void], batch: Batch
    ) -> Iterator[Finding]:
        last = int(units.offsets[-1]) if units.offsets.size else -1
        for record in records:
            position = int(record["position"])
            where: dict[str, object] = {
                "topic": key[0],
                "queue_id": key[1],
                "offset": position,
                "queue_offset": int(record["queue_offset"]),
            }
            unit = units.find(position)
            if unit is None:
                code = "RMQ-CQ-BEHIND" if position > last else "RMQ-CQ-BATCH"
                yield self._context.finding(code, "the record has no entry in its batch queue", file=directory.directory, **where)
                continue
            self.matched[key] += 1
            row = units.rows[unit]
            for name, value in self._expected(record, batch).items():
                if int(row[name]) != value:
                    file, at = units.place(unit)
                    yield self._context.finding(
                        "RMQ-CQ-BATCH",
                        f"{name} of the batch queue entry does not match its record",
                        file=file.path,
                        position=at,
                        length=UNIT_DTYPE.itemsize,
                        expected=value,
                        found=int(row[name]),
                        **where,
                    )

    def _expected(self, record: npt.NDArray[np.void], batch: Batch) -> dict[str, int]:
        base = int(record["queue_offset"])
        count = 1
        if int(record["marks"]) & int(Mark.INNER_BATCH):
            start = int(record["position"]) - batch.origin
            decoded = decode_record(batch.window[start : start + int(record["size"])].tobytes())
            if decoded.is_inner_batch:
                text = decoded.properties[INNER_BASE]
                base = int(text) if text.lstrip("-").isdigit() else base
                count = int(record["batch_size"])
        return {
            "size": int(record["size"]),
            "tags_code": int(record["tags_code"]),
            "store_time": int(record["store_timestamp"]),
            "msg_base_offset": base,
            "batch_size": count,
            "compacted_offset": declared.NO_COMPACTED_OFFSET,
            "reserved": 0,
        }


def check_surplus(context: Context, key: QueueKey, directory: QueueDirectory, matched: int) -> Iterator[Finding]:
    """Yield findings about units of a batch queue that no record has: holes, units beyond the log, units that point at no record.

    `matched` units were found by their records; if there are no others, none is looked at again.
    """
    files = directory.files.files
    # Every file before the last is full; where one is not, the numbers differ and all units are looked at.
    full = sum(file.length // UNIT_DTYPE.itemsize for file in files[:-1])
    if full + sum(len(written_units(_read_units(file))) for file in files[-1:]) == matched:
        return
    for file in files:
        for number, row in enumerate(written_units(_read_units(file))):
            yield from _judge_unit(context, key, row, file, number * UNIT_DTYPE.itemsize)


def _judge_unit(context: Context, key: QueueKey, row: npt.NDArray[np.void], file: MappedFile, at: int) -> Iterator[Finding]:
    offset, size = int(row["physical_offset"]), int(row["size"])
    where: dict[str, object] = {
        "file": file.path,
        "position": at,
        "length": UNIT_DTYPE.itemsize,
        "topic": key[0],
        "queue_id": key[1],
        "queue_offset": int(row["msg_base_offset"]),
    }
    if offset == 0 and size == 0 and not int(row["batch_size"]):
        yield context.finding("RMQ-CQ-HOLE", "an entry that was never written is between written ones", **where)
        return
    where["offset"] = offset
    if offset < context.log.min_offset:
        return
    if context.log.is_damaged(offset):
        yield context.finding("RMQ-CQ-LOST", "the entry belongs to a record in a damaged range", **where)
    elif offset >= context.log.end_offset:
        yield context.finding(
            "RMQ-CQ-BEYOND", f"the record is not in the log, which ends at {context.log.end_offset}", found=offset, **where
        )
    else:
        record = context.record_at(offset)
        if record is None:
            yield context.finding("RMQ-CQ-BATCH", "the entry points to no record", found=offset, **where)
        elif (record.topic, record.queue_id) != key:
            yield context.finding("RMQ-CQ-BATCH", f"the entry points to a record of {record.topic}/{record.queue_id}", **where)
