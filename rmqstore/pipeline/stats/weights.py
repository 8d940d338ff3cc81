"""Reclaimable bytes of a log: those that no consumer will read again, and why. Every byte counts once, under the first reason that holds.

What can be known of a store before its log is read – its topics, the minimum offsets of queues, the retention of messages – is a value
(`StoreFacts`) that travels with the job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from rmqstore.errors import RmqstoreError
from rmqstore.formats.naming import DLQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC, SYSTEM_PREFIX, is_filler_topic
from rmqstore.formats.sysflag import SysFlag
from rmqstore.scan.tail import tail_records
from rmqstore.scan.walk import Batch, LogScanner
from rmqstore.store.ends import QueueEnds, batch_queue_ends, log_ends, queue_ends
from rmqstore.store.root import Store
from rmqstore.verify.context import Context, Options
from rmqstore.verify.parts.config import ROCKSDB_DIRECTORIES
from rmqstore.verify.queues.judgement import known_topics

_HOUR_MS = 3_600_000
# Topics that every broker has for itself (`TopicValidator`), besides those with the prefix.
_SYSTEM_TOPICS = {SCHEDULE_TOPIC, "TBW102", "BenchmarkTest", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT", "TRANS_CHECK_MAX_TIME_TOPIC"}


class Weight(IntEnum):
    """The use of bytes of a log. Up to FILLER these are records; the name in lower case is what users see."""

    LIVE = 0
    RETRY = 1  # of a %RETRY% topic
    DEAD_LETTER = 2  # of a %DLQ% topic
    SYSTEM = 3  # of a topic of the broker itself
    EXPIRED = 4  # older than brokers keep messages
    BEFORE_QUEUE_MINIMUM = 5  # before the first offset of its queue
    DELETED_TOPIC = 6  # the topic is no longer in topics.json, or has no queues
    FILLER = 7  # written by a repair in place of lost records
    ENTRY_HEADER = 8  # headers of DLedger entries
    BLANK = 9  # the end of a file that the next record did not fit into
    DAMAGED = 10  # no records
    UNWRITTEN = 11  # zeros up to the end of a file


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """Facts that the log alone does not show. None: unknown, and no topic counts as unused.

    `topics` = those of topics.json; `with_queues` = those with a directory of queues; `minimums` = first queue offset by (topic, queue id),
    if it is not 0; `expired_before` = ms since epoch: older messages are kept longer than fileReservedTime, counted from the last one.
    """

    topics: frozenset[str] | None = None
    with_queues: frozenset[str] | None = None
    minimums: Mapping[tuple[str, int], int] = field(default_factory=dict)
    expired_before: int = 0

    @classmethod
    def of(cls, store: Store) -> StoreFacts:
        """Read the facts: some reads per queue, and the ends of the log. Raises UnreadableError if directories or log are unreadable."""
        in_rocksdb = any((store.config_path / name / "CURRENT").exists() for name in ROCKSDB_DIRECTORIES)
        topics = None if in_rocksdb else known_topics(Context(store, Options()))
        ends = dict(_queue_ends(store))
        with_queues = None if store.rocksdb_queues or not ends else frozenset(topic for topic, _ in ends)
        minimums = {queue: one.min_offset for queue, one in ends.items() if one.min_offset > 0}
        late = max((one.last_physical_offset for one in ends.values()), default=-1)
        return cls(topics, with_queues, minimums, _expired_before(store, late))

    def weight_of(self, topic: str) -> Weight:
        """Return the weight of a topic's messages while they are young and in their queues."""
        if (self.topics is not None and topic not in self.topics) or (self.with_queues is not None and topic not in self.with_queues):
            return Weight.DELETED_TOPIC
        if topic.startswith(RETRY_PREFIX):
            return Weight.RETRY
        if topic.startswith(DLQ_PREFIX):
            return Weight.DEAD_LETTER
        if topic in _SYSTEM_TOPICS or topic.lower().startswith(SYSTEM_PREFIX):
            return Weight.SYSTEM
        return Weight.LIVE


class Scales:
    """Weighs the records of one scanner; queues are looked up once each."""

    def __init__(self, facts: StoreFacts, scanner: LogScanner) -> None:
        self._facts = facts
        self._scanner = scanner
        self._weights = np.zeros(0, np.int64)
        self._minimums = np.zeros(0, np.int64)
        self._fillers = np.zeros(0, np.bool_)

    def weigh(self, batch: Batch) -> npt.NDArray[np.int64]:
        """Return the Weight of each record, int64[n]."""
        self._learn()
        records, queues = batch.records, batch.records["queue"]
        weights: npt.NDArray[np.int64] = self._weights[queues]
        dispatched = weights < Weight.DELETED_TOPIC
        weights[dispatched & (records["store_timestamp"] < self._facts.expired_before)] = Weight.EXPIRED
        weights[dispatched & (records["queue_offset"] < self._minimums[queues])] = Weight.BEFORE_QUEUE_MINIMUM
        rolled_back = (records["sys_flag"] & SysFlag.TRANSACTION_MASK) == SysFlag.TRANSACTION_ROLLBACK
        weights[rolled_back & self._fillers[queues]] = Weight.FILLER
        return weights

    def _learn(self) -> None:
        known, count = len(self._weights), self._scanner.queue_count
        if known == count:
            return
        queues = [self._scanner.queue(number) for number in range(known, count)]
        weights = [self._facts.weight_of(topic) for topic, _ in queues]
        minimums = [self._facts.minimums.get(queue, 0) for queue in queues]
        fillers = [is_filler_topic(topic) for topic, _ in queues]
        self._weights = np.append(self._weights, np.array(weights, np.int64))
        self._minimums = np.append(self._minimums, np.array(minimums, np.int64))
        self._fillers = np.append(self._fillers, np.array(fillers, np.bool_))


def _queue_ends(store: Store) -> Iterator[tuple[tuple[str, int], QueueEnds]]:
    """Yield the ends of every queue; one that cannot be read counts as empty."""
    for queues, ends in ((store.queue_directories(), queue_ends), (store.batch_queue_directories(), batch_queue_ends)):
        for queue in queues:
            try:
                found = ends(queue.files)
            except RmqstoreError:
                found = QueueEnds(0, 0, -1, 0)
            yield (queue.topic, queue.queue_id), found


def _expired_before(store: Store, late: int) -> int:
    """Return the time before which messages are expired; `late` is the physical offset of a late record, -1 if none is known."""
    log = store.message_log
    if not log.files:
        return 0
    last = log_ends(log, entry_header=store.entry_header(log.files[-1]), hint=late, far=tail_records).last
    return 0 if last is None else last.store_timestamp - store.config.integer("fileReservedTime") * _HOUR_MS
