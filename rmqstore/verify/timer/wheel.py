"""The timer: slots of the wheel against units of the timer log against messages of the commit log (fact sheet timer §1.9)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from rmqstore.findings import Finding, Severity
from rmqstore.formats import timer
from rmqstore.formats.layout import fixed_layout
from rmqstore.formats.naming import TIMER_TOPIC
from rmqstore.store.ends import QueueEnds, queue_ends
from rmqstore.store.parts import PartKind
from rmqstore.times import time_text
from rmqstore.verify.context import Context
from rmqstore.verify.guard import Unmade, guarded, limited, limited_unmade
from rmqstore.verify.timer import enqueued
from rmqstore.verify.timer.enqueued import TimerQueue
from rmqstore.verify.timer.files import Slots, TimerFiles, open_timer, timer_queue
from rmqstore.verify.timer.log import Offsets, TimerLog, Window
from rmqstore.verify.timer.messages import unit_problems
from rmqstore.verify.timer.metrics import METRICS, Pending
from rmqstore.verify.timer.slots import faults, forgotten_units, odd_positions, wrong_links

_CHECK = fixed_layout(timer.CHECK)
_CLOCK_SLACK_MS = 60_000
# A unit stays at most a roll window and a third of it in the wheel (fact sheet timer §1.3, §1.9 W8).
_WIDEST_WINDOW_SLOTS = 604_740
# A commit of the queue offset counts the last message before 5.2.0 and the next one from then on.
_OFF_BY_ONE = 1


def check(context: Context) -> Iterator[Finding]:
    """Yield findings about timerwheel, timerlog and timercheck. Reads them whole, and the record of every unit not delivered yet."""
    store = context.store
    if not (store.covers(PartKind.TIMERLOG) or store.covers(PartKind.TIMERWHEEL)):
        return
    log_path = store.path_of(PartKind.TIMERLOG)
    yield from guarded(context, log_path, partial(_check, context))


def _check(context: Context) -> Iterator[Finding]:
    yield from wheel_lengths(context)
    files = open_timer(context.store, context.log.last_timestamp)
    queue = TimerQueue(context, timer_queue(context.store))
    log_path = context.store.path_of(PartKind.TIMERLOG)
    pending = Pending()
    yield from limited_unmade(context, log_path, _units(context, files, queue, pending))
    # Places without a valid unit explain what the queue has and the log lacks.
    damages = list(_damages(context, files.log))
    yield from limited(context, log_path, damages)
    slots = files.slots
    if slots is not None:
        yield from limited_unmade(context, files.wheel, _slots(context, files, slots))
    if context.store.only is None and (context.store.timerlog.files or (slots is not None and slots.number.size)):
        yield from _check_file(context, files)
        metrics = context.store.config_path / METRICS
        yield from guarded(context, metrics, partial(pending.findings, context))
    if context.store.only is None and context.log.end_offset > 0 and not damages:
        yield from limited_unmade(
            context, log_path, enqueued.findings(context, queue, files.check, goes_back=files.resumes_at(context.record_at) is not None)
        )


# Wheel


def what_a_start_trips_over(context: Context) -> Iterator[Finding]:
    """Yield findings on what stops every start: the length of the wheel, and slots after the end of the log. Reads what a start reads."""
    yield from wheel_lengths(context)
    store = context.store
    files = open_timer(store, context.log.last_timestamp)
    if files.slots is None:
        return
    for _ in files.log.windows(files.log.replay_start(files.flushed)):
        pass  # so that it is known where the log ends
    yield from limited_unmade(context, files.wheel, _beyond(context, files, files.slots))


def wheel_lengths(context: Context) -> Iterator[Finding]:
    """Yield findings about the lengths of the wheel and its snapshots, of which nothing is read."""
    for path in context.store.timerwheel_paths() if context.store.only is None else []:
        length = path.stat().st_size
        # An empty wheel is extended with zeros and filled again from the log.
        if length not in (0, timer.WHEEL_FILE_SIZE) and path.suffix != ".tmp":
            message = f"{path.name} is {length} bytes long instead of {timer.WHEEL_FILE_SIZE}"
            yield context.finding("RMQ-TM-WHEEL-LENGTH", message, file=path, expected=timer.WHEEL_FILE_SIZE, found=length)


def _slots(context: Context, files: TimerFiles, slots: Slots) -> Iterator[Unmade]:
    wrong = faults(files, slots)
    for i in map(int, np.flatnonzero(wrong.misplaced)):
        message = f"its time {slots.time[i]} belongs in slot {slots.time[i] % timer.WHEEL_SLOTS}"
        yield _slot_finding(context, files, "RMQ-TM-WHEEL-SLOT", slots, i, message)
    for i in map(int, np.flatnonzero(wrong.odd & ~wrong.misplaced)):
        message = f"its positions {slots.first[i]} and {slots.last[i]} are not entry boundaries of the timer log"
        yield _slot_finding(context, files, "RMQ-TM-WHEEL-SLOT", slots, i, message)
    far = files.is_live(slots.time) & ~wrong.misplaced & (slots.time > _latest_slot_time(context, files))
    for i in map(int, np.flatnonzero(far)):
        message = f"its time {int(slots.time[i]) * files.precision} ms is later than that of any possible entry"
        yield _slot_finding(context, files, "RMQ-TM-WHEEL-TIME", slots, i, message, found=int(slots.time[i]))
    yield from _beyond(context, files, slots)
    for i in map(int, np.flatnonzero(wrong.foreign)):
        message = f"the entry at {slots.last[i]} is of another time"
        yield _slot_finding(context, files, "RMQ-TM-WHEEL-SLOT", slots, i, message)


def _beyond(context: Context, files: TimerFiles, slots: Slots) -> Iterator[Unmade]:
    end = files.log.end(files.flushed)
    for i in map(int, np.flatnonzero(files.beyond(slots) & ~odd_positions(files, slots))):
        message = f"its newest entry {slots.last[i]} is at or after the end of the timer log"
        yield _slot_finding(context, files, "RMQ-TM-WHEEL-BEYOND", slots, i, message, expected=end, found=int(slots.last[i]))


def _latest_slot_time(context: Context, files: TimerFiles) -> int:
    """Return the last time, in units of the precision, that a slot can have been put for (fact sheet timer §1.9 W8)."""
    window = context.store.config.explicit_integer("timerRollWindowSlot") or _WIDEST_WINDOW_SLOTS
    window = window if 2 <= window <= _WIDEST_WINDOW_SLOTS else _WIDEST_WINDOW_SLOTS
    return int(time.time() * 1000 + _CLOCK_SLACK_MS) // files.precision + window // 3 * 4


def _slot_finding(context: Context, files: TimerFiles, code: str, slots: Slots, i: int, message: str, **where: Any) -> Unmade:
    number = int(slots.number[i])
    place = {"file": files.wheel, "position": number * timer.WHEEL_SLOT_SIZE, "length": timer.WHEEL_SLOT_SIZE}
    return code, partial(context.finding, code, f"slot {number}: {message}", **place, **where)


# Log


def _damages(context: Context, log: TimerLog) -> Iterator[Finding]:
    for run in log.damages():
        message = f"{run.rule} at {run.file.start + run.position} of the timer log, although entries follow"
        yield context.finding("RMQ-TM-LOG-UNIT", message, file=run.file.path, position=run.position, length=run.length)


def _units(context: Context, files: TimerFiles, queue: TimerQueue, pending: Pending) -> Iterator[Unmade]:
    """Yield findings about chains and messages of the units that are not delivered yet, in log order; reads the whole timer log."""
    replayed = files.log.replay_start(files.flushed)
    unknown: list[int] = []
    number = 0
    order = _Order(context)
    for window in files.log.windows():
        times = files.slot_time(window.units)
        sound = window.units[window.sound]
        queue.take(sound["offset_py"], sound["write_time"])
        yield from order.steps_back(window)
        live = np.flatnonzero(window.sound & files.is_live(times))
        if not live.size:
            continue
        pending.take(window.units[live])
        yield from _chains(context, files, window, times, live)
        if context.store.message_log.files and context.log.end_offset > 0:
            yield from _messages(context, window, live)
        forgotten = live[forgotten_units(files, times[live], window.offsets[live])]
        number += forgotten.size
        unknown.extend(int(offset) for offset in window.offsets[forgotten[:1]])
    if unknown:
        message = f"the wheel lacks {number} pending entries, the first at {unknown[0]}; a start reads the timer log only from {replayed}"
        code = "RMQ-TM-WHEEL-SLOT"
        yield code, partial(context.finding, code, message, file=files.wheel, expected=0, found=number)


def _unit_finding(context: Context, code: str, window: Window, i: int, message: str, **where: Any) -> Unmade:
    place = {"file": window.file.path, "position": int(window.offsets[i]) - window.file.start, "length": timer.LOG_UNIT_SIZE}
    return code, partial(context.finding, code, message, **place, **where)


def _chains(context: Context, files: TimerFiles, window: Window, times: Offsets, live: Offsets) -> Iterator[Unmade]:
    links = window.units["prev_pos"]
    forward, foreign = wrong_links(files, window, times, live)
    for i in forward:
        message = f"the entry at {window.offsets[i]} links to {links[i]}, which is not an older entry"
        yield _unit_finding(context, "RMQ-TM-CHAIN", window, int(i), message, found=int(links[i]))
    for i in foreign:
        message = f"the entry at {window.offsets[i]} links to {links[i]}, where no entry of the same time is"
        yield _unit_finding(context, "RMQ-TM-CHAIN", window, int(i), message, found=int(links[i]))


def _messages(context: Context, window: Window, live: Offsets) -> Iterator[Unmade]:
    units = window.units[live]
    slot_times = units["write_time"].astype(np.int64) + units["delay"]
    columns = (units["offset_py"], units["size_py"], units["topic_hash"], units["magic"], slot_times)
    for i, offset, size, topic_hash, kind, slot_time in zip(live.tolist(), *(column.tolist() for column in columns), strict=True):
        for code, message in unit_problems(context, offset=offset, size=size, topic_hash=topic_hash, kind=kind, slot_time=slot_time):
            yield _unit_finding(context, code, window, i, message, offset=offset)


class _Order:
    """Comparison of the message offsets of neighbouring units; they rise along the log (fact sheet timer §1.9 L3)."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._last = -1

    def steps_back(self, window: Window) -> Iterator[Unmade]:
        """Yield findings about units of the next window whose message is at or before that of the unit before."""
        places = np.flatnonzero(window.sound)
        offsets = window.units["offset_py"][places].astype(np.int64)
        before = np.concatenate([[self._last], offsets[:-1]])
        for number in np.flatnonzero(offsets <= before).tolist():
            place, offset, previous = int(places[number]), int(offsets[number]), int(before[number])
            if number + 1 < len(offsets) and offsets[number + 1] > previous:
                text = "and the next entry continues from there, so this one is out of order"
            else:
                text = "as after a restart that adds messages to the timer again; these are delivered twice"
            message = f"the entry at {window.offsets[place]} steps back from the message at {previous} to that at {offset}, {text}"
            yield _unit_finding(self._context, "RMQ-TM-LOG-ORDER", window, place, message, offset=offset, expected=previous, found=offset)
        if len(offsets):
            self._last = int(offsets[-1])


# Check point


def _check_file(context: Context, files: TimerFiles) -> Iterator[Finding]:
    """Yield findings about timercheck: errors if the timer has entries and no time from which on it delivers them."""
    now = time.time() * 1000 + _CLOCK_SLACK_MS
    holds_entries = files.log.has_units or (files.slots is not None and files.slots.number.size > 0)
    severe = holds_entries and not 0 < files.read_time <= now
    for found in _check_findings(context, files, now):
        yield found if severe else replace(found, severity=Severity.WARNING)


def _check_findings(context: Context, files: TimerFiles, now: float) -> Iterator[Finding]:
    path, fields = files.check_path, files.check
    if fields is None:
        yield context.finding("RMQ-TM-CHECK", "there is no timercheck: everything of the last seven days is delivered again", file=path)
        return
    length = path.stat().st_size
    if length < timer.CHECK_FILE_SIZE:
        message = f"timercheck is {length} bytes long instead of {timer.CHECK_FILE_SIZE}; what is missing counts as zero"
        yield context.finding("RMQ-TM-CHECK", message, file=path, expected=timer.CHECK_FILE_SIZE, found=length)
    for field, message, expected in _implausible(context, files, fields, now):
        place = _CHECK[field]
        yield context.finding(
            "RMQ-TM-CHECK", message, file=path, position=place.offset, length=place.width, expected=expected, found=fields[field]
        )


def _implausible(context: Context, files: TimerFiles, fields: Any, now: float) -> Iterator[tuple[str, str, int | None]]:
    read_time, changed = fields.last_read_time_ms, fields.data_version_timestamp
    if read_time <= 0:
        yield "last_read_time_ms", "the read time is not set: everything of the last seven days is delivered again", None
    elif read_time % files.precision:
        floor = read_time - read_time % files.precision
        yield "last_read_time_ms", f"the read time {time_text(read_time)} is not a multiple of {files.precision} ms", floor
    elif read_time > now:
        yield "last_read_time_ms", "the read time is in the future: nothing is delivered until then", None
    elif 0 < changed < read_time - _CLOCK_SLACK_MS:
        yield "last_read_time_ms", f"the read time is {read_time - changed} ms later than the moment it was written at", changed
    queue_offset, master = fields.last_timer_queue_offset, fields.master_timer_queue_offset
    if queue_offset > master:
        yield "last_timer_queue_offset", f"the queue offset {queue_offset} is larger than that of the master, {master}", master
    ends = _timer_queue_ends(context)
    if ends is not None and not ends.min_offset - _OFF_BY_ONE <= queue_offset <= ends.max_offset:
        message = f"the queue offset {queue_offset} is outside of the queue of {TIMER_TOPIC}, {ends.min_offset} to {ends.max_offset}"
        yield "last_timer_queue_offset", message, min(max(queue_offset, ends.min_offset), ends.max_offset)
    flushed, end = fields.last_timer_log_flush_pos, files.log.queue.max_offset
    if not 0 <= flushed <= end:
        yield "last_timer_log_flush_pos", f"the flushed position {flushed} is outside of the timer log, which ends at {end}", None


def _timer_queue_ends(context: Context) -> QueueEnds | None:
    queue = timer_queue(context.store)
    return queue_ends(queue) if queue.files else None
