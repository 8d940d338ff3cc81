"""Plans for damaged entries of the timer log: they are written again from the messages of the timer topic.

Entries are in the order of their messages, and every message that is not due when the timer meets it gets one (fact sheet timer §1.6). So
the messages between those of the entries before and after a damaged place are the ones whose entries were there. The time at which an
entry was written is between those of the two; only its sum with the delay, the time of the slot, matters to the timer. Places for which no
message is left get an entry of size 0, which brokers drop.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt

from rmqstore.formats import timer
from rmqstore.formats.javahash import java_hash
from rmqstore.formats.layout import fixed_layout
from rmqstore.formats.naming import TIMER_TOPIC
from rmqstore.formats.properties import REAL_TOPIC, TIMER_DEL_UNIQKEY
from rmqstore.formats.record import Record
from rmqstore.formats.timer import UnitMagic
from rmqstore.repair.log.future import FutureLog
from rmqstore.repair.plan.builder import PlanBuilder
from rmqstore.scan.columns import Check
from rmqstore.scan.walk import LogScanner
from rmqstore.verify.context import Context
from rmqstore.verify.timer.files import TimerFiles
from rmqstore.verify.timer.log import UNIT, BadRun, TimerLog
from rmqstore.verify.timer.messages import deliver_time, message_problems
from rmqstore.verify.timer.slots import wrong_links

_CODE = "RMQ-TM-LOG-UNIT"
_AGAIN = "entries written again from the messages of the timer"
_END_MARK = "the end mark of a full file"
_LOST = "its message is lost: brokers drop an entry of size 0 and continue after it"
_MOST = 100_000  # damaged places: a timer log without more of its entries is beyond repair


@dataclass(frozen=True, slots=True)
class _Entry:
    """A future entry: message, size and topic hash as brokers write them, kind, and times in ms."""

    offset: int
    size: int
    topic_hash: int
    magic: int
    write_time: int
    slot_time: int


def plan_entries(builder: PlanBuilder, context: Context, log: FutureLog, files: TimerFiles, without_message: Sequence[int]) -> bool:
    """Plan the damaged entries, links and end marks of the timer log, whose units were read before; return whether there are any.

    `without_message`: offsets of pending entries that name no message. The timer log of `files` reads as it will be from then on.
    Raises UnreadableError, StoreChangedError.
    """
    runs = list(files.log.damages())
    marks = [run.file.start + run.position for run in runs if run.position > files.log.last_unit]
    damaged = [place for run in runs if run.position <= files.log.last_unit for place in _places(run)]
    places = sorted({*damaged, *without_message})
    # Of more damaged ranges in one file not all are known, and a second run would find the others.
    complete = all(len(list(of_file)) < TimerLog.MAX_RUNS for _, of_file in groupby(runs, key=lambda run: run.file))
    entries = _Entries(context, log, files).of(places) if complete and len(places) <= _MOST else {}
    entries = {place: entry for place, entry in entries.items() if place in damaged or entry.size != timer.GIVEN_UP}
    links = _links(files, {place: entry.slot_time // files.precision for place, entry in entries.items()})
    patches = {place: _bytes(entry, links[place]) for place, entry in entries.items()}
    patches |= {mark: timer.LOG_BLANK.build({"size": files.log.file_size - mark % files.log.file_size, "prev_pos": 0}) for mark in marks}
    for place, data in patches.items():
        _write(builder, files, place, data, _END_MARK if place in marks else _AGAIN, _CODE)
    size = fixed_layout(timer.LOG_UNIT)["size_py"]
    lost = {place + size.offset: timer.GIVEN_UP.to_bytes(size.width, "big") for place in without_message if place not in entries}
    for place, data in lost.items():
        _write(builder, files, place, data, _LOST, "RMQ-TM-MESSAGE")
    files.log.patch(patches)
    relinked = _plan_links(builder, files)
    if entries:
        dropped = sum(entry.size == timer.GIVEN_UP for entry in entries.values())
        builder.note(
            f"{len(entries)} damaged entries of the timer log are written again from the messages of {TIMER_TOPIC}"
            f"{f'; for {dropped} of them there is no message, and the timer drops them' if dropped else ''}."
        )
    return bool(patches) or relinked


def _places(run: BadRun) -> range:
    start = run.file.start + run.position
    return range(start, start + run.length, timer.LOG_UNIT_SIZE)


def _write(builder: PlanBuilder, files: TimerFiles, offset: int, data: bytes, reason: str, code: str) -> None:
    """Plan new bytes at an offset of the timer log."""
    file = files.log.queue.find(offset)
    assert file is not None
    builder.write(file.path, offset - file.start, data, reason=reason, code=code)


def _plan_links(builder: PlanBuilder, files: TimerFiles) -> bool:
    """Plan the links of pending entries that lead to no older entry of their slot; return whether there are any."""
    slots: dict[int, int] = {}
    for window in files.log.windows():
        times = files.slot_time(window.units)
        live = np.flatnonzero(window.sound & files.is_live(times))
        for i in np.concatenate(wrong_links(files, window, times, live)).tolist():
            slots[int(window.offsets[i])] = int(times[i])
    place = fixed_layout(timer.LOG_UNIT)["prev_pos"]
    for offset, previous in _links(files, slots).items() if slots else ():
        data = previous.to_bytes(place.width, "big", signed=True)
        _write(builder, files, offset + place.offset, data, "the newest older entry of its slot", "RMQ-TM-CHAIN")
    return bool(slots)


class _Entries:
    """Reader of the messages whose entries were at damaged places."""

    def __init__(self, context: Context, log: FutureLog, files: TimerFiles) -> None:
        self._context = context
        self._log = log
        self._files = files
        self._per_file = files.log.last_unit // timer.LOG_UNIT_SIZE + 1
        window = context.store.config.integer("timerRollWindowSlot")
        self._window = window * files.precision

    def of(self, places: Sequence[int]) -> dict[int, _Entry]:
        """Return the entry of each place; places whose neighbours cannot be read are left out."""
        if not places:
            return {}
        messages = _timer_messages(self._log)
        times = _linked(self._files, places)
        found: dict[int, _Entry] = {}
        numbers = [self._number(place) for place in places]
        for _, group in groupby(enumerate(numbers), key=lambda item: item[1] - item[0]):
            ordinals = [number for _, number in group]
            found |= self._of_group([self._offset(number) for number in ordinals], messages, times)
        return found

    def _number(self, place: int) -> int:
        """Return the number of a place in the timer log, whose files all hold the same number of entries."""
        file, position = divmod(place, self._files.log.file_size)
        return file * self._per_file + position // timer.LOG_UNIT_SIZE

    def _offset(self, number: int) -> int:
        file, at = divmod(number, self._per_file)
        return file * self._files.log.file_size + at * timer.LOG_UNIT_SIZE

    def _of_group(self, places: Sequence[int], messages: npt.NDArray[np.int64], times: Mapping[int, int]) -> dict[int, _Entry]:
        """Return the entries of places one after the other, by the entries before and after them."""
        around = np.array([self._offset(self._number(places[0]) - 1), self._offset(self._number(places[-1]) + 1)])
        before, after = self._files.log.units_at(around)
        if after["size"] != timer.LOG_UNIT_SIZE:
            return {}
        known = before["size"] == timer.LOG_UNIT_SIZE
        low, high = int(before["offset_py"]) if known else self._log.min_offset - 1, int(after["offset_py"])
        earliest = int(before["write_time"]) if known else 0
        written = self._write_times(places, earliest, int(after["write_time"]))
        inside = messages[np.searchsorted(messages, low, "right") : np.searchsorted(messages, high)].tolist()
        left = self._due_later(inside, earliest, len(places))
        found: dict[int, _Entry] = {}
        for number, place in enumerate(places):
            due = times.get(place)
            entry = self._entry(left[0], written[number], due) if left else None
            if entry is None or (due is not None and entry.slot_time != due * self._files.precision and len(left) < len(places) - number):
                slot_time = written[number] if due is None else due * self._files.precision
                entry = _Entry(low + 1, timer.GIVEN_UP, 0, int(UnitMagic.DEFAULT), written[number], slot_time)
            else:
                left.pop(0)
            found[place] = entry
            low = entry.offset
        return found

    def _write_times(self, places: Sequence[int], low: int, high: int) -> list[int]:
        """Return when the entries were written, by their own bytes where those hold a possible time."""
        kept = self._files.log.units_at(np.array(places))["write_time"].tolist()
        found = []
        for time in kept:
            low = time if max(low, 1) <= time <= high and time % self._files.precision == 0 else low or high
            found.append(low)
        return found

    def _due_later(self, offsets: Sequence[int], earliest: int, most: int) -> list[Record]:
        """Return the messages that were not due when the timer met them, the latest ones if there are more than places."""
        records = [record for offset in offsets if (record := self._log.record_at(offset)) is not None and self._can_be_delivered(record)]
        dues = sorted((_due(record) for record in records if _due(record) > earliest), reverse=True)
        limit = dues[most - 1] if len(dues) > most else 0
        return [record for record in records if _due(record) > earliest and _due(record) >= limit][-most:]

    def _can_be_delivered(self, record: Record) -> bool:
        problems = message_problems(self._context, record.physical_offset, record.size, record.properties)
        return all(code != "RMQ-TM-PROPERTIES" for code, _ in problems)

    def _entry(self, record: Record, write_time: int, due_slot: int | None) -> _Entry:
        """Return the entry of a message; one beyond the roll window is in an earlier slot, and rolls on from there."""
        due = _due(record)
        real_topic = record.properties.get(REAL_TOPIC)
        kind, slot_time = int(UnitMagic.DEFAULT), due
        if TIMER_DEL_UNIQKEY in record.properties:
            kind |= UnitMagic.DELETE
        if due - write_time >= self._window:
            kind |= UnitMagic.ROLL
            much = due - write_time - self._window >= self._window // 3
            slot_time = write_time + (self._window if much else self._window // 2)
            slot_time = slot_time if due_slot is None else due_slot * self._files.precision
        topic_hash = 0 if real_topic is None else java_hash(real_topic)
        return _Entry(record.physical_offset, record.size, topic_hash, kind, write_time, slot_time)


def _due(record: Record) -> int:
    return deliver_time(record.properties) or 0


def _timer_messages(log: FutureLog) -> npt.NDArray[np.int64]:
    """Return the physical offsets of all messages of the timer topic."""
    scanner = LogScanner(checks=Check(0), windows=log.window)
    found = [np.empty(0, np.int64)]
    for batch in log.batches(scanner):
        number = scanner.number_of(TIMER_TOPIC, 0)
        found.append(batch.records["position"][batch.records["queue"] == number].astype(np.int64))
    return np.concatenate(found)


def _linked(files: TimerFiles, places: Sequence[int]) -> dict[int, int]:
    """Return the slot time (in units of the precision) of entries that link to one of the places, by place."""
    found: dict[int, int] = {}
    for window in files.log.windows():
        rows = np.flatnonzero(window.sound & np.isin(window.units["prev_pos"], places))
        times = files.slot_time(window.units[rows])
        found |= dict(zip(window.units["prev_pos"][rows].tolist(), times.tolist(), strict=True))
    return found


def _links(files: TimerFiles, slots: Mapping[int, int]) -> dict[int, int]:
    """Return the newest older entry of the same slot for each place in `slots`, -1 without one."""
    wanted = np.unique(np.array([*slots.values()], np.int64))
    of_slot: dict[int, list[int]] = defaultdict(list)
    for place, slot in _of_slots(files, wanted):
        of_slot[slot].append(place)
    for place, slot in slots.items():
        of_slot[slot].append(place)
    found = {}
    for slot in set(slots.values()):
        of_slot[slot].sort()
    for place, slot in slots.items():
        number = bisect_left(of_slot[slot], place)
        found[place] = of_slot[slot][number - 1] if number else -1
    return found


def _of_slots(files: TimerFiles, wanted: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield place and slot time of the entries that are in one of the slots."""
    for window in files.log.windows() if wanted.size else ():
        times = files.slot_time(window.units)
        rows = np.flatnonzero(window.sound & np.isin(times, wanted))
        yield from zip(window.offsets[rows].tolist(), times[rows].tolist(), strict=True)


def _bytes(entry: _Entry, previous: int) -> bytes:
    unit = np.zeros(1, UNIT)
    unit["size"], unit["prev_pos"], unit["magic"] = timer.LOG_UNIT_SIZE, previous, entry.magic
    unit["write_time"], unit["delay"] = entry.write_time, entry.slot_time - entry.write_time
    unit["offset_py"], unit["size_py"], unit["topic_hash"] = entry.offset, entry.size, entry.topic_hash
    return unit.tobytes()
