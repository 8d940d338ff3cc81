"""The content of the files of the timer: wheel in use, log, check point, and the queue of the timer topic (fact sheet timer §1.2–1.4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rmqstore.formats import timer
from rmqstore.formats.naming import TIMER_TOPIC
from rmqstore.formats.record import Record
from rmqstore.scan.columns import integer_columns
from rmqstore.store.mapped import MappedFileQueue
from rmqstore.store.parts import PartKind
from rmqstore.store.root import Store
from rmqstore.store.window import read_at, read_if_file
from rmqstore.verify.timer.log import Mask, Offsets, TimerLog, Units

SLOT = integer_columns(timer.WHEEL_SLOT)
"""The columns of a slot."""
_CHUNK_SLOTS = 1 << 17


class Slots(NamedTuple):
    """The slots that are not all zero: number in the wheel, time in units of the precision, offsets in the timer log."""

    number: Offsets
    time: Offsets
    first: Offsets
    last: Offsets


@dataclass(frozen=True, slots=True)
class TimerFiles:
    """The timer of one store. `wheel`: the file in use; `slots`: None for a wheel that cannot be read as one; `flushed`: timer log offset.

    `check`: the fields of timercheck at `check_path`, None without one; `precision`: ms of a slot.
    """

    log: TimerLog
    wheel: Path
    slots: Slots | None
    check_path: Path
    check: Any | None
    flushed: int
    precision: int

    @property
    def read_time(self) -> int:
        """The time (ms) from which on slots are still to be delivered."""
        return 0 if self.check is None else max(0, int(self.check.last_read_time_ms))

    def is_live(self, slot_time: Offsets) -> Mask:
        """Return which slots are not delivered yet, by their time."""
        return np.asarray((slot_time >= -(-self.read_time // self.precision)) & (slot_time > 0))

    def beyond(self, slots: Slots) -> Mask:
        """Return which slots are to be delivered and begin at or after the end of the log, whose units were read before."""
        at_home = slots.time % timer.WHEEL_SLOTS == slots.number
        return np.asarray(self.is_live(slots.time) & at_home & (slots.last >= self.log.end(self.flushed)))

    def resumes_at(self, record_at: Callable[[int], Record | None]) -> int | None:
        """Return the queue offset after the message of the last unit, where a start continues whatever the check point says.

        None if a start cannot read that message: without units, and where the log ends with a file, because then a start reads the end
        mark and not the unit before it. To be called after the units were read; `record_at` returns the record at a physical offset.
        """
        end = self.log.end(self.flushed)
        if end <= self.log.replay_start(self.flushed) or end % self.log.file_size == 0:
            return None
        unit = self.log.units_at(np.array([end - timer.LOG_UNIT_SIZE]))[0]
        record = record_at(int(unit["offset_py"])) if unit["size_py"] != timer.GIVEN_UP else None
        return None if record is None or record.size > int(unit["size_py"]) else int(record.queue_offset) + 1

    def slot_time(self, units: Units) -> Offsets:
        """Return the slot time of each unit, in units of the precision."""
        return np.asarray((units["write_time"].astype(np.int64) + units["delay"]) // self.precision)


def open_timer(store: Store, last_timestamp: int) -> TimerFiles:
    """Read wheel and check point, without a wheel also some units. `last_timestamp`: of the last message of the commit log, ms, or 0.

    Raises UnreadableError, StoreChangedError.
    """
    wheels = store.timerwheel_paths() if store.only is None else []
    path, flushed = _wheel_in_use(store.root / PartKind.TIMERWHEEL, wheels)
    whole = path.is_file() and path.stat().st_size == timer.WHEEL_FILE_SIZE
    slots = _read_slots(path) if whole else None
    check_path = store.config_path / "timercheck"
    check = read_if_file(check_path, timer.CHECK_FILE_SIZE)
    fields = None if check is None else timer.parse_check(check)
    if not flushed and fields is not None:
        flushed = fields.last_timer_log_flush_pos
    log = TimerLog(store.timerlog)
    return TimerFiles(log, path, slots, check_path, fields, flushed, _precision(log, store, slots, fields, last_timestamp))


def timer_queue(store: Store) -> MappedFileQueue:
    """Return the queue of the timer topic, without files where queues are kept in RocksDB."""
    directory = store.path_of(PartKind.CONSUMEQUEUE) / TIMER_TOPIC / "0"
    return MappedFileQueue.scan(directory, configured_size=store.config.consume_queue_file_size)


def _wheel_in_use(plain: Path, wheels: list[Path]) -> tuple[Path, int]:
    """Return the newest snapshot and the timer log offset it was flushed at, else the plain wheel and 0."""
    snapshots = {int(path.suffix[1:]): path for path in wheels if path.suffix[1:].isdigit()}
    newest = max(snapshots, default=0)
    return (snapshots[newest], newest) if snapshots else (plain, 0)


def _read_slots(path: Path) -> Slots:
    parts = []
    for first in range(0, timer.WHEEL_SLOTS, _CHUNK_SLOTS):
        number = min(_CHUNK_SLOTS, timer.WHEEL_SLOTS - first)
        data = read_at(path, first * timer.WHEEL_SLOT_SIZE, number * timer.WHEEL_SLOT_SIZE)
        rows = np.frombuffer(data, np.uint64).reshape(number, -1)
        used = np.flatnonzero(rows[:, 0] | rows[:, 1] | rows[:, 2] | rows[:, 3])  # any(axis=1) takes twice as long
        slots = np.frombuffer(data, SLOT)[used]
        parts.append((first + used, slots["time"], slots["first_pos"], slots["last_pos"]))
    return Slots(*(np.concatenate(columns).astype(np.int64) for columns in zip(*parts, strict=True)))


def _precision(log: TimerLog, store: Store, slots: Slots | None, check: Any | None, last_timestamp: int) -> int:
    """Return the milliseconds of one slot: the setting, else what brings the slots nearest to the read time, else by the units."""
    configured = store.config.explicit_integer("timerPrecisionMs")
    if configured is not None:
        return next((precision for precision in timer.PRECISIONS if precision <= configured), timer.PRECISIONS[-1])
    reference = check.last_read_time_ms if check is not None and check.last_read_time_ms > 0 else last_timestamp
    times = np.empty(0, np.int64) if slots is None else slots.time[slots.time % timer.WHEEL_SLOTS == slots.number]
    if not times.size or reference <= 0:
        return _precision_of_units(log)
    middle = int(np.partition(times, times.size // 2)[times.size // 2])  # np.median would import masked arrays
    return min(timer.PRECISIONS, key=lambda precision: abs(middle * precision - reference))


def _precision_of_units(log: TimerLog) -> int:
    """Return the largest precision that divides all times of the last units, as brokers round them; the default without units."""
    for file in reversed(log.queue.files):
        window = next(log.windows(file.start), None)
        if window is not None and window.sound.any():
            units = window.units[window.sound]
            times = np.concatenate([units["write_time"], units["write_time"] + units["delay"]])
            return next((precision for precision in timer.PRECISIONS if not (times % precision).any()), timer.PRECISIONS[-1])
    return timer.PRECISIONS[0]
