"""What the simulated start says about the store, as findings: why it fails, what it throws away, which queues it leaves wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from rmqstore.doctor.losses import Loss
from rmqstore.doctor.scanrange import ScanRange
from rmqstore.errors import RmqstoreError
from rmqstore.findings import Finding
from rmqstore.recovery.consequences import Consequences, Fate, QueueFate
from rmqstore.recovery.outcome import Outcome
from rmqstore.store.ends import batch_queue_ends, queue_ends
from rmqstore.store.root import QueueDirectory
from rmqstore.verify.context import Context
from rmqstore.verify.guard import limited
from rmqstore.verify.queues import QueueJudge, dispatches_to_light_queues, known_topics
from rmqstore.verify.units import QueueKey


@dataclass(frozen=True, slots=True)
class Behind:
    """A queue that ends before the log does. `end` and `wanted` are queue offsets, `left` units that the start does not bring either."""

    topic: str
    queue_id: int
    end: int
    wanted: int
    left: int
    exists: bool


@dataclass(frozen=True)
class Prediction:
    """The simulated start beside what was read of the store."""

    context: Context
    outcome: Outcome
    consequences: Consequences
    loss: Loss
    range: ScanRange
    queues: Mapping[QueueKey, QueueDirectory]
    batch_queues: Mapping[QueueKey, QueueDirectory]

    @property
    def deletes_queues(self) -> bool:
        """The log is empty, so every queue is deleted."""
        return not self.context.store.message_log.files and bool(self.queues or self.batch_queues)

    @property
    def cuts_log(self) -> bool:
        """Messages that can be read now are thrown away."""
        return self.loss.anything

    @cached_property
    def behind(self) -> tuple[Behind, ...]:
        """Queues that lack the last records of the scan range."""
        return tuple(self._behind()) if not self.context.store.rocksdb_queues else ()

    @property
    def harmed(self) -> Sequence[QueueFate]:
        """Queues that the start cuts, resets or shifts."""
        return self.consequences.queues

    def findings(self) -> Iterator[Finding]:
        """All of it. Queues are limited to the first ones."""
        yield from self._cut()
        if not self.deletes_queues:
            tree = self.context.store.root / "consumequeue"
            yield from limited(self.context, tree, map(self._of_fate, self.harmed))
            yield from limited(self.context, tree, self._of_behind())

    def _cut(self) -> Iterator[Finding]:
        if self.outcome.scan is None or not self.cuts_log:
            return
        scan, loss = self.outcome.scan, self.loss
        text = f"recovery stops at offset {scan.stop_offset} ({scan.stop_reason}) and throws away {lost_words(loss)} behind it"
        yield self.context.log_finding("RMQ-ST-CUT", text, scan.stop_offset, found=loss.messages)

    def _of_fate(self, fate: QueueFate) -> Finding:
        where = {"file": f"consumequeue/{fate.topic}/{fate.queue_id}", "topic": fate.topic, "queue_id": fate.queue_id}
        if fate.fate is Fate.SHIFTED:
            text = f"the start puts messages {abs(fate.shift)} places before their own queue offset"
            return self.context.finding("RMQ-CQ-START", text, found=fate.shift, **where)
        text = f"the queue ends at {fate.before}, after the start at {fate.after}: these offsets are given to new messages"
        code = "RMQ-CQ-START" if self.cuts_log or fate.fate is Fate.RESET else "RMQ-CQ-BEYOND"
        if code == "RMQ-CQ-BEYOND":
            text = f"the last units point behind the end of the log; {text}"
        return self.context.finding(code, text, expected=fate.before, found=fate.after, queue_offset=fate.after, **where)

    # Queues behind the log

    def _behind(self) -> Iterator[Behind]:
        after = self._after_start()
        for (topic, queue_id), span in sorted(self.range.queues.items()):
            if not span.records:
                continue
            directory = self.queues.get((topic, queue_id)) or self.batch_queues.get((topic, queue_id))
            end = self._end(directory, batch=(topic, queue_id) in self.batch_queues)
            if end is None or end >= span.next_offset:
                continue
            then = after.get(f"{topic}/{queue_id}", 0 if after else end)
            left = max(0, span.next_offset - max(then, end)) if self._keeps(span.last_position) else 0
            yield Behind(topic, queue_id, end, span.next_offset, left, directory is not None)

    def _keeps(self, offset: int) -> bool:
        """Whether the log has a record at `offset` after the start, too."""
        return self.outcome.scan is None or offset < self.outcome.scan.stop_offset

    def _after_start(self) -> dict[str, int]:
        state = self.outcome.after_start or self.outcome.after_load
        if self.outcome.scan is None or state.queues is None:
            return {}
        return {name: queue.max_offset for name, queue in state.queues.items()}

    def _end(self, directory: QueueDirectory | None, *, batch: bool) -> int | None:
        """Queue offset behind the last unit on disk; None where it cannot be read, which the check of the files reports."""
        if directory is None:
            return 0
        try:
            return (batch_queue_ends if batch else queue_ends)(directory.files).max_offset
        except RmqstoreError:
            return None

    def _of_behind(self) -> Iterator[Finding]:
        context = self.context
        judge = QueueJudge(context, known_topics(context), dispatches_to_light_queues(context, self.queues))
        for queue in self.behind:
            where = {
                "file": f"consumequeue/{queue.topic}/{queue.queue_id}",
                "topic": queue.topic,
                "queue_id": queue.queue_id,
                "queue_offset": queue.end,
                "expected": queue.wanted,
                "found": queue.end,
            }
            if not queue.exists and queue.left:
                code, remark = judge.missing_code(queue.topic)
                if code is not None:
                    yield context.finding(code, f"messages of this queue are in the log, the queue has no files{remark}", **where)
            elif queue.left:
                text = f"the queue ends {queue.wanted - queue.end} messages before the log, and {queue.left} of them stay invisible"
                yield context.finding("RMQ-CQ-START", text, **where)
            else:
                text = f"the queue ends {queue.wanted - queue.end} messages before the log; the start brings them"
                yield context.finding("RMQ-CQ-BEHIND", text, **where)


def lost_words(loss: Loss) -> str:
    """A loss for people."""
    words = f"{loss.messages} messages ({loss.bytes} bytes)"
    if loss.uncounted_files:
        words = f"at least {words}, and {loss.uncounted_files} files with up to {loss.uncounted_bytes} bytes that were not counted"
    return words
