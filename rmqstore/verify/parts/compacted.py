"""Messages of compacted logs and the entries of their queues, compared both ways (fact sheet queues §5).

A compacted log is laid out like a commit log, with PHYSICALOFFSETs of its own. They are part of the checksum of the properties, which
brokers do not compute again for the copy: only the checksum of the body can be verified.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rmqstore.findings import Finding
from rmqstore.formats.batchconsumequeue import UNIT_SIZE
from rmqstore.scan.columns import Check, Fault
from rmqstore.scan.walk import Batch, Damage, FileEnd, LogScanner
from rmqstore.store.mapped import MappedFile
from rmqstore.store.parts import PartKind
from rmqstore.store.root import QueueDirectory, Store
from rmqstore.store.window import read_at
from rmqstore.verify.context import Context
from rmqstore.verify.guard import guarded, limited
from rmqstore.verify.queues.batchqueue import UNIT_DTYPE, written_units
from rmqstore.wording import counted

_COLUMNS = np.dtype([(name, np.int64) for name in ("position", "size", "queue_offset", "queue_id", "store_timestamp", "topic", "faults")])
_COMPARED = {"size": "size", "msg_base_offset": "queue_offset", "store_time": "store_timestamp"}
"""Fields of an entry, and the column of the message that each repeats."""
_LONGEST = (1 << 31) - 1
"""Bytes of the longest file that brokers map. A log file is at least five times as long as its queue file (fact sheet queues §5)."""
_UNWRITTEN = 1
"""Messages at the end of the last file of which a broker that is killed may not have written the entry."""


@dataclass(frozen=True, slots=True)
class CompactedFault:
    """One fault of a queue: a damaged message of its log, or a wrong entry of its queue (`in_queue`).

    `position` and `length` are bytes of `file`; `count`: messages that cannot be consumed, at least.
    """

    file: MappedFile
    topic: str
    queue_id: int
    position: int
    length: int
    message: str
    in_queue: bool
    count: int = 1

    def finding(self, context: Context) -> Finding:
        """Return the finding of this fault."""
        code = "RMQ-CM-ENTRY" if self.in_queue else "RMQ-CM-RECORD"
        place = {"position": self.position, "length": self.length, "topic": self.topic, "queue_id": self.queue_id}
        return context.finding(code, self.message, file=self.file.path, **place)


def check(context: Context) -> Iterator[Finding]:
    """Yield findings about the messages of compacted logs and the entries of their queues. Reads all of them."""
    store, options = context.store, context.options
    path = store.path_of(PartKind.COMPACTION)
    if store.covers(PartKind.COMPACTION) and path.is_dir():
        faults = (fault for fault in compacted_faults(store, bodies=not options.quick) if options.wants_queue(fault.topic, fault.queue_id))
        yield from guarded(context, path, lambda: limited(context, path, (fault.finding(context) for fault in faults)))


def compacted_faults(store: Store, *, bodies: bool = True) -> Iterator[CompactedFault]:
    """Yield the faults of all compacted logs and their queues, by queue and file. Reads all of their written bytes.

    Files that begin without a record, queue files that begin without an entry, files without a counterpart and those that
    are too long are faults of `compaction.py`, and not reported here again. Raises UnreadableError, StoreChangedError.
    """
    queues = {(one.topic, one.queue_id): one for one in store.compaction_queue_directories()}
    scanner = LogScanner(checks=Check.BODY_CRC if bodies else Check(0))
    for log in store.compaction_log_directories():
        yield from _queue(scanner, log, queues.get((log.topic, log.queue_id)))


def queue_faults(log: QueueDirectory, queue: QueueDirectory) -> Iterator[CompactedFault]:
    """Yield the faults of one compacted log and its queue as `compacted_faults` does."""
    return _queue(LogScanner(checks=Check.BODY_CRC), log, queue)


@dataclass(frozen=True, slots=True)
class _Entries:
    """The entries of a queue file. `numbers`: of each unit in the file; `end`: the unit that ends the file, None without one."""

    rows: npt.NDArray[np.void]
    numbers: npt.NDArray[np.int64]
    end: int | None

    @property
    def begins(self) -> bool:
        """Return whether the file begins with an entry, not with zeros, which `compaction.py` reports."""
        return bool(self.rows.size) and any(self.rows[:1].tobytes())

    @property
    def places(self) -> npt.NDArray[np.int64]:
        """The offset in the log at which each entry points."""
        return self.rows["physical_offset"].astype(np.int64)


def _queue(scanner: LogScanner, log: QueueDirectory, queue: QueueDirectory | None) -> Iterator[CompactedFault]:
    of_queue = () if queue is None else queue.files.files
    named = {file.start: file for file in of_queue if file.length <= _LONGEST // 5}
    files = [file for file in log.files.files if file.length <= _LONGEST]
    before = -1
    for file in files:
        other = named.get(file.start)
        # The queue first: a broker that writes meanwhile only adds messages without an entry at the end.
        entries = None if other is None else _entries(other)
        records, damages = _content(scanner, file)
        of_log = _Maker(log, file)
        found = list(_in_log(scanner, of_log, records, damages, entries))
        if other is not None and entries is not None and entries.begins:
            found += _in_queue(_Maker(log, other), entries, records, damages, is_last=file is files[-1])
        yield from found or _order(of_log, records, before)
        if records.size:
            before = int(records["queue_offset"][-1])


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes the faults of one file."""

    directory: QueueDirectory
    file: MappedFile

    def fault(self, position: int, length: int, message: str, *, in_queue: bool = False, count: int = 1) -> CompactedFault:
        return CompactedFault(self.file, self.directory.topic, self.directory.queue_id, position, length, message, in_queue, count)

    def of_entry(self, number: int, message: str, count: int = 1) -> CompactedFault:
        return self.fault(int(number) * UNIT_SIZE, UNIT_SIZE, message, in_queue=True, count=count)


def _entries(queue: MappedFile) -> _Entries:
    """Return the written units of a queue file. Raises UnreadableError."""
    rows = written_units(np.frombuffer(read_at(queue, 0, queue.length // UNIT_SIZE * UNIT_SIZE), UNIT_DTYPE))
    numbers = np.arange(rows.size)
    ends = np.flatnonzero((rows["physical_offset"] == -1) & (rows["size"] == 0))
    if not ends.size:
        return _Entries(rows, numbers, None)
    return _Entries(np.delete(rows, ends[0]), np.delete(numbers, ends[0]), int(ends[0]))


def _content(scanner: LogScanner, file: MappedFile) -> tuple[npt.NDArray[np.void], list[Damage]]:
    """Return the messages of a file, by position, and the bytes that are none; the last ones are those after the last message."""
    parts = [np.zeros(0, _COLUMNS)]
    damages: list[Damage] = []
    for event in scanner.scan(file):
        if isinstance(event, Batch):
            parts.append(event.records[list(_COLUMNS.names or ())].astype(_COLUMNS))
        elif isinstance(event, FileEnd):
            damages.append(Damage(event.position, file.end, event.reason, False, 0))
        elif event.resumed:
            damages.append(event)
    return np.concatenate(parts), damages


def _in_log(
    scanner: LogScanner, make: _Maker, records: npt.NDArray[np.void], damages: Sequence[Damage], entries: _Entries | None
) -> Iterator[CompactedFault]:
    """Yield bytes that are no message, messages with a damaged body, and messages of another queue."""
    start = make.file.start
    places = np.sort(entries.places) if entries is not None else np.zeros(0, np.int64)
    for damage in damages:
        lost = int(np.diff(np.searchsorted(places, (damage.start, damage.end)))[0])
        if damage.start == start:
            continue
        if damage.resumed:
            length = damage.end - damage.start
            yield make.fault(damage.start - start, length, f"{length} bytes are no message", count=max(lost, 1))
        elif lost:  # without an entry that points at them they may be a message that was being written: a start removes them
            yield make.fault(damage.start - start, 0, f"the log ends, and its queue has {counted(lost, 'more message')}", count=lost)
    own = [number for number in np.unique(records["topic"]) if scanner.topic(int(number)) == make.directory.topic]
    foreign = ~np.isin(records["topic"], own) | (records["queue_id"] != make.directory.queue_id)
    damaged = (records["faults"] & int(Fault.BODY_CRC)) != 0
    for row in np.flatnonzero(damaged | foreign):
        one = records[row]
        of_another = f"the message is of {scanner.topic(int(one['topic']))}/{int(one['queue_id'])}"
        why = "the checksum of the body does not match" if damaged[row] else of_another
        yield make.fault(int(one["position"]) - start, int(one["size"]), why)


def _in_queue(
    make: _Maker, entries: _Entries, records: npt.NDArray[np.void], damages: Sequence[Damage], *, is_last: bool
) -> list[CompactedFault]:
    """Return entries that are zeros, point at no message or differ from it; where there are none, messages without an entry."""
    found: list[CompactedFault] = []
    if entries.end is not None and entries.rows.size > entries.end:
        more = entries.rows.size - entries.end
        found.append(make.of_entry(entries.end, f"{counted(more, 'unit')} after the entry that ends the file", more))
    zero = ~entries.rows.view((np.uint8, UNIT_SIZE)).any(axis=1)
    if zero.any():
        count = int(zero.sum())
        found.append(make.of_entry(entries.numbers[zero.argmax()], f"{counted(count, 'unit')} of zeros before the last entry", count))
    rows, numbers, places = entries.rows[~zero], entries.numbers[~zero], entries.places[~zero]
    positions = records["position"]
    at = np.searchsorted(positions, places)
    hits = at < positions.size
    hits[hits] = positions[at[hits]] == places[hits]
    for row in np.flatnonzero(~hits & ~_within(places, damages)):
        found.append(make.of_entry(numbers[row], f"the entry points at offset {places[row]} of the log, where no message begins"))
    messages = records[at[hits]]
    differs = {name: rows[name][hits] != messages[column] for name, column in _COMPARED.items()}
    for row in np.flatnonzero(np.any(list(differs.values()), axis=0)):
        name = next(name for name, wrong in differs.items() if wrong[row])
        text = f"{name} is {rows[name][hits][row]} instead of {messages[_COMPARED[name]][row]}, as in the message"
        found.append(make.of_entry(numbers[hits][row], text))
    if found:
        return found
    without = positions[~np.isin(positions, places)]
    after = without > (places.max() if places.size else -1)
    if is_last and after.sum() <= _UNWRITTEN:
        without = without[~after]
    if not without.size:
        return []
    text = f"{counted(without.size, 'message')} of the log without an entry, the first at offset {without[0]}"
    return [make.fault(0, 0, text, in_queue=True, count=int(without.size))]


def _within(places: npt.NDArray[np.int64], damages: Sequence[Damage]) -> npt.NDArray[np.bool_]:
    """Return which of the places are in bytes that are no message. `damages` ascend."""
    if not damages:
        return np.zeros(places.size, bool)
    at = np.searchsorted(np.array([damage.start for damage in damages], np.int64), places, side="right")
    ends = np.array([0, *(damage.end for damage in damages)], np.int64)
    return np.asarray(places < ends[at])


def _order(make: _Maker, records: npt.NDArray[np.void], before: int) -> Iterator[CompactedFault]:
    """Yield messages whose QUEUEOFFSET does not ascend. `before`: the last one of the file before, -1 for none."""
    offsets = records["queue_offset"]
    for row in np.flatnonzero(np.diff(offsets, prepend=before) <= 0):
        why = f"QUEUEOFFSET {offsets[row]} follows {offsets[row - 1] if row else before}"
        yield make.fault(int(records["position"][row]) - make.file.start, int(records["size"][row]), why)


def data_bytes(store: Store) -> int:
    """Return the bytes that the file system allocated for compacted logs and their queues."""
    directories = (*store.compaction_log_directories(), *store.compaction_queue_directories())
    return sum(file.allocated for directory in directories for file in directory.files.files)
