"""Timer files as a broker writes them: units appended to the log and put into the wheel one by one (fact sheet timer §1.2–1.4)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from rmqstore.formats import timer
from rmqstore.formats.javahash import java_hash
from tests.support.builder import StoreBuilder

READ_TIME = 1_700_000_400_000
WRITE_TIME = READ_TIME - 100_000
PRECISION = 1000
LOG_FILE = 1024
UNIT, BLANK, SLOT, SLOTS = 52, 16, 32, 1_209_600
UNITS_PER_FILE = 19  # another one would leave less than 16 bytes for the end mark: 20 * 52 + 16 > 1024
TOPIC = "orders"


@dataclass
class Slot:
    time: int
    first: int
    last: int
    num: int = 1


class Message(NamedTuple):
    """A message of the timer topic: physical offset, size, when it is due."""

    offset: int
    size: int
    deliver_at: int


@dataclass
class TimerStore:
    """A store whose timer topic holds a message for every unit."""

    root: Path
    builder: StoreBuilder
    log: dict[int, bytearray] = field(default_factory=dict)
    wheel: dict[int, Slot] = field(default_factory=dict)
    offset: int = 0
    messages: int = 0
    flushed: int = 0
    read_time: int = READ_TIME
    precision: int = PRECISION

    def put(self, deliver_at: int, *, topic: str = "rmq_sys_wheel_timer", kind: int = 1, slot_time: int | None = None) -> int:
        """Enqueues one message, by default in the slot of its time; returns the offset of its unit."""
        return self.enqueue(self.message(deliver_at, topic=topic), kind=kind, slot_time=slot_time)

    def message(self, deliver_at: int, *, topic: str = "rmq_sys_wheel_timer", body: bytes = b"", **changes: str | None) -> Message:
        """Appends one message that the timer has not met; `changes` of its properties, None takes one away."""
        properties = {"REAL_TOPIC": TOPIC, "REAL_QID": "0", "TIMER_OUT_MS": str(deliver_at)} | changes
        physical = self.builder.offset
        self.builder.message(topic, body, properties={name: value for name, value in properties.items() if value is not None})
        self.messages += 1
        return Message(physical, self.builder.offset - physical, deliver_at)

    def enqueue(self, message: Message, *, kind: int = 1, slot_time: int | None = None) -> int:
        """Writes a unit for a message and puts it into the wheel; returns the unit's offset."""
        deliver_at = message.deliver_at if slot_time is None else slot_time
        file, position = divmod(self.offset, LOG_FILE)
        if position // UNIT == UNITS_PER_FILE:
            left = LOG_FILE - position
            self._file(file)[position : position + BLANK] = timer.LOG_BLANK.build({"size": left, "prev_pos": 0})
            file, position, self.offset = file + 1, 0, (file + 1) * LOG_FILE
        time = deliver_at // self.precision
        slot = self.wheel.get(time % SLOTS)
        previous = slot.last if slot is not None and slot.time == time else -1
        unit = {
            "size": UNIT,
            "prev_pos": previous,
            "magic": kind,
            "write_time": WRITE_TIME,
            "delay": deliver_at - WRITE_TIME,
            "offset_py": message.offset,
            "size_py": message.size,
            "topic_hash": java_hash(TOPIC),
            "reserved": 0,
        }
        self._file(file)[position : position + UNIT] = timer.LOG_UNIT.build(unit)
        if previous < 0 or slot is None:
            self.wheel[time % SLOTS] = Slot(time, self.offset, self.offset)
        else:
            slot.last, slot.num = self.offset, slot.num + 1
        written, self.offset = self.offset, self.offset + UNIT
        return written

    def _file(self, number: int) -> bytearray:
        return self.log.setdefault(number * LOG_FILE, bytearray(LOG_FILE))

    def build(self) -> Path:
        self.builder.build()
        (self.root / "timerlog").mkdir()
        (self.root / "config").mkdir()
        for start, data in self.log.items():
            (self.root / "timerlog" / f"{start:020d}").write_bytes(data)
        with (self.root / "timerwheel").open("wb") as stream:
            stream.truncate(SLOTS * SLOT)
            for index, slot in self.wheel.items():
                stream.seek(index * SLOT)
                fields = {"time": slot.time, "first_pos": slot.first, "last_pos": slot.last, "num": slot.num, "magic": 0}
                stream.write(timer.WHEEL_SLOT.build(fields))
        fields = {
            "last_read_time_ms": self.read_time,
            "last_timer_log_flush_pos": self.flushed or self.offset,
            "last_timer_queue_offset": self.messages,
            "master_timer_queue_offset": self.messages,
            "data_version_state_version": 0,
            "data_version_timestamp": self.read_time,
            "data_version_counter": 9,
        }
        (self.root / "config" / "timercheck").write_bytes(timer.CHECK.build(fields))
        return self.root

    @property
    def settings(self) -> dict[str, str]:
        return {**self.builder.settings, "mappedFileSizeTimerLog": str(LOG_FILE)}


def timer_store(root: Path) -> TimerStore:
    return TimerStore(root, StoreBuilder(root))


def slot_position(deliver_at: int) -> int:
    """Byte position of the slot of a time in the wheel."""
    return deliver_at // PRECISION % SLOTS * SLOT
