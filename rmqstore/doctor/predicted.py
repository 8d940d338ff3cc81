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
    """A queue that ends before the log does. `end` and `wanted` are queue offsets, `left` units that the start does not bring either.

    Of a queue without files only the records of the scan range count. `code` and `remark`: what the catalogue says of it.
    """

    topic: str
    queue_id: int
    end: int
    wanted: int
    left: int
    code: str
    remark: str = ""


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
        """Queues that the start cuts, resets or shifts; none where it does not come to them."""
        return self.consequences.queues if self._recovers else ()

    @property
    def _recovers(self) -> bool:
        """Whether the start comes as far as the recovery of the log, and what becomes of the queues is known."""
        return self.outcome.scan is not None and self.outcome.after_load.queues is not None

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
        context, after = self.context, self._after_start()
        judge = QueueJudge(context, known_topics(context), dispatches_to_light_queues(context, self.queues))
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
                yield Behind(topic, queue_id, end, span.next_offset, left, "RMQ-CQ-START" if left else "RMQ-CQ-BEHIND")
                continue
            code, remark = judge.missing_code(topic)
            if code is not None:
                yield Behind(topic, queue_id, 0, span.next_offset, min(left, span.records), code, remark)

    def _keeps(self, offset: int) -> bool:
        """Whether the log has a record at `offset` after the start, too."""
        return self.outcome.scan is None or offset < self.outcome.scan.stop_offset

    def _after_start(self) -> dict[str, int]:
        state = self.outcome.after_start or self.outcome.after_load
        return {name: queue.max_offset for name, queue in (state.queues or {}).items()}

    def _end(self, directory: QueueDirectory | None, *, batch: bool) -> int | None:
        """Queue offset behind the last unit on disk; None where it cannot be read, which the check of the files reports."""
        if directory is None:
            return 0
        try:
            return (batch_queue_ends if batch else queue_ends)(directory.files).max_offset
        except RmqstoreError:
            return None

    def _of_behind(self) -> Iterator[Finding]:
        for queue in self.behind:
            where = {
                "file": f"consumequeue/{queue.topic}/{queue.queue_id}",
                "topic": queue.topic,
                "queue_id": queue.queue_id,
                "queue_offset": queue.end,
                "expected": queue.wanted,
                "found": queue.end,
            }
            yield self.context.finding(queue.code, self._text(queue), **where)

    def _text(self, queue: Behind) -> str:
        missing = counted(queue.wanted - queue.end, "message")
        match queue.code:
            case "RMQ-CQ-BEHIND":
                return f"the queue ends {missing} before the log{'; the start brings them' if self._recovers else ''}"
            case "RMQ-CQ-START":
                return f"the queue ends {missing} before the log, {queue.left} of them stay invisible"
            case _:
                return f"{counted(queue.left, 'message')} of this queue are in the scan range, the queue has no files{queue.remark}"


def counted(count: int, noun: str) -> str:
    """`1 queue`, `2 queues`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def lost_words(loss: Loss) -> str:
    """A loss for people."""
    words = f"{counted(loss.messages, 'message')} ({counted(loss.bytes, 'byte')})"
    if loss.uncounted_files:
        files = counted(loss.uncounted_files, "file")
        words = f"at least {words}, and {files} with up to {loss.uncounted_bytes} bytes that were not counted"
    return words
