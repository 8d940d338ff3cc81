"""Messages of compacted logs: against the entries of their queues, both ways, and against the commit log (fact sheet queues §5).

A compacted log is laid out like a commit log, with PHYSICALOFFSETs of its own. They are part of the checksum of the properties, which
brokers do not compute again for the copy: of a message that the commit log no longer has, only the checksum of the body can be verified.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

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
from rmqstore.verify.parts.compactedcopies import Copies, Missing, compare, newest_of
from rmqstore.verify.parts.config import TABLES, TOPICS, in_rocksdb, in_use, read_both, texts_in_database
from rmqstore.verify.queues.batchqueue import UNIT_DTYPE, written_units
from rmqstore.verify.queues.spans import QueueKey
from rmqstore.wording import counted

_COLUMNS = np.dtype(
    [(name, np.int64) for name in ("position", "size", "queue_offset", "queue_id", "store_timestamp", "tags_code", "topic", "faults")]
)
_COMPARED = {"size": "size", "msg_base_offset": "queue_offset", "store_time": "store_timestamp"}
"""Fields of an entry, and the column of the message that each repeats."""
_LONGEST = (1 << 31) - 1
"""Bytes of the longest file that brokers map. A log file is at least five times as long as its queue file (fact sheet queues §5)."""
RECORD, ENTRY, MISSING = "RMQ-CM-RECORD", "RMQ-CM-ENTRY", "RMQ-CM-MISSING"
_UNWRITTEN = 1
"""Messages at the end of the last file of which a broker that is killed may not have written the entry."""


@dataclass(frozen=True, slots=True)
class CompactedFault:
    """One fault of a queue: a damaged message of its log, a wrong entry of its queue, or messages that its log lacks, by `code`.

    `position` and `length` are bytes of `file`; `offset` in the commit log; `count`: messages that cannot be consumed, at least.
    """

    file: MappedFile
    topic: str
    queue_id: int
    position: int
    length: int
    message: str
    code: str
    count: int = 1
    offset: int | None = None
    queue_offset: int | None = None

    def finding(self, context: Context) -> Finding:
        """Return the finding of this fault."""
        place = {"position": self.position, "length": self.length, "topic": self.topic, "queue_id": self.queue_id}
        return context.finding(self.code, self.message, file=self.file.path, offset=self.offset, queue_offset=self.queue_offset, **place)


def check(context: Context) -> Iterator[Finding]:
    """Yield findings about compacted logs and their queues. Reads all of them, and the messages of these topics in the commit log."""
    store, options = context.store, context.options
    path = store.path_of(PartKind.COMPACTION)
    if not store.covers(PartKind.COMPACTION):
        return
    yield from guarded(context, path, lambda: limited(context, path, _gone(context, path)))
    if path.is_dir():
        faults = (fault for fault in compacted_faults(store, bodies=not options.quick) if options.wants_queue(fault.topic, fault.queue_id))
        yield from guarded(context, path, lambda: limited(context, path, (fault.finding(context) for fault in faults)))


def _gone(context: Context, path: Path) -> Iterator[Finding]:
    for queue in queues_without_log(context.store):
        if context.options.wants_queue(queue.topic, queue.queue_id):
            count = len(newest_of(context.store, queue).wanted(np.zeros(0, np.int64)))
            if count:
                text = (
                    f"{counted(count, 'newest message')} of {queue.topic}/{queue.queue_id} cannot be consumed: the compacted log is missing"
                )
                yield context.finding("RMQ-CM-GONE", text, file=path, topic=queue.topic, queue_id=queue.queue_id, found=count)


def queues_without_log(store: Store) -> Iterator[QueueDirectory]:
    """Yield the consume queues with files of topics with cleanup.policy=COMPACTION that have no file of a compacted log.

    Nothing where queues are in RocksDB: from 5.5.0 on such brokers do not fill compacted logs.
    """
    if store.rocksdb_queues:
        return
    logs = {(one.topic, one.queue_id) for one in store.compaction_log_directories() if one.files.files}
    for topic in compacted_topics(store):
        yield from (one for one in store.queue_directories(topic) if one.files.files and (one.topic, one.queue_id) not in logs)


def compacted_topics(store: Store) -> Iterator[str]:
    """Yield the topics with cleanup.policy=COMPACTION, none for a broker that does not compact (`enableCompaction`)."""
    text = texts_in_database(store)[TOPICS] if in_rocksdb(store) else in_use(*read_both(store.config_path / TOPICS))
    table = (text.value or {}).get(TABLES[TOPICS])
    if store.config.explicit("enableCompaction") == "false" or not isinstance(table, dict):
        return
    yield from (topic for topic, one in table.items() if is_compacted(one))


def is_compacted(topic: Any) -> bool:
    """Return whether the configuration of a topic says that it is a compacted one."""
    attributes: Any = topic.get("attributes") if isinstance(topic, Mapping) else None
    return isinstance(attributes, Mapping) and attributes.get("cleanup.policy") == "COMPACTION"


def compacted_faults(store: Store, *, bodies: bool = True, log: bool = True) -> Iterator[CompactedFault]:
    """Yield the faults of all compacted logs and their queues, by queue and file. Reads all of their written bytes.

    `bodies`: verify checksums; `log`: compare with the commit log.

    Files that begin without a record, queue files that begin without an entry, files without a counterpart and those that
    are too long are faults of `compaction.py`, and not reported here again. Raises UnreadableError, StoreChangedError.
    """
    queues = {(one.topic, one.queue_id): one for one in store.compaction_queue_directories()}
    of_log = queues_of_logs(store) if log else {}
    scanner = LogScanner(checks=Check.BODY_CRC if bodies else Check(0))
    for compacted in store.compaction_log_directories():
        content = _Content()
        yield from _queue(scanner, compacted, queues.get((compacted.topic, compacted.queue_id)), content)
        if log:
            original = of_log.get((compacted.topic, compacted.queue_id))
            yield from _against_log(store, compacted, original, content, whole_end=not store.abort_present)


def queue_faults(
    log: QueueDirectory, queue: QueueDirectory | None, store: Store | None = None, original: QueueDirectory | None = None
) -> Iterator[CompactedFault]:
    """Yield the faults of one compacted log and its queue as `compacted_faults` does, with a store also those against its commit log.

    They count as if the broker had stopped: no start adds what is missing at the end. `original`: the consume queue, if it has files.
    """
    content = _Content()
    yield from _queue(LogScanner(checks=Check.BODY_CRC), log, queue, content)
    if store is not None:
        yield from _against_log(store, log, original, content, whole_end=True)


def queues_of_logs(store: Store) -> dict[QueueKey, QueueDirectory]:
    """Return the consume queues with files of the topics that have compacted logs, by topic and queue id."""
    topics = {one.topic for one in store.compaction_log_directories() if one.files.files}
    queues = (one for topic in topics for one in store.queue_directories(topic) if one.topic == topic)
    return {(one.topic, one.queue_id): one for one in queues if one.files.files}


def _against_log(
    store: Store, log: QueueDirectory, queue: QueueDirectory | None, content: _Content, *, whole_end: bool
) -> Iterator[CompactedFault]:
    if queue is None or not log.files.files:
        return
    for found in compare(store, log, queue, Copies.of(content.sound, content.named), whole_end=whole_end):
        if isinstance(found, Missing):
            text = f"the log lacks {counted(found.count, 'message')} that {'is' if found.count == 1 else 'are'} the newest of the key"
            make = _Maker(log, log.files.files[-1])
            yield replace(
                make.fault(0, 0, text, code=MISSING, count=found.count), offset=found.physical_offset, queue_offset=found.queue_offset
            )
            continue
        file = log.files.find(found.offset)
        if file is not None:
            text = f"byte {found.byte} of the message differs from the message at offset {found.original} of the commit log"
            yield replace(_Maker(log, file).fault(found.offset - file.start, found.size, text), offset=found.original)


@dataclass(frozen=True, slots=True)
class _Content:
    """The valid messages of all files of a log, and the queue offsets that entries name."""

    sound: list[npt.NDArray[np.void]] = field(default_factory=list)
    named: list[npt.NDArray[np.int64]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Entries:
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


def _queue(scanner: LogScanner, log: QueueDirectory, queue: QueueDirectory | None, content: _Content) -> Iterator[CompactedFault]:
    """Yield the faults of log and queue, and add to `content` what their files hold."""
    of_queue = () if queue is None else queue.files.files
    named = {file.start: file for file in of_queue if file.length <= _LONGEST // 5}
    files = [file for file in log.files.files if file.length <= _LONGEST]
    before = -1
    for file in files:
        other = named.get(file.start)
        # The queue first: a broker that writes meanwhile only adds messages without an entry at the end.
        entries = None if other is None else entries_of(other)
        records, damages = content_of(scanner, file)
        content.sound.append(records[sound(scanner, (log.topic, log.queue_id), records)])
        if entries is not None:
            content.named.append(entries.rows["msg_base_offset"][entries.rows["size"] > 0].astype(np.int64))
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

    def fault(self, position: int, length: int, message: str, *, code: str = RECORD, count: int = 1) -> CompactedFault:
        return CompactedFault(self.file, self.directory.topic, self.directory.queue_id, position, length, message, code, count)

    def of_entry(self, number: int, message: str, count: int = 1) -> CompactedFault:
        return self.fault(int(number) * UNIT_SIZE, UNIT_SIZE, message, code=ENTRY, count=count)


def entries_of(queue: MappedFile) -> Entries:
    """Return the written units of a queue file. Raises UnreadableError."""
    rows = written_units(np.frombuffer(read_at(queue, 0, queue.length // UNIT_SIZE * UNIT_SIZE), UNIT_DTYPE))
    numbers = np.arange(rows.size)
    ends = np.flatnonzero((rows["physical_offset"] == -1) & (rows["size"] == 0))
    if not ends.size:
        return Entries(rows, numbers, None)
    return Entries(np.delete(rows, ends[0]), np.delete(numbers, ends[0]), int(ends[0]))


def sound(scanner: LogScanner, key: QueueKey, records: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
    """Return which messages of a file are of its queue, and have a body with the right checksum if that was computed."""
    own = [number for number in np.unique(records["topic"]) if scanner.topic(int(number)) == key[0]]
    ours = np.isin(records["topic"], own) & (records["queue_id"] == key[1])
    return np.asarray(ours & (records["faults"] & int(Fault.BODY_CRC) == 0))


def content_of(scanner: LogScanner, file: MappedFile) -> tuple[npt.NDArray[np.void], list[Damage]]:
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
    scanner: LogScanner, make: _Maker, records: npt.NDArray[np.void], damages: Sequence[Damage], entries: Entries | None
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
    damaged = (records["faults"] & int(Fault.BODY_CRC)) != 0
    for row in np.flatnonzero(~sound(scanner, (make.directory.topic, make.directory.queue_id), records)):
        one = records[row]
        of_another = f"the message is of {scanner.topic(int(one['topic']))}/{int(one['queue_id'])}"
        why = "the checksum of the body does not match" if damaged[row] else of_another
        yield make.fault(int(one["position"]) - start, int(one["size"]), why)


def _in_queue(
    make: _Maker, entries: Entries, records: npt.NDArray[np.void], damages: Sequence[Damage], *, is_last: bool
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
    return [make.fault(0, 0, text, code=ENTRY, count=int(without.size))]


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
