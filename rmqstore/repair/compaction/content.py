"""Compacted logs with faults: written again from their valid copies and from the messages of the commit log.

Of the commit log come the messages that the log or its queue has a trace of, the newest of each key, and those that no compaction has
reached, all of them after the first copy. A message that neither has is lost. Source: fact sheet queues §5.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rmqstore.formats.compaction import CompactedQueue, log_file_size, parse_positions, queue_file_size
from rmqstore.formats.naming import offset_to_file_name
from rmqstore.reading.entries import units
from rmqstore.reading.originals import Reader, keys_in
from rmqstore.repair.compaction.files import MESSAGE, Lengths, Messages, build
from rmqstore.repair.derived.requests import Planning
from rmqstore.repair.log.future import FutureLog
from rmqstore.repair.plan.model import LostMessage
from rmqstore.scan.columns import Check, Fault
from rmqstore.scan.walk import Batch, LogScanner
from rmqstore.store.ends import queue_ends
from rmqstore.store.mapped import MappedFile, MappedFileQueue
from rmqstore.store.parts import PartKind
from rmqstore.store.queues import QueueDirectory
from rmqstore.store.root import Store
from rmqstore.store.window import read_if_file
from rmqstore.verify.parts.compacted import (
    CompactedFault,
    compacted_topics,
    content_of,
    entries_of,
    queue_faults,
    queues_of_logs,
    queues_without_log,
    sound,
)
from rmqstore.verify.parts.compactedcopies import Newest
from rmqstore.verify.parts.compaction import LOG, POSITIONS, QUEUE, without_records, without_units
from rmqstore.verify.queues.spans import QueueKey

_NOT_QUEUED = 4  # bit of prepared and of rolled back records in SYSFLAG
_LARGEST_POSITIONS = 64 << 20
_CODE = "RMQ-CM-RECORD"
_PLACE = ["queue_offset", "position"]

Offsets = npt.NDArray[np.int64]


def plan_content(
    planning: Planning, store: Store, log: FutureLog, *, left_out: frozenset[QueueKey] = frozenset(), new: Iterable[QueueKey] = ()
) -> None:
    """Plan the files of compacted logs that have faults, or that are missing. Reads the commit log once if there are any.

    `new`: queues that the store gets by this plan. Raises UnreadableError, StoreChangedError, OSError.
    """
    of_log = queues_of_logs(store)
    later = _not_queued(log, of_log) if of_log and store.abort_present else set()
    candidates = (one for one in _queues(store, new) if one.key not in left_out)
    wanted = [one for one in candidates if one.has_faults(store, of_log.get(one.key)) or one.key in later]
    if not wanted:
        return
    originals = _originals(log, {one.key for one in wanted})
    positions = _positions(store)
    for one in wanted:
        _plan(planning, one, originals[one.key], positions.get(CompactedQueue(*one.key), -1), log)


def _not_queued(log: FutureLog, queues: Mapping[QueueKey, QueueDirectory]) -> set[QueueKey]:
    """Return the queues whose last messages have no entry: a kill came first, so neither has the compacted log what they say."""
    last = {key: _last_position(queue.files) for key, queue in queues.items()}
    start, found, scanner = min(last.values()), set(), LogScanner(windows=log.window)
    for batch in replace(log, files=tuple(file for file in log.files if file.end > start)).batches(scanner):
        for number in np.unique(batch.records["queue"]).tolist():
            key = scanner.queue(number)
            if key in last and (batch.records["position"][batch.records["queue"] == number] > last[key]).any():
                found.add(key)
    return found


def _last_position(queue: MappedFileQueue) -> int:
    """Return the physical offset of the last entry of a queue, -1 without any."""
    end = queue_ends(queue).max_offset
    return max((unit.physical_offset for unit in units(queue, end - 1, end)), default=-1) if end > 0 else -1


@dataclass(slots=True)
class _Queue:
    """A compacted log and its queue. `key`: topic and queue id; `faults`: those found; `lengths`: what its files should have.

    `headless`: files of any queue that begin with what they should not.
    """

    key: QueueKey
    log: MappedFileQueue
    queue: MappedFileQueue
    directories: tuple[Path, Path]
    lengths: Lengths
    headless: frozenset[Path]
    faults: list[CompactedFault] = field(default_factory=list)

    def has_faults(self, store: Store, original: QueueDirectory | None) -> bool:
        """Look for faults. Without any file, the topic's messages are the fault. `original`: the consume queue, if it has files."""
        if not self.log.files and not self.queue.files:
            return True
        log, queue = (
            QueueDirectory(*self.key, files, str(path)) for files, path in zip((self.log, self.queue), self.directories, strict=True)
        )
        self.faults = list(queue_faults(log, queue, store, original))
        return bool(self.faults or self.odd_starts())

    def odd_starts(self) -> set[int]:
        """Return the starts of files without a counterpart, of another length, or that begin with no record or entry."""
        names = [{file.start for file in files.files} for files in (self.log, self.queue)]
        lengths = ((self.log, self.lengths.log), (self.queue, self.lengths.queue))
        wrong = {file.start for files, length in lengths for file in files.files if file.length != length}
        headless = {file.start for files in (self.log, self.queue) for file in files.files if file.path in self.headless}
        return (names[0] ^ names[1]) | wrong | headless


def _queues(store: Store, new: Iterable[QueueKey]) -> Iterator[_Queue]:
    """Yield the compacted queues: those with files, and those of compacted topics that have messages and no files."""
    if not store.covers(PartKind.COMPACTION):
        return
    logs = {(one.topic, one.queue_id): one for one in store.compaction_log_directories()}
    queues = {(one.topic, one.queue_id): one for one in store.compaction_queue_directories()}
    keys = {*(key for key, one in logs.items() if one.files.files), *(key for key, one in queues.items() if one.files.files)}
    keys |= {(one.topic, one.queue_id) for one in queues_without_log(store)}
    compacted = frozenset(compacted_topics(store) if new else ())
    keys |= {key for key in new if key[0] in compacted}
    lengths = _lengths(store, [*logs.values()], [*queues.values()])
    headless = frozenset([*without_records(store), *without_units(store)])
    root = store.path_of(PartKind.COMPACTION)
    for topic, queue_id in sorted(keys):
        directories = (root / LOG / topic / str(queue_id), root / QUEUE / topic / str(queue_id))
        empty = MappedFileQueue((), (), None)
        of_log, of_queue = (found.get((topic, queue_id)) for found in (logs, queues))
        files = [empty if one is None else one.files for one in (of_log, of_queue)]
        yield _Queue((topic, queue_id), files[0], files[1], directories, lengths, headless)


def _lengths(store: Store, logs: Sequence[QueueDirectory], queues: Sequence[QueueDirectory]) -> Lengths:
    """Return the lengths by the settings; without them by the files that are there, else the defaults."""
    queue = queue_file_size(store.config.integer("compactionCqMappedFileSize"))
    lengths = Lengths(log_file_size(store.config.integer("compactionMappedFileSize"), queue), queue)
    if any(store.config.explicit_integer(key) is not None for key in ("compactionMappedFileSize", "compactionCqMappedFileSize")):
        return lengths
    found = [next((one.files.file_size for one in tree if one.files.files), None) for tree in (logs, queues)]
    return Lengths(found[0] or lengths.log, found[1] or lengths.queue)


def _positions(store: Store) -> dict[CompactedQueue, int]:
    """Return up to which queue offset each queue was compacted, nothing where the file does not say so."""
    data = read_if_file(store.path_of(PartKind.COMPACTION) / POSITIONS, _LARGEST_POSITIONS)
    try:
        return {} if data is None else parse_positions(data)
    except ValueError:
        return {}


# Messages


@dataclass(slots=True)
class _Originals:
    """The messages of one queue in the commit log: `rows` (MESSAGE), ascending by queue offset, and which of them are the newest."""

    parts: list[Messages] = field(default_factory=list)
    newest: Newest = field(default_factory=Newest)

    def add(self, batch: Batch, rows: npt.NDArray[np.intp]) -> None:
        """Add these records of a batch."""
        records = batch.records[rows]
        keys = [keys_in(batch.properties_block(int(row))) for row in rows]
        kept = np.array([bool(one) for one in keys], bool)
        self.parts.append(_messages(records[kept], is_copy=False))
        columns = (records["queue_offset"].tolist(), records["position"].tolist(), (records["body_length"] > 0).tolist())
        for one, *values in zip(keys, *columns, strict=True):
            self.newest.take(one, *values)

    @property
    def rows(self) -> Messages:
        return _by_offset(self.parts)


def _messages(records: npt.NDArray[np.void], *, is_copy: bool) -> Messages:
    rows = np.zeros(len(records), MESSAGE)
    for name in MESSAGE.names or ():
        rows[name] = is_copy if name == "is_copy" else records[name]
    return rows


def _by_offset(parts: Sequence[Messages]) -> Messages:
    """Return messages by queue offset, the last one of each."""
    rows = np.concatenate([np.zeros(0, MESSAGE), *parts])
    rows = rows[np.argsort(rows["queue_offset"], kind="stable")]
    return np.asarray(rows[np.append(rows["queue_offset"][1:] != rows["queue_offset"][:-1], [True] * bool(len(rows))).astype(bool)])


def _originals(log: FutureLog, keys: set[QueueKey]) -> dict[QueueKey, _Originals]:
    found: dict[QueueKey, _Originals] = defaultdict(_Originals)
    scanner = LogScanner(checks=Check.BODY_CRC, windows=log.window)
    for batch in log.batches(scanner):
        records = batch.records
        good = (records["faults"] & int(Fault.BODY_CRC) == 0) & (records["sys_flag"] & _NOT_QUEUED == 0)
        for number in np.unique(records["queue"]).tolist():
            if scanner.queue(number) in keys:
                found[scanner.queue(number)].add(batch, np.flatnonzero(good & (records["queue"] == number)))
    return found


@dataclass(frozen=True, slots=True)
class _Present:
    """The content of a file and its queue file (MESSAGE): valid copies, and the messages of entries that can be right."""

    start: int
    copies: Messages
    named: Messages

    @property
    def first(self) -> int | None:
        """The lowest queue offset that the file is known to have."""
        return min((int(one["queue_offset"][0]) for one in (self.copies, self.named) if len(one)), default=None)


def _present(one: _Queue) -> list[_Present]:
    scanner = LogScanner(checks=Check.BODY_CRC)
    queues = {file.start: file for file in one.queue.files}
    return [_of_file(scanner, one, file, queues.get(file.start)) for file in one.log.files]


def _of_file(scanner: LogScanner, one: _Queue, file: MappedFile, queue: MappedFile | None) -> _Present:
    records, _ = content_of(scanner, file)
    copies, named = (
        _messages(records[sound(scanner, one.key, records)], is_copy=True),
        np.zeros(0, MESSAGE) if queue is None else _named(file, queue),
    )
    confirmed = np.isin(copies[_PLACE], named[_PLACE])
    return _Present(file.start, copies[confirmed | _ascending(copies["queue_offset"])], named)


def _named(file: MappedFile, queue: MappedFile) -> Messages:
    """Return the messages of the entries that can be right: inside the file, in the order of their queue offsets."""
    rows = entries_of(queue).rows
    place, size = rows["physical_offset"].astype(np.int64), rows["size"].astype(np.int64)
    inside = (place >= file.start) & (size > 0) & (place + size <= file.end) & (rows["batch_size"] == 1) & (rows["msg_base_offset"] >= 0)
    named = np.zeros(int(inside.sum()), MESSAGE)
    named["queue_offset"], named["position"], named["size"] = rows["msg_base_offset"][inside], place[inside], size[inside]
    return named[_ascending(named["queue_offset"])]


def _ascending(offsets: Offsets) -> npt.NDArray[np.bool_]:
    """Return which offsets are between that before and that after."""
    before = np.concatenate([[-1], np.maximum.accumulate(offsets)[:-1]]) if offsets.size else offsets
    after = np.concatenate([np.minimum.accumulate(offsets[::-1])[::-1][1:], [np.iinfo(np.int64).max]]) if offsets.size else offsets
    return np.asarray((offsets > before) & (offsets < after))


# Files


def _plan(planning: Planning, one: _Queue, originals: _Originals, compacted_until: int, log: FutureLog) -> None:
    present = _present(one)
    copies, named = _by_offset([part.copies for part in present]), _by_offset([part.named for part in present])
    messages = _merged(originals, copies, named, compacted_until)
    for row in named[~np.isin(named["queue_offset"], messages["queue_offset"])]:
        why = "neither its copy in the compacted log nor its message in the commit log is intact"
        planning.builder.lose(LostMessage(*one.key, int(row["queue_offset"]), None, int(row["size"]), why))
    if not len(messages) and not one.log.files and not one.queue.files:
        return
    with Reader(one.log) as reader:

        def read(message: np.void) -> bytes:
            position, size = int(message["position"]), int(message["size"])
            if message["is_copy"]:
                data = reader.read(position, size)
                assert data is not None
                return data
            file = log.queue.find(position)
            assert file is not None
            return log.read(file, position - file.start, size)

        files = _placed(one, present, messages)
        last = max(files, default=-1)
        for start, (content, is_written) in files.items():
            if is_written:
                name = f"{one.key[0]}/{one.key[1]} {start}"
                staged = build(planning.staging, name, start, content, one.lengths, read, is_last=start == last)
                for directory, file in zip(one.directories, staged, strict=True):
                    planning.builder.replace(
                        directory / offset_to_file_name(start), file, reason="the compacted log has faults", code=_CODE
                    )
    for files_there, directory in zip((one.log, one.queue), one.directories, strict=True):
        for gone in files_there.files:
            if gone.start not in files:
                planning.builder.quarantine(directory / gone.path.name, reason="the compacted log is written without this file", code=_CODE)


def _merged(originals: _Originals, copies: Messages, named: Messages, compacted_until: int) -> Messages:
    """Return the messages that the log is to have, by queue offset: originals where there are any, else valid copies."""
    traces = np.union1d(copies["queue_offset"], named["queue_offset"])
    rows = originals.rows
    wanted = originals.newest.wanted(traces)["queue_offset"]
    offsets = rows["queue_offset"]
    kept = np.isin(offsets, traces)
    after = offsets >= (int(traces[0]) if traces.size else 0)
    kept |= after & (np.isin(offsets, wanted) | (offsets > compacted_until))
    rows = rows[kept]
    return _by_offset([copies[~np.isin(copies["queue_offset"], rows["queue_offset"])], rows])


def _placed(one: _Queue, present: Sequence[_Present], messages: Messages) -> dict[int, tuple[Messages, bool]]:
    """Return the messages of each file by its start, and whether it is written: where they fit, files keep their names and messages."""
    firsts = [part.first for part in present]
    known = [first for first in firsts if first is not None]
    apart = all(part.start % one.lengths.log == 0 for part in present)
    if present and apart and len(known) == len(firsts) and known == sorted(set(known)):
        which = np.maximum(np.searchsorted(np.array(known), messages["queue_offset"], side="right") - 1, 0)
        parts = [messages[which == number] for number in range(len(present))]
        tail = list(one.lengths.divided(parts[-1]))
        if all(map(one.lengths.fit, parts[:-1])) and all(map(len, parts)):
            faulty = {fault.file.start for fault in one.faults} | one.odd_starts()
            files = {part.start: (rows, part.start in faulty or _changed(part, rows)) for part, rows in zip(present, parts, strict=True)}
            if len(tail) == 1:
                return files
            last = present[-1].start
            return files | {last + number * one.lengths.log: (rows, True) for number, rows in enumerate(tail)}
    return {number * one.lengths.log: (rows, True) for number, rows in enumerate(one.lengths.divided(messages))}


def _changed(part: _Present, rows: Messages) -> bool:
    return not np.array_equal(part.copies["queue_offset"], rows["queue_offset"])
