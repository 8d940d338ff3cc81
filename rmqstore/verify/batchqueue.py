"""Batch consume queues: one 46-byte unit per record, in log order, found by physical offset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
from rmqstore.verify.units import QueueKey

UNIT_DTYPE = np.dtype([(name, f">i{place.width}") for name, place in fixed_layout(declared.UNIT).items()])


@dataclass(frozen=True, slots=True)
class Units:
    """All units of one batch queue in order, and where each stands."""

    rows: npt.NDArray[np.void]
    files: tuple[MappedFile, ...]
    starts: npt.NDArray[np.int64]  # number of the first unit of each file

    def place(self, unit: int) -> tuple[MappedFile, int]:
        """(file, position in it) of a unit."""
        which = int(np.searchsorted(self.starts, unit, side="right")) - 1
        return self.files[which], (unit - int(self.starts[which])) * UNIT_DTYPE.itemsize


def load_units(directory: QueueDirectory) -> Units:
    """The written units of a batch queue; the zeros behind the last one are left out. 46 bytes of memory per record. Raises UnreadableError."""
    parts = []
    starts = []
    total = 0
    for file in directory.files.files:
        count = file.length // UNIT_DTYPE.itemsize
        rows = np.frombuffer(read_at(file, 0, count * UNIT_DTYPE.itemsize), UNIT_DTYPE)
        starts.append(total)
        total += count
        parts.append(rows)
    rows = np.concatenate(parts) if parts else np.zeros(0, UNIT_DTYPE)
    written = np.flatnonzero(rows.view((np.uint8, UNIT_DTYPE.itemsize)).any(axis=1)) if rows.size else np.zeros(0, np.int64)
    end = int(written[-1]) + 1 if written.size else 0
    return Units(rows[:end], directory.files.files, np.array(starts, np.int64))


class BatchRows:
    """Compares the records of batch topics in one scan with the units of their queues."""

    def __init__(self, context: Context, queues: Mapping[QueueKey, QueueDirectory]) -> None:
        self._context = context
        self._queues = queues
        self._units: dict[QueueKey, Units] = {}

    def check(self, scanner: LogScanner, records: npt.NDArray[np.void], batch: Batch) -> Iterator[Finding]:
        """Findings about the units that the records should have."""
        numbers = np.unique(records["queue"])
        for number in numbers:
            key = scanner.queue(int(number))
            directory = self._queues.get(key)
            if directory is None:
                continue
            if key not in self._units:
                try:
                    self._units[key] = load_units(directory)
                except RmqstoreError:
                    continue
            mine = records[(records["queue"] == number) & ((records["sys_flag"] & 0xC) != 4) & ((records["sys_flag"] & 0xC) != 0xC)]
            yield from self._compare(key, directory, self._units[key], mine, batch)

    def _compare(
        self, key: QueueKey, directory: QueueDirectory, units: Units, records: npt.NDArray[np.void], batch: Batch
    ) -> Iterator[Finding]:
        where: dict[str, object] = {"topic": key[0], "queue_id": key[1]}
        for record in records:
            position = int(record["position"])
            hits = np.flatnonzero(units.rows["physical_offset"] == position)
            offset = int(record["queue_offset"])
            if not hits.size:
                late = not units.rows.size or position > int(units.rows["physical_offset"].max())
                yield self._context.finding(
                    "RMQ-CQ-BEHIND" if late else "RMQ-CQ-BATCH",
                    "the record has no unit in its batch queue",
                    file=directory.directory,
                    offset=position,
                    queue_offset=offset,
                    **where,
                )
                continue
            row = units.rows[hits[0]]
            expected = self._expected(record, batch)
            for name, value in expected.items():
                if int(row[name]) != value:
                    file, at = units.place(int(hits[0]))
                    yield self._context.finding(
                        "RMQ-CQ-BATCH",
                        f"{name} of the batch unit does not fit its record",
                        file=file.path,
                        position=at,
                        length=UNIT_DTYPE.itemsize,
                        offset=position,
                        queue_offset=offset,
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


def check_surplus(context: Context, key: QueueKey, directory: QueueDirectory) -> Iterator[Finding]:
    """Units of a batch queue that no record of the log has: holes, units beyond the log, units that point at no record."""
    units = load_units(directory)
    for number, row in enumerate(units.rows):
        offset, size = int(row["physical_offset"]), int(row["size"])
        file, at = units.place(number)
        where: dict[str, object] = {
            "file": file.path,
            "position": at,
            "length": UNIT_DTYPE.itemsize,
            "offset": offset,
            "topic": key[0],
            "queue_id": key[1],
            "queue_offset": int(row["msg_base_offset"]),
        }
        if offset == 0 and size == 0 and not int(row["batch_size"]):
            yield context.finding("RMQ-CQ-HOLE", "a unit that was never written lies between written ones", **{**where, "offset": None})
        elif offset < context.log.min_offset:
            continue
        elif context.log.is_damaged(offset):
            yield context.finding("RMQ-CQ-LOST", "the unit belongs to a record in a damaged range", **where)
        elif offset >= context.log.end_offset:
            yield context.finding("RMQ-CQ-BEYOND", "the unit points beyond the end of the log", expected=context.log.end_offset, found=offset, **where)
        else:
            record = context.record_at(offset)
            if record is None:
                yield context.finding("RMQ-CQ-BATCH", "the unit points at no record", found=offset, **where)
            elif (record.topic, record.queue_id) != key:
                yield context.finding("RMQ-CQ-BATCH", f"the unit points at a record of {record.topic}/{record.queue_id}", **where)
