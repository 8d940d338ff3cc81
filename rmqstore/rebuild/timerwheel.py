"""The units of a timer log, chained slot by slot, and the slots of the wheel that they fill: what a broker does, for many units at once.

A unit whose time is that of its slot becomes the newest one of the slot and counts; with any other time the slot begins again with it
(fact sheet timer §1.6, §1.10). A deletion counts −1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rmqstore.formats import timer
from rmqstore.formats.timer import WHEEL_SLOTS

Integers = npt.NDArray[np.int64]
Units = npt.NDArray[np.void]


def fill(slots: npt.NDArray[np.void], times: Integers, offsets: Integers, counts: Integers) -> None:
    """Put units into `slots`, the whole wheel as a structured array; call it for all units in the order of the timer log.

    `times` in units of the precision, `offsets` in the timer log, `counts` 1, or −1 for a deletion.
    """
    if not times.size:
        return
    numbers = times % WHEEL_SLOTS
    order = np.argsort(numbers, kind="stable")
    numbers, times, offsets, counts = numbers[order], times[order], offsets[order], counts[order]
    other_slot = np.concatenate([[True], numbers[1:] != numbers[:-1]])
    starts = np.flatnonzero(other_slot | np.concatenate([[True], times[1:] != times[:-1]]))
    ends = np.append(starts[1:], len(numbers)) - 1
    first, num = offsets[starts], np.add.reduceat(counts, starts)
    # Only the last run of equal times of a slot is left, and only the first one can continue what the slot held before.
    continued = other_slot[starts] & (slots["time"][numbers[starts]] == times[starts])
    before = slots[numbers[starts[continued]]]
    first[continued] = before["first_pos"]
    num[continued] += before["num"]
    left = np.append(numbers[starts[1:]] != numbers[starts[:-1]], True)
    rows = numbers[starts[left]]
    slots["time"][rows] = times[starts[left]]
    slots["first_pos"][rows] = first[left]
    slots["last_pos"][rows] = offsets[ends[left]]
    slots["num"][rows] = num[left]
    slots["magic"][rows] = 0


# Units of a timer log for messages that wait (fact sheet timer §1.3)


class Waiting(NamedTuple):
    """A message of the timer topic: physical offset, size in bytes, when its slot is due (ms), bits of the unit, hash of its real topic."""

    offset: int
    size: int
    slot_time: int
    magic: int
    topic_hash: int


def rolled(due: int, now: int, window: int) -> tuple[int, bool]:
    """Return the slot time of a message that is due at `due` and enters the wheel at `now` (all ms), and whether it must roll there.

    `window`: the longest time that a message stays in the wheel. What rolls long before its time leaves enough for the next roll.
    """
    if due - now < window:
        return due, False
    return now + (window // 2 if due - now - window < window // 3 else window), True


def units_of(waiting: Sequence[Waiting], now: int, file_size: int, dtype: np.dtype[np.void]) -> tuple[Units, Integers]:
    """Return a unit of type `dtype` for each message, and its offset in a timer log that begins at 0 with files of `file_size` bytes.

    `now`: the write time of all of them (ms). Messages of one time are in one slot.
    """
    number = np.arange(len(waiting), dtype=np.int64)
    in_file = timer.last_unit_position(file_size) // timer.LOG_UNIT_SIZE + 1
    offsets = number // in_file * file_size + number % in_file * timer.LOG_UNIT_SIZE
    units = np.zeros(len(waiting), dtype)
    units["size"], units["write_time"] = timer.LOG_UNIT_SIZE, now
    columns = zip(*waiting, strict=True) if waiting else ((),) * len(Waiting._fields)
    values = dict(zip(Waiting._fields, columns, strict=True))
    units["offset_py"], units["size_py"], units["magic"] = values["offset"], values["size"], values["magic"]
    units["topic_hash"], units["delay"] = values["topic_hash"], np.array(values["slot_time"], np.int64) - now
    last: dict[int, int] = {}
    for i, slot_time in enumerate(values["slot_time"]):
        units["prev_pos"][i] = last.get(slot_time, -1)
        last[slot_time] = int(offsets[i])
    return units, offsets


def files_of(units: Units, file_size: int) -> Iterator[tuple[int, bytes]]:
    """Yield the start of each file, at least one, and its bytes up to the last that is not zero; full ones end with their mark."""
    last = timer.last_unit_position(file_size)
    in_file = last // timer.LOG_UNIT_SIZE + 1
    for number, first in enumerate(range(0, max(len(units), 1), in_file)):
        data = units[first : first + in_file].tobytes()
        if first + in_file < len(units):
            blank = timer.LOG_BLANK.build({"size": file_size - last - timer.LOG_UNIT_SIZE, "prev_pos": 0})
            data += blank
        yield number * file_size, data
