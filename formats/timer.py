"""The timer's files: slots of the timer wheel, units of the timer log, the BLANK at the end of a log file, and the timercheck file.

Source: `TimerWheel`, `Slot`, `TimerLog`, `TimerCheckpoint`; fact sheet timer §1.2–1.4 (≥5.0.0).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from construct import Bytes, Const, Default, Int32sb, Int32ub, Int64sb, Struct

WHEEL_SLOT = Struct(
    "time" / Int64sb * "time of the slot in units of the timer precision: ms / precision",
    "first_pos" / Int64sb * "timer log offset of the first unit put into the slot; only a hint",
    "last_pos" / Int64sb * "timer log offset of the newest unit, head of the chain",
    "num" / Int32sb * "units put minus units of deletions; only a hint",
    "magic" / Int32sb * "unused, 0",
)

LOG_UNIT = Struct(
    "size" / Int32sb * "52",
    "prev_pos" / Int64sb * "timer log offset of the previous unit of the same slot, −1 = none",
    "magic" / Int32sb * "bits: 1 always, 2 rolled, 4 deletion",
    "write_time" / Int64sb * "the broker's current write time (ms), a multiple of the precision",
    "delay" / Int32sb * "time of the slot − write_time (ms)",
    "offset_py" / Int64sb * "physical offset of the timer message in the commit log",
    "size_py" / Int32sb * "TOTALSIZE of that record; 0 if a repair found its message lost",
    "topic_hash" / Int32sb * "Java hash of REAL_TOPIC, 0 without one",
    "reserved" / Int64sb * "0",
)

LOG_BLANK_MAGIC = 0xCBD43194

LOG_BLANK = Struct(
    "size" / Int32sb * "bytes left in the file, these 16 included",
    "prev_pos" / Int64sb * "0",
    "magic" / Const(LOG_BLANK_MAGIC, Int32ub) * "CBD43194",
)

GIVEN_UP = 0
"""size_py of a unit whose message is lost: brokers read nothing there, and drop it. No broker writes that."""

WHEEL_SLOT_SIZE: int = WHEEL_SLOT.sizeof()
LOG_UNIT_SIZE: int = LOG_UNIT.sizeof()
LOG_BLANK_SIZE: int = LOG_BLANK.sizeof()
WHEEL_SLOTS = 2 * 7 * 86_400
WHEEL_FILE_SIZE = WHEEL_SLOTS * WHEEL_SLOT_SIZE
DEFAULT_LOG_FILE_SIZE = 100 * 1024 * 1024
PRECISIONS = (1000, 500, 200, 100)

CHECK_FILE_SIZE = 4096
_CHECK_FIELDS_SIZE = 7 * 8

CHECK = Struct(
    "last_read_time_ms" / Int64sb * "next slot time to be delivered (ms), a multiple of the precision",
    "last_timer_log_flush_pos" / Int64sb * "flushed position of the timer log in the previous cycle",
    "last_timer_queue_offset" / Int64sb * "next queue offset of the timer topic to be put into the wheel",
    "master_timer_queue_offset" / Int64sb * "the same of the master",
    "data_version_state_version" / Int64sb * "DataVersion: state version of the controller mode, else 0",
    "data_version_timestamp" / Int64sb * "DataVersion: time of the last change (ms)",
    "data_version_counter" / Int64sb * "DataVersion: number of changes",
    "reserved" / Default(Bytes(CHECK_FILE_SIZE - _CHECK_FIELDS_SIZE), bytes(CHECK_FILE_SIZE - _CHECK_FIELDS_SIZE)) * "zeros",
)


class UnitMagic(IntEnum):
    """Bits of `magic` in a unit of the timer log; 1, 3, 5 and 7 are written."""

    DEFAULT = 1
    ROLL = 2
    DELETE = 4


def last_unit_position(file_size: int) -> int:
    """Return the position (bytes) of the last unit in a full file of the timer log: only a BLANK follows it."""
    return file_size - (file_size - LOG_BLANK_SIZE) % LOG_UNIT_SIZE - LOG_BLANK_SIZE - LOG_UNIT_SIZE


def parse_check(data: bytes) -> Any:
    """Return the fields of a timercheck file. A short file is extended with zeros, as in the broker; bytes after 4096 are ignored."""
    return CHECK.parse(data[:CHECK_FILE_SIZE].ljust(CHECK_FILE_SIZE, b"\0"))
