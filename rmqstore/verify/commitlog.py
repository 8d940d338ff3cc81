"""The pass over one commit-log file: records, and with them the queue units and index items they should have.

One file is one independent piece of work whose result is a value; `rmqstore.verify.engine` runs the pieces side by side and merges the
results in offset order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rmqstore.findings import Finding
from rmqstore.formats import consumequeue
from rmqstore.formats.index import message_keys
from rmqstore.formats.javahash import index_key_hash
from rmqstore.formats.layout import fixed_layout
from rmqstore.formats.record import MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2, RECORD_PREFIX, decode_record
from rmqstore.scan.columns import Check, Fault, Mark, Oddity, Stop
from rmqstore.scan.walk import Batch, Damage, FileEnd, LogScanner
from rmqstore.store.mapped import MappedFile
from rmqstore.store.root import QueueDirectory
from rmqstore.store.window import read_at
from rmqstore.verify.batchqueue import BatchRows
from rmqstore.verify.context import Context
from rmqstore.verify.ext import ExtReader
from rmqstore.verify.findings_of_records import Neighbours, of_damage, of_faults
from rmqstore.verify.index import IndexCursor, IndexMatch, IndexView
from rmqstore.verify.multidispatch import Dispatches, Peculiarity, Renumbered
from rmqstore.verify.units import QueueClaims, QueueKey, QueueSpan

_COMMIT = 8
_OFFSET_END = fixed_layout(RECORD_PREFIX)["physical_offset"].end
_HELD_RECORDS = 8192
_CHECKED_COMMITS = 100_000
# Clocks of broker and file server may differ, and a mapped file may be marked as modified some time after it was.
_CLOCK_SKEW_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Tail:
    """What lies behind the last live record of a file, when it is not zeros: bytes [start, end), and what kind of bytes they are."""

    start: int
    end: int
    kind: str  # "torn", "stale" or "bytes"
    reason: Stop
    records: int = 0


@dataclass(slots=True)
class Tally:
    """Records of a file that share something worth one finding: physical offset of the first, and how many."""

    position: int = -1
    count: int = 0

    def add(self, positions: npt.NDArray[np.int64]) -> None:
        """More of them, in log order."""
        if not self.count and positions.size:
            self.position = int(positions[0])
        self.count += positions.size


@dataclass
class FileResult:
    """What the pass over one file found. Everything is in offset order."""

    file: MappedFile
    records: int = 0
    first_position: int = -1
    end_offset: int = 0  # behind the last live record
    first_timestamp: int = 0
    last_timestamp: int = 0
    late: Tally = field(default_factory=Tally)  # stored after the last write to the store, up to the end of the file
    malformed: Tally = field(default_factory=Tally)  # topic, tags or keys are not UTF-8
    end: FileEnd | None = None
    tail: Tail | None = None
    findings: list[Finding] = field(default_factory=list)
    damages: list[tuple[int, int]] = field(default_factory=list)
    queues: dict[QueueKey, QueueSpan] = field(default_factory=dict)
    events: list[tuple[QueueKey, npt.NDArray[np.void]]] = field(default_factory=list)
    index: IndexMatch = field(default_factory=IndexMatch)
    batch_matched: Counter[QueueKey] = field(default_factory=Counter)
    renumbered: dict[Peculiarity, dict[QueueKey, Renumbered]] = field(default_factory=dict)
    commits: list[tuple[int, int]] = field(default_factory=list)  # (position, half message's physical offset)
    unreadable: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the pass over a file compares with: the queues by key, the batch queues, the index, and whether later files hold records."""

    queues: Mapping[QueueKey, QueueDirectory]
    batch_queues: Mapping[QueueKey, QueueDirectory]
    ext_queues: Mapping[QueueKey, QueueDirectory]
    index: Sequence[IndexView]
    compare_queues: bool
    compare_index: bool
    last_data_file: MappedFile | None


class FilePass:
    """The pass over one file."""

    def __init__(self, context: Context, around: Surroundings, file: MappedFile, advance: Callable[[int], None]) -> None:
        checks = Check(0) if context.options.quick else Check.BODY_CRC | Check.PROPERTY_CRC
        if around.compare_index:
            checks |= Check.KEYS
        delays = np.array([0, *context.delays], np.int64)
        self.result = FileResult(file, end_offset=file.start)
        self._context = context
        self._around = around
        self._advance = advance
        self._lead = context.store.entry_header(file)
        self._scanner = LogScanner(checks=checks, delays=delays, lead=self._lead)
        self._claims = QueueClaims(self._scanner, around.queues, frozenset(around.batch_queues), around.compare_queues)
        self._dispatches = Dispatches(context, around.queues, self._scanner.number_of)
        self._cursor = IndexCursor(around.index)
        self._neighbours = Neighbours(context)
        self._ext = ExtReader(context, around.ext_queues)
        self._latest = context.last_write_ms + _CLOCK_SKEW_MS
        self._held: list[Batch] = []
        self._held_start = -1
        self._held_end = -1
        self._held_count = 0
        self._pending: Damage | None = None

    def run(self) -> FileResult:
        """Reads the file and returns what it found. Raises UnreadableError and StoreChangedError."""
        file = self.result.file
        self._batch_rows = BatchRows(self._context, self._around.batch_queues, file.start, file.end)
        self._last_file = self._around.last_data_file is None or file.start >= self._around.last_data_file.start
        if self._around.compare_index:
            self._cursor.seek(file.start)
        reached = file.start
        for event in self._scanner.scan(file):
            if isinstance(event, Batch):
                if not self._take(event):
                    break
                end = int(event.records["position"][-1])
                self._advance(end - reached)
                reached = end
            elif isinstance(event, Damage):
                if event.resumed:
                    self._pending = event
                else:
                    self._unfollowed(event)
            else:
                self._finish_held()
                if self._pending is not None:
                    self._accept(self._pending)
                self.result.end = event
        self._advance(file.end - reached)
        return self._close()

    # Which records are live

    def _take(self, batch: Batch) -> bool:
        """Takes a batch; False when it begins the stale tail of the log, so that nothing behind it counts."""
        if self._pending is not None:
            damage, self._pending = self._pending, None
            older = int(batch.records["store_timestamp"][0]) < self.result.last_timestamp
            if self._last_file and older:
                self._finish_held()
                last = self._scanner.last_nonzero(self.result.file, damage.start)
                self.result.tail = Tail(damage.start, damage.end if last is None else last, "stale", damage.reason, len(batch.records))
                self.result.end = FileEnd(damage.start, Stop.END_OF_DATA)
                return False
            self._accept(damage)
        if Fault.PHYSICAL_OFFSET not in batch.faults and not self._held:
            self._process(batch)
            return True
        displaced = (batch.records["faults"] & int(Fault.PHYSICAL_OFFSET)) != 0
        placed = np.flatnonzero(~displaced)
        live = int(placed[-1]) + 1 if placed.size else 0
        if live:
            self._release_held()
            self._process(replace(batch, records=batch.records[:live], keys=batch.keys[batch.keys["record"] < live]))
        if live < len(batch.records):
            self._hold(batch, live)
        return True

    def _hold(self, batch: Batch, start: int) -> None:
        """Keeps records with a wrong PHYSICALOFFSET back until a right one follows, or the end of the log tells that they are stale."""
        records = batch.records[start:]
        if self._held_start < 0:
            self._held_start = int(records["position"][0])
        self._held_end = int(records["position"][-1] + records["size"][-1])
        self._held_count += len(records)
        if self._kept_count < _HELD_RECORDS:
            keys = batch.keys[batch.keys["record"] >= start].copy()
            keys["record"] -= start
            first = int(records["position"][0]) - batch.origin
            data = batch.window[first : self._held_end - batch.origin].copy()
            kept = replace(batch, records=records.copy(), keys=keys, window=data, origin=int(records["position"][0]))
            self._held.append(kept)

    @property
    def _kept_count(self) -> int:
        """Of the records that were held back, how many are at hand."""
        return sum(len(held.records) for held in self._held)

    def _release_held(self) -> None:
        lost = self._held_count - self._kept_count
        held, self._held = self._held, []
        end = self._held_end
        self._held_start = self._held_end = -1
        self._held_count = 0
        for batch in held:
            self._process(batch)
        if lost:
            start = int(held[-1].records["position"][-1] + held[-1].records["size"][-1])
            self.result.damages.append((start, end))
            text = f"{lost} more records have a PHYSICALOFFSET that is not their place; they were not compared with queues and index"
            self.result.findings.append(self._context.log_finding("RMQ-CL-PHYOFFSET", text, start, end - start))

    def _finish_held(self) -> None:
        """At the end of the file: held records are damaged ones if queues know them or files follow, else a stale tail."""
        if not self._held:
            return
        if not self._last_file or self._known_to_queue(self._held[0].records[0]):
            self._release_held()
            return
        self.result.tail = Tail(self._held_start, self._held_end, "stale", Stop.NONE, self._held_count)
        self._held = []

    def _known_to_queue(self, record: npt.NDArray[np.void]) -> bool:
        """Whether the queue unit at the record's QUEUEOFFSET points at it."""
        key = self._scanner.queue(int(record["queue"]))
        directory = self._around.queues.get(key)
        if directory is None:
            return False
        at = int(record["queue_offset"]) * consumequeue.UNIT.sizeof()
        file = directory.files.find(at) if at >= 0 else None
        if file is None or at + consumequeue.UNIT.sizeof() > file.end:
            return False
        unit = consumequeue.UNIT.parse(read_at(file, at - file.start, consumequeue.UNIT.sizeof()))
        return int(unit["physical_offset"]) == int(record["position"])

    def _accept(self, damage: Damage) -> None:
        """A damaged range that live records follow."""
        self._pending = None
        self._release_held()
        self.result.damages.append((damage.start, damage.end))
        self.result.findings.append(of_damage(self._context, damage))

    def _unfollowed(self, damage: Damage) -> None:
        """Bytes behind which nothing plausible comes in this file."""
        if not self._last_file:
            self._release_held()
            self.result.damages.append((damage.start, self.result.file.end))
            self.result.findings.append(of_damage(self._context, damage))
            return
        self._finish_held()
        if self.result.tail is None:
            kind = "torn" if self._looks_torn(damage) else "bytes"
            self.result.tail = Tail(damage.start, damage.end, kind, damage.reason)

    def _looks_torn(self, damage: Damage) -> bool:
        """A record whose beginning is there: its size covers the bytes found, magic and PHYSICALOFFSET fit where they were written."""
        file = self.result.file
        position = damage.start - file.start + self._lead
        if position >= file.length:
            return True
        head = read_at(file, position, min(RECORD_PREFIX.sizeof(), file.length - position)).ljust(RECORD_PREFIX.sizeof(), b"\0")
        fields = RECORD_PREFIX.parse(head)
        if not 0 < fields.total_size <= file.length - position or damage.end > damage.start + fields.total_size:
            return False
        if fields.magic_code in (MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2) and fields.physical_offset == damage.start + self._lead:
            return True
        written = head[:_OFFSET_END].rstrip(b"\0")
        return len(written) < _OFFSET_END and not any(head[_OFFSET_END:])

    # What live records should have

    def _process(self, batch: Batch) -> None:
        result, records, keys = self.result, batch.records, batch.keys
        if result.records == 0:
            result.first_position = int(records["position"][0])
            result.first_timestamp = int(records["store_timestamp"][0])
        result.records += len(records)
        result.end_offset = int(records["position"][-1] + records["size"][-1])
        result.last_timestamp = int(records["store_timestamp"][-1])
        if result.last_timestamp > self._latest:
            # Where possible times follow, the one that goes back is told instead (RMQ-CL-TIME).
            result.late.add(records["position"][records["store_timestamp"] > self._latest])
        else:
            result.late = Tally()
        if batch.faults:
            topics = {int(number): self._scanner.topic(int(number)) for number in np.unique(records["topic"])}
            result.findings.extend(of_faults(self._context, records, topics))
        result.findings.extend(self._neighbours.check(records, batch.oddities))
        if Mark.MALFORMED_TEXT in batch.marks:
            self._rehash(records, keys, batch)
        if Oddity.COMMITS in batch.oddities and len(result.commits) < _CHECKED_COMMITS:
            commits = records[(records["sys_flag"] & 0xC) == _COMMIT]
            result.commits.extend(zip(commits["position"].tolist(), commits["prepared_transaction_offset"].tolist(), strict=True))
        exts = self._claims.add(records)
        if exts.size:
            result.findings.extend(self._ext.check(self._scanner, exts))
        if self._around.batch_queues:
            result.findings.extend(self._batch_rows.check(self._scanner, records, batch))
        if Mark.MULTI_DISPATCH in batch.marks and self._around.compare_queues:
            self._dispatch(records, batch)
        if self._around.compare_index and keys.size:
            self._cursor.match(records, keys)

    def _bytes_of(self, record: npt.NDArray[np.void], batch: Batch) -> bytes:
        start = int(record["position"]) - batch.origin
        return batch.window[start : start + int(record["size"])].tobytes()

    def _rehash(self, records: npt.NDArray[np.void], keys: npt.NDArray[np.void], batch: Batch) -> None:
        """Hashes of tags and keys that are not UTF-8, by Java's rules for malformed text."""
        rows = np.flatnonzero(records["marks"] & int(Mark.MALFORMED_TEXT))
        self.result.malformed.add(records["position"][rows])
        for row in rows:
            record = decode_record(self._bytes_of(records[row], batch))
            tags_code = record.tags_code(self._context.delays)
            if tags_code is not None:
                records["tags_code"][row] = tags_code
            mine = np.flatnonzero(keys["record"] == row)
            hashes = [index_key_hash(record.topic, key) for key in message_keys(record.properties, True)]
            if len(mine) == len(hashes):
                keys["hash"][mine] = hashes

    def _dispatch(self, records: npt.NDArray[np.void], batch: Batch) -> None:
        """Units of multi-dispatched records in further queues."""
        extra: list[Any] = []
        for row in np.flatnonzero(records["marks"] & int(Mark.MULTI_DISPATCH)):
            extra.extend(self._dispatches.claims(records[row], decode_record(self._bytes_of(records[row], batch))))
        if extra:
            self._claims.add(np.array(extra, records.dtype), ordered=False)

    def _close(self) -> FileResult:
        result = self.result
        result.queues, result.events = self._claims.finish()
        result.renumbered = self._dispatches.renumbered
        result.batch_matched = self._batch_rows.matched
        result.unreadable = {path: error.message for path, error in self._claims.unreadable.items()}
        if self._around.compare_index:
            result.index = self._cursor.finish(result.end_offset if self._last_file else result.file.end)
        return result
