"""The places of messages that are not consecutive in their queue: the two modes of a rebuild.

A queue takes messages at its end only. Most messages are consecutive and never come here; a mode decides on the rest, with the few steps
that a queue supports.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple, Protocol

from rmqstore.reading.continuity import continues
from rmqstore.rebuild.result import Gap, History, LeftOut, Restart

MESSAGE_COLUMNS = ("queue_offset", "physical_offset", "size", "tags_code", "store_timestamp")
"""Columns of a record that a message begins with."""


class Message(NamedTuple):
    """The input of a unit. `width` = queue offsets that the record takes; `further` = the unit is for a further queue of the record."""

    queue_offset: int
    physical_offset: int
    size: int
    tags_code: int
    store_timestamp: int
    width: int = 1
    further: bool = False

    @property
    def end_offset(self) -> int:
        """Return the queue offset after the message."""
        return self.queue_offset + self.width

    @property
    def left_out(self) -> LeftOut:
        """Return the message as one without a place."""
        return LeftOut(self.queue_offset, self.physical_offset)


class Queue(Protocol):
    """The operations on a queue that placing needs."""

    history: History

    @property
    def started(self) -> bool:
        """Return whether it has a message."""

    @property
    def first_offset(self) -> int:
        """Return the queue offset of its first message."""

    @property
    def next_offset(self) -> int:
        """Return the queue offset of the next consecutive message."""

    @property
    def max_physic_offset(self) -> int:
        """Return the end of the last message."""

    def names(self, queue_offset: int) -> bool:
        """Return whether a file can have the name that the queue offset requires."""

    def can_miss(self, count: int, length: int) -> bool:
        """Return whether `length` bytes of the log can have held that many messages that are lost now."""

    def begin(self, message: Message, missing: int) -> None:
        """Start the queue with a message, before which `missing` messages are known to be lost."""

    def append(self, message: Message) -> None:
        """Append a message and expect the next one directly after it."""

    def bridge(self, queue_offset: int) -> None:
        """Fill the queue up to `queue_offset` with its last unit."""

    def cut(self, queue_offset: int) -> None:
        """Remove the messages from `queue_offset` on; the one before it remains."""

    def hold(self, held: bool) -> None:
        """Set whether the mode decides on the next message even if it is consecutive."""

    def leave_ext_unit(self, message: Message) -> Message:
        """Write the ext unit of a message; return the message with the tagsCode of its unit."""


_MOST_WAITING = 64
"""Messages of a queue that wait for one that shows whether their QUEUEOFFSETs are damaged."""
_MOST_BRIDGED = 10_000
"""Units that a jump ahead may cost, also where so many messages cannot have been lost: all messages keep their places."""


class UsefulPlacing:
    """Every message at its own queue offset. Messages that are not consecutive wait for the next ones of their queue.

    If one of these continues the queue as if the waiting ones had been consecutive, their QUEUEOFFSETs are damaged (`continuity`), and they
    get no place. Otherwise the first of them counts only if the next message follows it, and a few messages at the end that jump too far
    ahead do not count. Damaged QUEUEOFFSETs would otherwise look like a restart, and a restart removes what was there before.
    """

    def __init__(self, queue: Queue, log_start: int) -> None:
        self._queue = queue
        self._log_start = log_start
        self._waiting: deque[Message] = deque()
        self._width = 0  # queue offsets that the waiting messages take
        self._is_last = False  # whether no message follows the waiting ones

    def take(self, message: Message) -> None:
        """Place a message in log order."""
        if not self._queue.names(message.queue_offset):
            self._leave_out(message)
        elif self._waiting:
            self._resolve(message)
        else:
            self._place(message)

    def finish(self) -> None:
        """Place the messages that no other continued."""
        self._is_last = True
        while self._waiting:
            self._decide()

    def _place(self, message: Message) -> None:
        if not self._queue.started:
            self._begin(message)
        elif message.queue_offset == self._queue.next_offset:
            self._append(message)
        else:
            self._wait(message)

    def _wait(self, message: Message) -> None:
        self._queue.hold(True)
        self._waiting.append(message)
        self._width += message.width

    def _next_waiting(self) -> Message:
        message = self._waiting.popleft()
        self._width -= message.width
        self._queue.hold(bool(self._waiting))
        return message

    def _resolve(self, message: Message) -> None:
        """Leave the waiting messages out if the queue continues with this one, else let it wait."""
        if continues(self._queue.next_offset, self._width, message.queue_offset):
            while self._waiting:
                self._leave_out(self._next_waiting())
            self._wait(message)
            return
        self._wait(message)
        if len(self._waiting) > _MOST_WAITING:
            self._decide()

    def _decide(self) -> None:
        """Place or leave out the first waiting message by the one after it, and those after it that are consecutive then."""
        first = self._next_waiting()
        if self._waiting:
            self._settle(first, self._waiting[0])
        else:
            self._settle_last(first)
        while self._waiting and self._waiting[0].queue_offset == self._queue.next_offset:
            self._append(self._next_waiting())

    def _settle_last(self, waiting: Message) -> None:
        """Place a message that no other followed: a gap is as good as any, and restarts are at 0."""
        if self._is_ahead(waiting) or (waiting.queue_offset == 0 and not self._repeats(waiting)):
            self._accept(waiting, confirmed=False)
        else:
            self._leave_out(waiting)

    def _settle(self, waiting: Message, following: Message) -> None:
        """Place the waiting message now that the next one is known."""
        offset, expected = following.queue_offset, self._queue.next_offset
        if self._is_ahead(waiting):
            believed = offset > waiting.queue_offset or offset < expected
        elif offset == expected or self._repeats(waiting):
            believed = False
        else:
            goes_on = waiting.end_offset <= offset or waiting.queue_offset == 0
            believed = goes_on and offset < expected
        if believed:
            self._accept(waiting, confirmed=offset == waiting.end_offset)
        else:
            self._leave_out(waiting)

    def _is_ahead(self, message: Message) -> bool:
        return message.queue_offset > self._queue.next_offset

    def _repeats(self, message: Message) -> bool:
        """Return whether it has the offset of the last message: used twice, and the first one keeps it."""
        return message.end_offset == self._queue.next_offset

    def _accept(self, message: Message, *, confirmed: bool) -> None:
        queue, history = self._queue, self._queue.history
        expected = queue.next_offset
        if self._is_ahead(message):
            count = message.queue_offset - expected
            missed = count <= _MOST_BRIDGED or queue.can_miss(count, message.physical_offset - queue.max_physic_offset)
            # What would be filled before a queue that begins here leaves the messages before it in their places.
            if missed or (confirmed and self._lost_before(message)):
                history.gaps.append(Gap(expected, message.queue_offset, message.physical_offset))
                queue.bridge(message.queue_offset)
                self._append(message)
                return
            if not confirmed or self._are_few():
                self._leave_out(message)
                return
        history.restarts.append(Restart(message.queue_offset, expected, message.physical_offset))
        if queue.first_offset < message.queue_offset < expected:
            history.cut(message.queue_offset)
            queue.cut(message.queue_offset)
            self._append(message)
        else:
            history.gaps.clear()
            self._begin(message)

    def _are_few(self) -> bool:
        """Return whether a restart for the message at hand and those after it, the last ones, would remove more messages than these."""
        return self._is_last and len(self._waiting) + 1 < self._queue.next_offset - self._queue.first_offset

    def _begin(self, message: Message) -> None:
        missing = self._lost_before(message)
        if missing:
            self._queue.history.gaps.append(Gap(0, missing, message.physical_offset))
        self._queue.begin(self._queue.leave_ext_unit(message), missing)

    def _lost_before(self, message: Message) -> int:
        """Return how many were lost before the queue: all offsets before, if the log begins with a broker's first message."""
        lost = message.queue_offset if self._log_start == 0 else 0
        return lost if self._queue.can_miss(lost, message.physical_offset) else 0

    def _append(self, message: Message) -> None:
        self._queue.append(self._queue.leave_ext_unit(message))

    def _leave_out(self, message: Message) -> None:
        queue = self._queue
        taken = queue.started and queue.first_offset <= message.queue_offset < queue.next_offset
        (queue.history.repeated if taken else queue.history.misnumbered).append(message.left_out)


class ReplayedQueue(Queue, Protocol):
    """Operations that the broker's own rule needs besides."""

    def expect(self, queue_offset: int) -> None:
        """Set the queue offset of the next consecutive message."""

    def make_room(self) -> None:
        """Open a new file if the last one is full."""


class FaithfulPlacing:
    """The broker's own rule (fact sheet queues §2.5): known messages and taken places are dropped, a gap shifts what follows it.

    `history.shifted` = places between the queue offset of the last message and its unit.
    """

    def __init__(self, queue: ReplayedQueue) -> None:
        self._queue = queue

    def take(self, message: Message) -> None:
        """Place a message in log order."""
        queue, history = self._queue, self._queue.history
        if not queue.started and not queue.names(message.queue_offset):
            history.misnumbered.append(message.left_out)
            return
        # The ext unit is written before the message is checked, so dropped ones leave theirs.
        message = queue.leave_ext_unit(message)
        if message.physical_offset + message.size <= queue.max_physic_offset:
            history.repeated.append(message.left_out)
        elif not queue.started:
            queue.begin(message, 0)
        else:
            self._append(message)

    def finish(self) -> None:
        """Do nothing: no message is waiting."""

    def _append(self, message: Message) -> None:
        queue, history = self._queue, self._queue.history
        offset, expected = message.queue_offset, queue.next_offset
        place = expected - history.shifted
        queue.make_room()
        if offset == 0:
            # The offset 0 is never compared with the place.
            history.restarts.append(Restart(0, place, message.physical_offset))
        elif offset < place:
            history.repeated.append(message.left_out)
            return
        elif offset > expected:
            history.gaps.append(Gap(expected, offset, message.physical_offset))
        queue.append(message)
        queue.expect(max(offset, place) + 1)
        history.shifted = max(0, offset - place)
