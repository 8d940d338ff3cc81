"""Plans for a timer log that is missing, has a wrong length, or lacks entries: log and wheel are built from the commit log.

The new log holds one unit for each message that is still to be delivered. Left out are messages whose delivery, or whose next roll, is in
the commit log, and those that were due before the read time of the timer, which a running timer had delivered by then. A start continues
its queue after the message of the last unit, or where timercheck says if that unit names none (fact sheet timer §1.7): so a last unit of
size 0 keeps it from adding again what follows. Such units also name messages that are left out although they would be due later.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from rmqstore.formats import timer
from rmqstore.formats.javahash import java_hash
from rmqstore.formats.layout import fixed_layout
from rmqstore.formats.naming import TIMER_TOPIC, offset_to_file_name
from rmqstore.formats.properties import REAL_TOPIC, TIMER_DEL_UNIQKEY, TIMER_ROLL_TIMES, UNIQ_KEY
from rmqstore.rebuild.timerwheel import Waiting, files_of, fill, rolled, units_of
from rmqstore.repair.derived.rebuild import records_of
from rmqstore.repair.log.future import FutureLog
from rmqstore.repair.plan.builder import PlanBuilder
from rmqstore.store.mapped import ProblemKind
from rmqstore.store.parts import PartKind
from rmqstore.store.root import Store
from rmqstore.verify.context import Context
from rmqstore.verify.timer.enqueued import never_delivered
from rmqstore.verify.timer.files import SLOT, TimerFiles, timer_queue
from rmqstore.verify.timer.log import UNIT
from rmqstore.verify.timer.messages import deliver_time, is_deleted
from rmqstore.wording import counted

_CHECK = fixed_layout(timer.CHECK)
_SETTING = "mappedFileSizeTimerLog"
_LARGEST_WINDOW, _USUAL_WINDOW = 604_740, 172_800
_REASON = "it is built from the commit log: one entry for each message that is still to be delivered"
_Key = tuple[int, int, int]


@dataclass(slots=True)
class _Message:
    """A message of the timer topic; `done`: its delivery, or its next roll, is in the log."""

    queue_offset: int
    position: int
    size: int
    due: int
    topic: str
    key: str
    deletes: bool
    done: bool = False


@dataclass(slots=True)
class Topic:
    """The messages of the timer topic in the order of the log, and the same by what a delivery has in common with them."""

    messages: list[_Message] = field(default_factory=list)
    open: dict[_Key, list[_Message]] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    """What deletions name: unique keys, in some releases after the topic and a plus."""

    def deliver(self, key: _Key, position: int, topic: str, uniq_key: str) -> None:
        """Take a record that may be the delivery of a message before it."""
        for message in self.open.get(key, ()):
            if not message.done and message.position < position and message.topic == topic and message.key == uniq_key:
                message.done = True
                return

    @property
    def pending(self) -> list[_Message]:
        """Return the messages without a delivery in the log, without deletions and what they name, which have none."""
        return [one for one in self.messages if not (one.done or one.deletes or is_deleted(one.topic, one.key, self.deleted))]


def needs_rebuild(context: Context, files: TimerFiles) -> bool:
    """Return whether the timer log cannot be used as it is; its units were read before. Not without timercheck, or with snapshots.

    It cannot if its first files are gone with pending messages, because a start does not go back to them. Damaged units are written again
    in their places instead.
    """
    store = context.store
    if files.check is None or files.read_time <= 0 or files.wheel.name != PartKind.TIMERWHEEL or files.check.last_timer_queue_offset <= 0:
        return False
    if _has_wrong_files(store) or not files.log.has_units:
        return True
    begins_later = files.log.queue.min_offset > 0 and not any(files.log.damages())
    return begins_later and never_delivered(context, timer_queue(store), files).first > 0


def _has_wrong_files(store: Store) -> bool:
    return any(problem.kind in (ProblemKind.WRONG_LENGTH, ProblemKind.GAP) for problem in store.timerlog.problems())


def plan_rebuilt(builder: PlanBuilder, store: Store, log: FutureLog, files: TimerFiles) -> bool:
    """Plan timer log, wheel and timercheck; return False, without a plan, if nothing waits and a start loads the log.

    Raises UnreadableError, StoreChangedError, OSError.
    """
    topic = messages_of(store, log)
    handled = int(files.check.last_timer_queue_offset) if files.check is not None else 0
    now = max(files.read_time, _after_deliveries(topic, files, handled))
    waiting, goes_on = _waiting(store, topic, files.precision, now, handled)
    pending = [one for one in waiting if one.size != timer.GIVEN_UP]
    if not pending and not _has_wrong_files(store):
        return False
    size = _file_size(store)
    units, offsets = units_of(waiting, now, size, UNIT)
    directory = store.path_of(PartKind.TIMERLOG)
    made = set()
    for start, data in files_of(units, size):
        name = f"{PartKind.TIMERLOG}/{offset_to_file_name(start)}"
        array = builder.staging.open(name, size)
        array[: len(data)] = np.frombuffer(data, np.uint8)
        del array
        made.add(directory / offset_to_file_name(start))
        builder.replace(directory / offset_to_file_name(start), builder.staging.close(name), reason=_REASON, code="RMQ-TM-LOG-UNIT")
    for path in _others(store, made):
        builder.quarantine(path, reason="the timer log is built from the commit log", code="RMQ-TM-LOG-UNIT")
    wheel = builder.staging.open(str(PartKind.TIMERWHEEL), timer.WHEEL_FILE_SIZE).view(SLOT)
    fill(wheel, files.slot_time(units), offsets, np.where(units["magic"] & timer.UnitMagic.DELETE, -1, 1))
    del wheel
    builder.replace(files.wheel, builder.staging.close(str(PartKind.TIMERWHEEL)), reason=_REASON, code="RMQ-TM-LOG-UNIT")
    end = int(offsets[-1]) + timer.LOG_UNIT_SIZE if len(offsets) else 0
    values = {"last_read_time_ms": now, "last_timer_log_flush_pos": end}
    values |= dict.fromkeys(("last_timer_queue_offset", "master_timer_queue_offset"), goes_on)
    for name, value in values.items():
        place = _CHECK[name]
        builder.write(files.check_path, place.offset, value.to_bytes(place.width, "big"), reason=_REASON, code="RMQ-TM-CHECK")
    builder.note(
        f"The timer log and the wheel are built from the commit log: {counted(len(pending), 'message')} due from {now} on, each once. "
        f"Messages due before that count as delivered, others up to queue offset {goes_on} if their delivery is in the log."
    )
    return True


def messages_of(store: Store, log: FutureLog) -> Topic:
    """Return the messages of the timer topic with their deliveries, from one pass over the log."""
    topic, found = Topic(), records_of(store, log, keys=False)
    for batch in found:
        records = batch.records
        timed = np.isin(records["queue"], [n for n in np.unique(records["queue"]).tolist() if found.scanner.queue(n) == (TIMER_TOPIC, 0)])
        rows = np.flatnonzero(timed)
        for row in rows.tolist():
            properties, key = batch.properties(row), _key(records[row])
            due, real = deliver_time(properties), properties.get(REAL_TOPIC)
            if due is None or real is None:
                continue
            position, uniq = int(records["position"][row]), properties.get(UNIQ_KEY, "")
            if TIMER_ROLL_TIMES in properties:
                topic.deliver(key, position, real, uniq)
            deletes = TIMER_DEL_UNIQKEY in properties
            if deletes:
                topic.deleted.add(properties[TIMER_DEL_UNIQKEY])
            message = _Message(int(records["queue_offset"][row]), position, int(records["size"][row]), due, real, uniq, deletes)
            topic.messages.append(message)
            topic.open.setdefault(key, []).append(message)
        born = np.array(sorted({key[0] for key in topic.open}), np.int64)
        for row in np.flatnonzero(~timed & np.isin(records["born_timestamp"], born)).tolist():
            if (key := _key(records[row])) in topic.open:
                name = found.scanner.queue(int(records["queue"][row]))[0]
                topic.deliver(key, int(records["position"][row]), name, batch.properties(row).get(UNIQ_KEY, ""))
    return topic


def _key(row: np.void) -> _Key:
    return int(row["born_timestamp"]), int(row["body_crc"]), int(row["body_length"])


def _after_deliveries(topic: Topic, files: TimerFiles, handled: int) -> int:
    """Return the time after the last slot that was delivered, 0 where messages due before that wait: a crash leaves an older read time."""
    done = max((one.due for one in topic.messages if one.done), default=0)
    waits = (one for one in topic.messages if not one.done and (one.due >= files.read_time or one.queue_offset >= handled))
    first = min((one.due for one in waits), default=done + 1)
    return (done // files.precision + 1) * files.precision if done < first else 0


def _waiting(store: Store, topic: Topic, precision: int, now: int, handled: int) -> tuple[list[Waiting], int]:
    """Return the messages to enter at `now` (ms), and the queue offset where a start continues, at or after `handled`."""
    configured = store.config.explicit_integer("timerRollWindowSlot")
    slots = _USUAL_WINDOW if configured is None else configured
    window = (slots if 2 <= slots <= _LARGEST_WINDOW else _LARGEST_WINDOW) * precision
    waiting: list[Waiting] = []
    goes_on, last = handled, -1

    def give_up(one: _Message) -> None:
        waiting.append(Waiting(one.position, timer.GIVEN_UP, now - precision, timer.UnitMagic.DEFAULT, java_hash(one.topic)))

    taken: _Message | None = None
    for one in sorted(topic.messages, key=lambda one: one.queue_offset):
        if one.due < now and not one.done and one.queue_offset >= handled:
            break  # it is due, and was not met by the timer: a start delivers it from the queue, with all that follow
        goes_on, taken = max(goes_on, one.queue_offset + 1), one
        if one.done or one.due < now:
            if one.due >= now:
                give_up(one)
            continue
        slot_time, rolls = rolled(one.due, now, window)
        magic = timer.UnitMagic.DEFAULT | (timer.UnitMagic.ROLL if rolls else 0) | (timer.UnitMagic.DELETE if one.deletes else 0)
        waiting.append(Waiting(one.position, one.size, slot_time, int(magic), java_hash(one.topic)))
        last = one.queue_offset
    if taken is not None and last + 1 != goes_on:
        give_up(taken)
    return waiting, goes_on


def _file_size(store: Store) -> int:
    configured = store.config.explicit_integer(_SETTING)
    if configured is not None:
        return configured
    starts = [file.start for file in store.timerlog.files]
    if len(starts) > 1:
        return starts[1] - starts[0]
    return store.timerlog.file_size or timer.DEFAULT_LOG_FILE_SIZE


def _others(store: Store, made: set[Path]) -> Iterator[Path]:
    yield from (file.path for file in store.timerlog.files if file.path not in made)
    yield from (problem.path for problem in store.timerlog.problems() if problem.path not in made and problem.path.exists())
