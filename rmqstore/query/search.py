"""The search itself: through the index, a consume queue or the order of store times where these answer, else through the log.

What a broker derives from the log can lack messages. So the parts of the log that the index or a queue does not cover are searched
record by record, and each message says on which way it was found.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any

from rmqstore.dump.dledger import dledger_log
from rmqstore.dump.items import objects
from rmqstore.dump.log import LogDump
from rmqstore.dump.message import message_object
from rmqstore.dump.request import Filters, Request
from rmqstore.errors import UnreadableError
from rmqstore.formats.multidispatch import is_lmq
from rmqstore.formats.record import Record
from rmqstore.query.times import TimeSearch
from rmqstore.query.wanted import Key, Offset, QueueRange, TimeRange, Value, Wanted
from rmqstore.reading.entries import QueueEntry, batch_units, units
from rmqstore.reading.indexchains import entries_of_key, uncovered
from rmqstore.reading.records import record_at
from rmqstore.reading.rocksdb.indexdatabase import look_up
from rmqstore.store.ends import QueueEnds, batch_queue_ends, queue_ends
from rmqstore.store.mapped import MappedFileQueue
from rmqstore.store.rocksdb.asfiles import with_file_queues
from rmqstore.store.root import Store

_DAMAGE = "damage"
_Accept = Callable[[Value], bool]


class Way(StrEnum):
    """The ways to a message."""

    INDEX = "index"
    QUEUE = "queue"
    TIME = "time"
    OFFSET = "offset"
    SCAN = "scan"


@dataclass(slots=True)
class Report:
    """Names of what was searched, damaged ranges of the log there as (offset, length), and the number of messages found."""

    searched: list[str] = field(default_factory=list)
    damages: list[tuple[int, int]] = field(default_factory=list)
    found: int = 0


@dataclass(frozen=True, slots=True)
class _Queue:
    """A consume queue; one in RocksDB as files."""

    files: MappedFileQueue
    read: Callable[[MappedFileQueue, int, int], Iterator[QueueEntry]]
    ends: QueueEnds

    @property
    def min_offset(self) -> int:
        return self.ends.min_offset

    @property
    def max_offset(self) -> int:
        return self.ends.max_offset

    def entries(self, begin: int, end: int) -> Iterator[QueueEntry]:
        return self.read(self.files, begin, end)

    def place_before(self, queue_offset: int, begin_of_log: int) -> int:
        """Return a physical offset that messages from a queue offset on are not before."""
        if self.min_offset < self.max_offset <= queue_offset:
            return self.ends.last_physical_offset
        return next((entry.physical_offset for entry in self.entries(queue_offset - 1, queue_offset)), begin_of_log)

    def place_after(self, queue_offset: int, end_of_log: int) -> int:
        """Return a physical offset that messages up to a queue offset are before."""
        following = max(queue_offset + 1, self.min_offset)
        return next((entry.physical_offset for entry in self.entries(following, following + 1)), end_of_log)


class Search:
    """A search in a store. `report` is complete when the messages were read."""

    def __init__(
        self, store: Store, wanted: Wanted, request: Request | None = None, *, scan: bool = False, threads: int | None = None
    ) -> None:
        """`request`: the form of bodies. `scan`: search the whole log, record by record."""
        self._store = store
        self._wanted = wanted
        self._request = request or Request()
        self._log = store.message_log
        self._scan_all = scan
        self._threads = threads
        self.report = Report()

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield the messages as `dump` shows them, each with its `way`. Raises UnreadableError, StoreChangedError."""
        for message in self._messages():
            self.report.found += 1
            yield message

    def _messages(self) -> Iterator[dict[str, Any]]:
        wanted = self._wanted
        if isinstance(wanted, Offset):
            yield from self._at(wanted.physical_offset)
        elif self._scan_all:
            yield from self._everything("a scan was requested")
        elif isinstance(wanted, Key):
            yield from self._with_key(wanted)
        elif isinstance(wanted, QueueRange):
            yield from self._in_queue(wanted)
        else:
            yield from self._at_time(wanted)

    # one way after the other

    def _at(self, offset: int) -> Iterator[dict[str, Any]]:
        record = record_at(self._log, offset)
        if record is None:
            self.report.searched.append(f"no record begins at offset {offset} of the log")
        else:
            yield self._shown(record, Way.OFFSET)

    def _with_key(self, wanted: Key) -> Iterator[dict[str, Any]]:
        files = self._store.index_files()
        topics = [wanted.topic] if wanted.topic is not None else self._topics()
        if not topics:
            yield from self._everything("no topic was given, and no topic has a queue")
            return
        if not files:
            yield from self._in_database(wanted, topics)
            return
        seen: set[int] = set()
        covered = []
        for entries in entries_of_key(self._store, topics, wanted.key):
            if entries.covered is not None:
                covered.append(entries.covered)
            for offset in entries.offsets:
                record = record_at(self._log, offset) if offset not in seen else None
                message = None if record is None else self._shown(record, Way.INDEX)
                if message is not None and wanted.accept(message):
                    seen.add(offset)
                    yield message
        names = "of 1 topic" if len(topics) == 1 else f"of the {len(topics)} topics that have queues"
        self.report.searched.append(f"the chains of the key in {len(covered)} of {len(files)} index files, {names}")
        for begin, end in uncovered(covered, self._log.min_offset, self._log.max_offset):
            why = f"bytes {begin} to {end} of the log, which the index does not cover"
            yield from self._scan(begin, end, Filters(topic=wanted.topic, key=wanted.key), wanted.accept, why, seen)

    def _in_database(self, wanted: Key, topics: list[str]) -> Iterator[dict[str, Any]]:
        """Yield the messages through the index in RocksDB, and those of the parts of the log that it is not of."""
        try:
            answer = look_up(self._store, topics, wanted.key)
        except UnreadableError:
            answer = None
        last = None if answer is None else record_at(self._log, answer.last)
        if answer is None or last is None:
            yield from self._everything("there are no index files")
            return
        seen: set[int] = set()
        for offset in answer.offsets:
            record = record_at(self._log, offset)
            message = None if record is None else self._shown(record, Way.INDEX)
            if message is not None and wanted.accept(message):
                seen.add(offset)
                yield message
        begin = TimeSearch(self._log).begin_of(answer.first_time) if answer.first is None else answer.first
        covered = begin, answer.last + last.size
        self.report.searched.append(
            f"the index in RocksDB, which is of the messages with a unique key in bytes {covered[0]} to {covered[1]} of the log"
        )
        for begin, end in uncovered([covered], self._log.min_offset, self._log.max_offset):
            why = f"bytes {begin} to {end} of the log, which the index does not cover"
            yield from self._scan(begin, end, Filters(topic=wanted.topic, key=wanted.key), wanted.accept, why, seen)

    def _in_queue(self, wanted: QueueRange) -> Iterator[dict[str, Any]]:
        with self._with_queues() as store:
            queue = _queue(store, wanted)
            if queue is None:
                yield from self._everything("the store has no such queue" if store else "the database of the queues cannot be read")
            else:
                yield from self._through(queue, wanted)

    def _through(self, queue: _Queue, wanted: QueueRange) -> Iterator[dict[str, Any]]:
        name = f"{wanted.topic}/{wanted.queue_id}"
        self.report.searched.append(f"queue {name}, which has queue offsets {queue.min_offset} to {queue.max_offset - 1}")
        at, before = wanted.first, queue.place_before(wanted.first, self._log.min_offset)
        missing: list[tuple[int, int]] = []
        seen: set[int] = set()
        for entry in queue.entries(wanted.first, min(wanted.last + 1, queue.max_offset)):
            record = record_at(self._log, entry.physical_offset)
            message = None if record is None else self._shown(record, Way.QUEUE)
            if message is None or not _is_of(entry, message, wanted):
                continue
            if entry.queue_offset > at:
                missing.append((before, entry.physical_offset))
            seen.add(entry.physical_offset)
            yield message
            at, before = entry.queue_offset + entry.messages, entry.physical_offset
        if at <= wanted.last:
            missing.append((before, queue.place_after(wanted.last, self._log.max_offset)))
        filters = Filters() if is_lmq(wanted.topic) else Filters(topic=wanted.topic)
        for begin, end in missing:
            why = f"bytes {begin} to {end} of the log, because {name} lacks entries or points to other records"
            yield from self._scan(begin, end, filters, wanted.accept, why, seen)

    def _at_time(self, wanted: TimeRange) -> Iterator[dict[str, Any]]:
        search = TimeSearch(self._log)
        begin, end = search.begin_of(wanted.first), search.end_of(wanted.last)
        if not search.is_ordered():
            yield from self._everything("the store times of the log do not ascend")
            return
        why = f"bytes {begin} to {end} of the log: store times ascend in the {search.count} records that were looked at"
        filters = Filters(topic=wanted.topic, from_time=wanted.first, to_time=wanted.last)
        yield from self._scan(begin, end, filters, wanted.accept, why, way=Way.TIME)

    # the log

    def _everything(self, why: str) -> Iterator[dict[str, Any]]:
        wanted = self._wanted
        assert not isinstance(wanted, Offset)
        filters = Filters()
        if isinstance(wanted, Key):
            filters = Filters(topic=wanted.topic, key=wanted.key)
        elif isinstance(wanted, TimeRange):
            filters = Filters(topic=wanted.topic, from_time=wanted.first, to_time=wanted.last)
        return self._scan(self._log.min_offset, self._log.max_offset, filters, wanted.accept, f"the whole log, because {why}")

    def _scan(
        self, begin: int, end: int, filters: Filters, accept: _Accept, why: str, seen: Collection[int] = (), way: Way = Way.SCAN
    ) -> Iterator[dict[str, Any]]:
        """Yield the messages that begin in [begin, end) and are not in `seen`."""
        self.report.searched.append(why)
        for value in self._values(begin, end, filters):
            if value["type"] == _DAMAGE:
                self.report.damages.append((value["physical_offset"], value["length"]))
            elif value["type"] == "message" and value["position"] not in seen and accept(value):
                yield {**value, "way": str(way)}

    def _values(self, begin: int, end: int, filters: Filters) -> Iterator[dict[str, Any]]:
        request = replace(self._request, filters=replace(filters, from_offset=begin, to_offset=end))
        levels = self._store.config.known_delay_levels
        if self._store.dledger is None:
            log = LogDump(self._log.files, lambda file: self._store.relative(file.path), request, levels)
            yield from objects(log.items(log.slow_records(), self._threads))
            return
        make = partial(message_object, delay_levels=levels, body=request.body, unpack=request.decompress)
        for value in dledger_log(self._log.files, lambda file: self._store.relative(file.path), make):
            message = value["message"] if value["type"] == "dledger_entry" else value
            if message is not None and (message["type"] == _DAMAGE or request.filters.accept(message)):
                yield message

    def _shown(self, record: Record, way: Way) -> dict[str, Any]:
        levels = self._store.config.known_delay_levels
        return {**message_object(record, record.physical_offset, levels, self._request.body, self._request.decompress), "way": str(way)}

    def _topics(self) -> list[str]:
        """Return the topics that have a queue."""
        with self._with_queues() as store:
            listed = (*store.queue_directories(), *store.batch_queue_directories()) if store else ()
        return sorted({queue.topic for queue in listed})

    @contextmanager
    def _with_queues(self) -> Iterator[Store | None]:
        """Yield the store with queues in files, None where their database cannot be read."""
        with ExitStack() as stack:
            try:
                store = stack.enter_context(with_file_queues(self._store))
            except UnreadableError:
                yield None
            else:
                yield store


def _queue(store: Store | None, wanted: QueueRange) -> _Queue | None:
    if store is not None:
        for listed, read, ends in (
            (store.queue_directories(wanted.topic), units, queue_ends),
            (store.batch_queue_directories(), batch_units, batch_queue_ends),
        ):
            for queue in listed:
                if (queue.topic, queue.queue_id) == (wanted.topic, wanted.queue_id):
                    return _Queue(queue.files, read, ends(queue.files))
    return None


def _is_of(entry: QueueEntry, message: Value, wanted: QueueRange) -> bool:
    """Return whether a record is the one that an entry has to point to; further queues need not have the numbers of their records."""
    begin, end = wanted.offsets_of(message)
    return begin < end and (message["topic"] != wanted.topic or begin == entry.queue_offset)
