"""Plans for the timer: timer entries of lost messages are unlinked, so that messages due later are still delivered.

A pending unit that names a lost message gets size 0: every release reads nothing there, and drops it. Left as it is, it would name a
filler, which the timer reads again and again while its read pointer does not advance (fact sheet timer §8 T2, seen on 5.3.3). A check
point after the end of the queue makes old releases pass over what comes next (T3). A start continues after the message of the last unit,
or, where that is lost, where the check point says (§1.7); so that must not be after messages whose units are lost.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rmqstore.formats import timer
from rmqstore.formats.javahash import java_hash
from rmqstore.formats.layout import Field, fixed_layout
from rmqstore.formats.naming import TIMER_TOPIC
from rmqstore.formats.properties import REAL_TOPIC
from rmqstore.formats.record import Record
from rmqstore.reading.rocksdb.timeline import may_have_timeline
from rmqstore.repair.derived.timer.check import MISSING, WITHOUT_TIME, found_check, has_no_time
from rmqstore.repair.derived.timer.entries import plan_entries
from rmqstore.repair.derived.timer.rebuilt import needs_rebuild, plan_rebuilt
from rmqstore.repair.derived.timer.wheel import plan_wheel
from rmqstore.repair.log.filled_gaps import lost_message
from rmqstore.repair.log.future import FutureLog
from rmqstore.repair.plan.builder import PlanBuilder
from rmqstore.store.ends import queue_ends
from rmqstore.store.root import Store
from rmqstore.verify.context import Context, LogFacts, Options
from rmqstore.verify.timer.enqueued import CheckPoint, TimerQueue
from rmqstore.verify.timer.files import TimerFiles, open_timer, timer_queue
from rmqstore.verify.timer.log import Offsets, Window
from rmqstore.verify.timer.messages import deliver_time, fits_slot, message_problems, named
from rmqstore.verify.timer.slots import forgotten_units

_UNIT, _CHECK = fixed_layout(timer.LOG_UNIT), fixed_layout(timer.CHECK)
_POINTERS = ("last_timer_queue_offset", "master_timer_queue_offset")


def plan_timer(builder: PlanBuilder, store: Store, log: FutureLog, last_timestamp: int, queue_end: int | None) -> None:
    """Plan what the timer needs on the future `log`, whose last message was stored at `last_timestamp` (ms).

    `queue_end`: where the queue of its topic will end, None if as now. Reads the timer log, and the record of every unit that is not
    delivered yet. Raises UnreadableError, StoreChangedError.
    """
    has_files = bool(store.timerlog.files or store.timerwheel_paths())
    if not has_files and may_have_timeline(store):
        return
    files = open_timer(store, last_timestamp)
    for _ in files.log.windows():
        pass  # so that it is known what can be used of the log
    context = Context(store, Options())
    context.log = LogFacts(log.min_offset, log.end_offset, damages=list(log.damages))
    if (needs_rebuild(context, files) and plan_rebuilt(builder, store, log, files)) or not has_files:
        return
    made = None
    there = os.path.lexists(files.check_path)
    if has_no_time(files.check) and files.log.has_units and (files.check is not None or not there):
        checked = replace(files, check=found_check(store, log, files))
        # Where entries are gone, a start without timercheck reads all messages of the queue again: it repeats some, and loses none.
        if checked.check is not None and not needs_rebuild(context, checked):
            files, made = checked, checked.check
    forgotten: set[int] = set()
    without_message: list[int] = []
    for window in files.log.windows():
        live = np.flatnonzero(window.sound & files.is_live(files.slot_time(window.units)))
        without_message += [int(window.offsets[i]) for i in live.tolist() if not _plan_unit(builder, context, log, window, i)]
        forgotten |= _forgotten(files, window, live)
    if plan_entries(builder, context, log, files, without_message):
        for window in files.log.windows():
            forgotten |= _forgotten(files, window, np.flatnonzero(window.sound & files.is_live(files.slot_time(window.units))))
    _note_damage(builder, files)
    plan_wheel(builder, store, files, forgotten)
    if files.check is not None:
        limits = _limits(store, context, log, files, queue_end)
        if made is None:
            _plan_check(builder, files.check_path, files.check, limits)
        else:
            fields = {**made, **{name: min(int(made[name]), limit) for name, (limit, _) in limits.items()}}
            data = timer.CHECK.build(fields)
            if there:
                builder.replace(files.check_path, data, reason=WITHOUT_TIME, code="RMQ-TM-CHECK")
            else:
                builder.create(files.check_path, data, reason=MISSING, code="RMQ-TM-CHECK")


def _forgotten(files: TimerFiles, window: Window, live: Offsets) -> set[int]:
    """Return the numbers of the slots of pending units, `live` of a window, that neither the wheel nor a start reaches."""
    slot_times = files.slot_time(window.units[live])
    lost = forgotten_units(files, slot_times, window.offsets[live])
    return set((slot_times[lost] % timer.WHEEL_SLOTS).tolist())


def _note_damage(builder: PlanBuilder, files: TimerFiles) -> None:
    """Add notes on what becomes of messages whose units cannot be read, or follow one that a start stops at."""
    end = files.log.end(files.flushed)
    places = [run.file.start + run.position for run in files.log.damages()]
    read = [place for place in places if place >= end]
    older = [place for place in places if place < files.log.replay_start(files.flushed)]
    if read:
        builder.note(
            f"The timer log has no valid entry at {read[0]}: a start discards what follows, and adds the messages of these entries again, "
            "from their queue. Those that were delivered already are delivered again."
        )
    if older:
        builder.note(
            f"The timer log has {len(older)} place(s) without valid entries that no start reads, the first at {older[0]}: pending messages "
            "whose entries were there are not delivered. `rmqstore explain RMQ-TM-LOG-UNIT` says what can be done."
        )


# Units


def _plan_unit(builder: PlanBuilder, context: Context, log: FutureLog, window: Window, i: int) -> bool:
    """Correct a pending unit that describes its message wrongly; return whether it has a message."""
    unit = window.units[i]
    offset, size, topic_hash = int(unit["offset_py"]), int(unit["size_py"]), int(unit["topic_hash"])
    if offset < log.min_offset or size == timer.GIVEN_UP:
        return True
    properties = None if log.is_damaged(offset) else named(context, offset, size, topic_hash)
    if properties is not None and _can_be_delivered(context, offset, size, properties):
        return True
    position = int(window.offsets[i]) - window.file.start
    slot_time = int(unit["write_time"]) + int(unit["delay"])
    record = _timer_message(log, offset)
    if record is not None and not _can_be_delivered(context, offset, record.size, record.properties):
        builder.lose(lost_message(record, "it exists, but the timer cannot deliver it: its properties are damaged"))
        record = None
    if record is None:
        return False
    for place, value, reason in _changes(record, int(unit["magic"]), slot_time):
        data = value.to_bytes(place.width, "big", signed=True)
        builder.write(window.file.path, position + place.offset, data, reason=reason, code="RMQ-TM-MESSAGE")
    return True


def _can_be_delivered(context: Context, offset: int, size: int, properties: Mapping[str, str]) -> bool:
    """Return whether a message has the properties that the timer delivers it by."""
    return all(code != "RMQ-TM-PROPERTIES" for code, _ in message_problems(context, offset, size, properties))


def _changes(record: Record, kind: int, slot_time: int) -> Iterator[tuple[Field, int, str]]:
    """Yield what a unit should say of its message: if that is due at the unit's time, the message's own values."""
    due = deliver_time(record.properties)
    if due is not None and fits_slot(due, kind, slot_time):
        real_topic = record.properties.get(REAL_TOPIC)
        yield _UNIT["size_py"], record.size, "the size of its message"
        yield _UNIT["topic_hash"], 0 if real_topic is None else java_hash(real_topic), "the hash of its message's topic"


def _timer_message(log: FutureLog, offset: int) -> Record | None:
    """Return the message of the timer that will be at `offset`."""
    record = None if log.is_damaged(offset) else log.record_at(offset)
    return record if record is not None and record.topic == TIMER_TOPIC else None


# Check point


def _plan_check(builder: PlanBuilder, path: Path, check: Any, limits: Mapping[str, tuple[int, str]]) -> None:
    for name, (limit, reason) in limits.items():
        if int(check[name]) > limit:
            place = _CHECK[name]
            builder.write(path, place.offset, limit.to_bytes(place.width, "big"), reason=reason, code="RMQ-TM-CHECK")


def _limits(store: Store, context: Context, log: FutureLog, files: TimerFiles, queue_end: int | None) -> dict[str, tuple[int, str]]:
    """Return what the queue offsets may be at most, and why: the end of the queue, and messages that nothing else leads a start to."""
    queue = timer_queue(store)
    if queue_end is None and queue.files:
        queue_end = queue_ends(queue).max_offset
    limits = {} if queue_end is None else dict.fromkeys(_POINTERS, (queue_end, "the queue of the timer ends there"))
    resumes = files.resumes_at(partial(_timer_message, log)) is not None
    first = None if resumes else _first_passed_over(context, files, TimerQueue(context, queue))
    if first is not None and (queue_end is None or first < queue_end):
        limits["last_timer_queue_offset"] = first, "a start continues there, with messages whose entries are lost"
    return limits


def _first_passed_over(context: Context, files: TimerFiles, queue: TimerQueue) -> int | None:
    """Return the queue offset of the first message that is due and has no unit in what a start keeps of the timer log."""
    end = files.log.end(files.flushed)
    for window in files.log.windows():
        kept = window.units[window.sound & (window.offsets < end)]
        queue.take(kept["offset_py"], kept["write_time"])
    known = CheckPoint.of(context, files.check)
    return next((entry.queue_offset for entry in queue.behind() if known.passes_over(context, entry)), None)
