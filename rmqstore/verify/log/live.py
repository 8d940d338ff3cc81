"""The live records of a commit-log file: those of the log, as opposed to those left after its end from an earlier state of the log.

In the file where the log ends, records that are not at their PHYSICALOFFSET, or that are older than those before them, are a stale tail
(fact sheet commit log §2.3, §5.4). Where records in their place follow, the same bytes are damage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from rmqstore.formats.layout import fixed_layout
from rmqstore.formats.record import MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2, RECORD_PREFIX
from rmqstore.reading.entries import unit_at
from rmqstore.reading.progress import Advance, silent
from rmqstore.scan.columns import Fault, Stop
from rmqstore.scan.walk import Batch, Damage, FileEnd, LogScanner
from rmqstore.store.mapped import MappedFile
from rmqstore.store.root import QueueDirectory
from rmqstore.store.window import read_at
from rmqstore.verify.queues.spans import QueueKey

_OFFSET_END = fixed_layout(RECORD_PREFIX)["physical_offset"].end
_HELD_RECORDS = 8192


@dataclass(frozen=True, slots=True)
class Tail:
    """The bytes [start, end) after the last live record of a file, if they are not zeros, and their kind."""

    start: int
    end: int
    kind: str  # "torn", "stale" or "bytes"
    reason: Stop
    records: int = 0


@dataclass(frozen=True, slots=True)
class Overflow:
    """Bytes [start, end) of displaced records that were too many to be kept one by one."""

    start: int
    end: int
    records: int


def is_without_records(files: Iterable[tuple[int, bool, Tail | None]]) -> bool:
    """Return whether a log has bytes, and not one record of its own, by (records, whether there is damage, tail) of each of its files.

    A torn record counts as one: it is the first that a new broker wrote.
    """
    holds_bytes = False
    for records, damaged, tail in files:
        if records:
            return False
        holds_bytes |= damaged or (tail is not None and tail.kind != "torn")
    return holds_bytes


Event = Batch | Damage | Overflow | Tail | FileEnd


class LiveRecords:
    """The live records of one file, its damages, and how it ends.

    `lead`: bytes before every record; `last_file`: no later file holds records; `queues`: those whose units show that a displaced
    record was dispatched here; `advance` is called with the number of bytes as they are read. `begin` and `end`: physical offsets of
    records that limit what is read, by default to the whole file.
    """

    def __init__(
        self,
        scanner: LogScanner,
        file: MappedFile,
        *,
        lead: int,
        last_file: bool,
        queues: Mapping[QueueKey, QueueDirectory],
        advance: Advance = silent,
        begin: int | None = None,
        end: int | None = None,
    ) -> None:
        self._scanner = scanner
        self._file = file
        self._lead = lead
        self._last_file = last_file
        self._queues = queues
        self._advance = advance
        self._begin = file.start if begin is None else begin
        self._end = file.end if end is None else end
        self.reached = self._begin
        """Where the records and damages end that were read: `end`, unless that is no boundary of records."""
        self._last_timestamp = 0
        self._held: list[Batch] = []
        self._held_start = -1
        self._held_end = -1
        self._held_count = 0
        self._pending: Damage | None = None

    def events(self) -> Iterator[Event]:
        """Yield batches and damages in offset order, at most one Tail, last a FileEnd. Raises UnreadableError, StoreChangedError.

        Batches hold live records; the next one reuses the arrays. Of a Damage that is not `resumed` the rest of the file is lost as well.
        Before an `end` within the file there is no FileEnd.
        """
        reached = self._begin
        for event in self._scanned():
            if isinstance(event, Batch):
                end = int(event.records["position"][-1])
                stale = self._begins_stale_tail(event)
                if stale is not None:
                    yield from self._finish_held()
                    yield stale
                    yield FileEnd(stale.start, Stop.END_OF_DATA)
                    break
                yield from self._take(event)
                self._advance(end - reached)
                reached = end
            elif isinstance(event, Damage):
                if event.resumed:
                    self._pending = event
                else:
                    yield from self._unfollowed(event)
            else:
                yield from self._finish_held()
                yield from self._accept_pending()
                yield event
        yield from self._finish_held()
        yield from self._accept_pending()
        self._advance(self._end - reached)

    def _scanned(self) -> Iterator[Batch | Damage | FileEnd]:
        """Yield the events of the scan up to `end`."""
        whole = self._end == self._file.end
        for event in self._scanner.scan(self._file, start=self._begin):
            if isinstance(event, Batch):
                batch = event.before(self._end)
                if not len(batch.records):
                    return
                self.reached = int(batch.records["position"][-1] + batch.records["size"][-1])
                yield batch
            elif isinstance(event, Damage):
                self.reached = event.end if event.resumed else self._file.end
                yield event
            else:
                self.reached = self._file.end if whole else event.position
                yield event
            if self.reached >= self._end and not whole:
                return

    def _begins_stale_tail(self, batch: Batch) -> Tail | None:
        """Return the tail that a batch begins after a damage: older records in the file where the log ends."""
        damage = self._pending
        if damage is None or not self._last_file or int(batch.records["store_timestamp"][0]) >= self._last_timestamp:
            return None
        self._pending = None
        last = self._scanner.last_nonzero(self._file, damage.start)
        return Tail(damage.start, damage.end if last is None else last, "stale", damage.reason, len(batch.records))

    def _take(self, batch: Batch) -> Iterator[Event]:
        yield from self._accept_pending()
        if Fault.PHYSICAL_OFFSET not in batch.faults and not self._held:
            yield self._live(batch)
            return
        displaced = (batch.records["faults"] & int(Fault.PHYSICAL_OFFSET)) != 0
        placed = np.flatnonzero(~displaced)
        live = int(placed[-1]) + 1 if placed.size else 0
        if live:
            yield from self._release_held()
            yield self._live(replace(batch, records=batch.records[:live], keys=batch.keys[batch.keys["record"] < live]))
        if live < len(batch.records):
            self._hold(batch, live)

    def _live(self, batch: Batch) -> Batch:
        self._last_timestamp = int(batch.records["store_timestamp"][-1])
        return batch

    def _hold(self, batch: Batch, start: int) -> None:
        """Hold records with a wrong PHYSICALOFFSET until a correct one follows, or the end of the log shows that they are stale."""
        records = batch.records[start:]
        if self._held_start < 0:
            self._held_start = int(records["position"][0])
        self._held_end = int(records["position"][-1] + records["size"][-1])
        self._held_count += len(records)
        if self._kept_count < _HELD_RECORDS:
            keys = batch.keys[batch.keys["record"] >= start].copy()
            keys["record"] -= start
            origin = int(records["position"][0]) - self._lead
            data = batch.window[origin - batch.origin : self._held_end - batch.origin].copy()
            kept = replace(batch, records=records.copy(), keys=keys, window=data, origin=origin)
            self._held.append(kept)

    @property
    def _kept_count(self) -> int:
        """The number of held records that are kept in memory."""
        return sum(len(held.records) for held in self._held)

    def _release_held(self) -> Iterator[Event]:
        lost = self._held_count - self._kept_count
        end = self._held_end
        held = self._forget_held()
        for batch in held:
            yield self._live(batch)
        if lost:
            yield Overflow(int(held[-1].records["position"][-1] + held[-1].records["size"][-1]), end, lost)

    def _finish_held(self) -> Iterator[Event]:
        """Yield the held records at the end of the file: as damaged ones if queues know them or files follow, else as a stale tail."""
        if not self._held:
            return
        if not self._last_file or self._known_to_queue(self._held[0].records[0]):
            yield from self._release_held()
            return
        yield Tail(self._held_start, self._held_end, "stale", Stop.NONE, self._held_count)
        self._forget_held()

    def _forget_held(self) -> list[Batch]:
        """Return the held records, and hold none of them any more."""
        held, self._held = self._held, []
        self._held_start = self._held_end = -1
        self._held_count = 0
        return held

    def _known_to_queue(self, record: npt.NDArray[np.void]) -> bool:
        """Return whether the queue unit at the record's QUEUEOFFSET points at it."""
        directory = self._queues.get(self._scanner.queue(int(record["queue"])))
        unit = None if directory is None else unit_at(directory.files, int(record["queue_offset"]))
        return unit is not None and unit.physical_offset == int(record["position"])

    def _accept_pending(self) -> Iterator[Event]:
        """Yield the damaged range that live records, or the closing BLANK, follow."""
        if self._pending is not None:
            damage, self._pending = self._pending, None
            yield from self._release_held()
            yield damage

    def _unfollowed(self, damage: Damage) -> Iterator[Event]:
        """Yield the events of bytes after which nothing plausible comes in this file."""
        if not self._last_file:
            yield from self._release_held()
            yield damage
            return
        finished = list(self._finish_held())
        yield from finished
        if not any(isinstance(event, Tail) for event in finished):
            yield Tail(damage.start, damage.end, "torn" if self._looks_torn(damage) else "bytes", damage.reason)

    def _looks_torn(self, damage: Damage) -> bool:
        """Return whether a record begins there: its size covers the bytes found, magic and PHYSICALOFFSET fit where they were written."""
        file = self._file
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
