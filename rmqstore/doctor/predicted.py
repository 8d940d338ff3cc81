"""The simulated start as findings about the store: why it fails, what it discards, which queues it leaves wrong."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rmqstore.doctor.checks.losses import Loss
from rmqstore.doctor.checks.sample import Sample, SampledQueue, uncovered
from rmqstore.doctor.checks.scanrange import ScanRange
from rmqstore.errors import RmqstoreError
from rmqstore.findings import Finding
from rmqstore.formats import consumequeue
from rmqstore.formats.message import MESSAGE_MAGIC_V1, smallest_record
from rmqstore.prediction.consequences import Consequences, QueueFate, QueueOutcome
from rmqstore.prediction.outcome import Outcome, QueueState
from rmqstore.reading.entries import unit_at
from rmqstore.reading.rocksdb.indexdatabase import last_indexed
from rmqstore.store.ends import batch_queue_ends, queue_ends
from rmqstore.store.root import QueueDirectory
from rmqstore.verify.context import Context
from rmqstore.verify.guard import limited
from rmqstore.verify.queues.judgement import QueueJudge, dispatches_to_light_queues, known_topics
from rmqstore.verify.queues.spans import QueueKey
from rmqstore.wording import counted

_SMALLEST = smallest_record(MESSAGE_MAGIC_V1, 0)


@dataclass(frozen=True, slots=True)
class LaggingQueue:
    """A queue that ends before the log. `end` and `wanted` are queue offsets, `left` entries that the start does not add either.

    `at_least`: there may be more of them, since messages of a queue without files may have expired. `code` and `remark`: of its finding.
    """

    topic: str
    queue_id: int
    end: int
    wanted: int
    left: int
    code: str
    remark: str = ""
    at_least: bool = False

    @property
    def lasting(self) -> bool:
        """Whether its messages stay invisible, as far as is known."""
        return self.left > 0 and self.code in ("RMQ-CQ-START", "RMQ-CQ-MISSING")


@dataclass(frozen=True)
class Prediction:
    """The simulated start and what was read of the store. `consumed`: topics for which consumers have offsets."""

    context: Context
    outcome: Outcome
    consequences: Consequences
    loss: Loss
    range: ScanRange
    sample: Sample
    consumed: frozenset[str]
    queues: Mapping[QueueKey, QueueDirectory]
    batch_queues: Mapping[QueueKey, QueueDirectory]

    @property
    def deletes_queues(self) -> bool:
        """Whether every queue is deleted because the log is empty."""
        return not self.context.store.message_log.files and bool(self.queues or self.batch_queues)

    @property
    def cuts_log(self) -> bool:
        """Whether messages that can be read now are discarded."""
        return self.loss.anything

    @cached_property
    def lagging(self) -> tuple[LaggingQueue, ...]:
        """Queues that lack records of the scan range or of the sample."""
        if self.context.store.rocksdb_queues:
            return ()
        judge = QueueJudge(self.context, known_topics(self.context), dispatches_to_light_queues(self.context, self.queues))
        found = {(queue.topic, queue.queue_id): queue for queue in self._lagging(judge)}
        for queue in self._lagging_in_sample(judge):
            key = queue.topic, queue.queue_id
            if key not in found or not found[key].lasting:
                found[key] = queue
        return tuple(queue for _, queue in sorted(found.items()))

    @cached_property
    def unindexed(self) -> npt.NDArray[np.int64]:
        """Physical offsets of sampled records with keys that no index covers after the start."""
        files = (self.outcome.after_start or self.outcome.after_load).index_files
        if files is None or self.outcome.scan is None or not self.context.store.config.flag("messageIndexEnable"):
            return np.zeros(0, np.int64)
        last = last_indexed(self.context.store) if not files else None
        missed = uncovered(self.sample.keyed, files)
        return missed if last is None else missed[missed > last]

    @property
    def harmed(self) -> Sequence[QueueFate]:
        """Queues that the start cuts, resets or shifts; none where it does not reach them."""
        return self.consequences.queues if self._recovers else ()

    @property
    def _recovers(self) -> bool:
        """Whether the start reaches the recovery of the log, and its result for the queues is known."""
        return self.outcome.scan is not None and self.outcome.after_load.queues is not None

    def findings(self) -> Iterator[Finding]:
        """Yield all findings. Queues are limited to the first ones."""
        yield from self._cut()
        if not self.deletes_queues:
            tree = self.context.store.root / "consumequeue"
            yield from limited(self.context, tree, map(self._of_fate, self.harmed))
            yield from limited(self.context, tree, self._lagging_findings())
            yield from self._of_index()

    def _cut(self) -> Iterator[Finding]:
        if self.outcome.scan is None or not self.cuts_log:
            return
        scan, loss = self.outcome.scan, self.loss
        text = f"recovery stops at offset {scan.stop_offset} ({scan.stop_reason}) and discards {loss_text(loss)} after it"
        yield self.context.log_finding("RMQ-ST-CUT", text, scan.stop_offset, found=loss.messages)

    def _of_fate(self, fate: QueueFate) -> Finding:
        where = {"file": f"consumequeue/{fate.topic}/{fate.queue_id}", "topic": fate.topic, "queue_id": fate.queue_id}
        if fate.fate is QueueOutcome.SHIFTED:
            text = f"the start adds messages {abs(fate.shift)} places before their own queue offset"
            return self.context.finding("RMQ-CQ-START", text, found=fate.shift, **where)
        text = f"max offset drops from {fate.before} to {fate.after}; the offsets between them are reused"
        code = "RMQ-CQ-START" if self.cuts_log or fate.fate is QueueOutcome.RESET else "RMQ-CQ-BEYOND"
        if code == "RMQ-CQ-BEYOND":
            text = f"the last entries point beyond the end of the log; {text}"
        return self.context.finding(code, text, expected=fate.before, found=fate.after, queue_offset=fate.after, **where)

    # Queues that end before the log

    def _lagging(self, judge: QueueJudge) -> Iterator[LaggingQueue]:
        after = {name: queue.max_offset for name, queue in self.after.items()}
        for (topic, queue_id), span in sorted(self.range.queues.items()):
            if not span.records:
                continue
            directory = self.queues.get((topic, queue_id)) or self.batch_queues.get((topic, queue_id))
            end = self._end(directory, batch=(topic, queue_id) in self.batch_queues)
            if end is None or end >= span.next_offset:
                continue
            then = after.get(f"{topic}/{queue_id}", end)
            left = max(0, span.next_offset - max(then, end)) if self._recovers and self._keeps(span.last_position) else 0
            if directory is not None or not left:
                yield LaggingQueue(topic, queue_id, end, span.next_offset, left, "RMQ-CQ-START" if left else "RMQ-CQ-BEHIND")
                continue
            code, remark = self._missing_code(judge, topic)
            if code is not None:
                yield self._without_files(topic, queue_id, span.next_offset, left, span.records, code, remark)

    def _without_files(self, topic: str, queue_id: int, wanted: int, left: int, seen: int, code: str, remark: str) -> LaggingQueue:
        """Return a queue without files. `left`: queue offsets without an entry, `seen`: records of it that were read."""
        if self.context.log.min_offset > 0:
            return LaggingQueue(topic, queue_id, 0, wanted, min(left, seen), code, remark, at_least=True)
        # Nothing has expired, so that all queue offsets before the last one have messages, as far as the log has room for them.
        return LaggingQueue(topic, queue_id, 0, wanted, min(left, self.context.log.end_offset // _SMALLEST), code, remark)

    def _missing_code(self, judge: QueueJudge, topic: str) -> tuple[str | None, str]:
        """Return the judge's code and remark, but a topic for which consumers have offsets was not deleted."""
        code, remark = judge.missing_code(topic)
        if code == "RMQ-CQ-DELETED" and topic in self.consumed:
            return "RMQ-CQ-MISSING", "; the topic is not configured, but consumers have offsets for it"
        return code, remark

    def _lagging_in_sample(self, judge: QueueJudge) -> Iterator[LaggingQueue]:
        if not self._recovers:
            return
        for (topic, queue_id), sampled in self.sample.queues.items():
            state = self.after.get(f"{topic}/{queue_id}")
            if state is None or state.max_offset <= 0:
                code, remark = self._missing_code(judge, topic)
                if code is not None:
                    end = sampled.next_offset
                    yield self._without_files(topic, queue_id, end, end, sampled.messages, code, remark)
            elif (left := _left(sampled, state, self._first_message(topic, queue_id, sampled, state))) > 0:
                read = min(left, sampled.messages)
                yield LaggingQueue(topic, queue_id, state.max_offset, sampled.next_offset, read, "RMQ-CQ-START", at_least=read < left)

    def _first_message(self, topic: str, queue_id: int, sampled: SampledQueue, state: QueueState) -> int:
        """Return the first queue offset with a message: a queue that lost its files begins with fillers, of this or an earlier start."""
        begin = max(state.min_offset, state.filled_until)
        if state.filled_until or (topic, queue_id) not in self.queues:
            return begin
        files = self.queues[topic, queue_id].files

        def is_message(offset: int) -> bool:
            unit = unit_at(files, offset)
            return unit is None or unit.size != consumequeue.PRE_BLANK_SIZE

        first, end = max(begin, sampled.first_offset), min(sampled.next_offset, state.max_offset)
        try:
            return begin if first >= end or is_message(first) else bisect_left(range(end), True, lo=first, key=is_message)
        except RmqstoreError:
            return begin

    def _keeps(self, offset: int) -> bool:
        """Return whether the log also has a record at `offset` after the start."""
        return self.outcome.scan is None or offset < self.outcome.scan.stop_offset

    @cached_property
    def after(self) -> Mapping[str, QueueState]:
        """The queues by `topic/queueId` after the start; as they are now where it does not reach them or that is unknown."""
        state = self.outcome.after_start or self.outcome.after_load
        if self.outcome.starts and state.queues is not None:
            return state.queues
        return dict(self._on_disk())

    def _on_disk(self) -> Iterator[tuple[str, QueueState]]:
        for queues, ends_of in ((self.queues, queue_ends), (self.batch_queues, batch_queue_ends)):
            for (topic, queue_id), queue in queues.items():
                try:
                    ends = ends_of(queue.files)
                except RmqstoreError:
                    continue
                count = len(queue.files.files)
                yield f"{topic}/{queue_id}", QueueState(ends.min_offset, ends.max_offset, ends.last_physical_offset, 0, count)

    def _end(self, directory: QueueDirectory | None, *, batch: bool) -> int | None:
        """Return the queue offset after the last entry on disk; None where it cannot be read, which the check of the files reports."""
        if directory is None:
            return 0
        try:
            return (batch_queue_ends if batch else queue_ends)(directory.files).max_offset
        except RmqstoreError:
            return None

    def _lagging_findings(self) -> Iterator[Finding]:
        for queue in self.lagging:
            where = {
                "file": f"consumequeue/{queue.topic}/{queue.queue_id}",
                "topic": queue.topic,
                "queue_id": queue.queue_id,
                "queue_offset": queue.end,
                "expected": queue.wanted,
                "found": queue.end,
            }
            yield self.context.finding(queue.code, self._text(queue), **where)

    def _text(self, queue: LaggingQueue) -> str:
        missing, left = counted(queue.wanted - queue.end, "message"), counted(queue.left, "message")
        least = "at least " if queue.at_least else ""
        match queue.code:
            case "RMQ-CQ-BEHIND":
                return f"the queue ends {missing} before the log{'; the start adds them' if self._recovers else ''}"
            case "RMQ-CQ-START":
                if queue.wanted <= queue.end:
                    return f"after the start the queue lacks its first messages, {least}{queue.left}, which are in the log"
                return f"the queue ends {missing} before the log; {least}{queue.left} of them stay invisible"
            case _:
                verb = "is" if queue.left == 1 else "are"
                return f"{least}{left} of this queue {verb} in the log, but the queue has no files{queue.remark}"

    def _of_index(self) -> Iterator[Finding]:
        missed = self.unindexed
        if len(missed) and not self.consequences.index_items_lost:
            text = f"no index file covers {counted(len(missed), 'message')} with keys, of those that were read"
            yield self.context.log_finding("RMQ-IX-INCOMPLETE", text, int(missed[0]), expected=0, found=len(missed))


def _left(sampled: SampledQueue, state: QueueState, first: int) -> int:
    """Return how many queue offsets of the sample the queue lacks: after its end or before its `first` one."""
    after_end = max(0, sampled.next_offset - state.max_offset)
    before = max(0, min(first, sampled.next_offset) - sampled.first_offset)
    return after_end + before


def loss_text(loss: Loss) -> str:
    """Return a loss in words."""
    words = f"{counted(loss.messages, 'message')} ({counted(loss.bytes, 'byte')})"
    if loss.uncounted_files:
        files = counted(loss.uncounted_files, "file")
        words = f"at least {words}, and {files} with up to {loss.uncounted_bytes} bytes that were not counted"
    return words
