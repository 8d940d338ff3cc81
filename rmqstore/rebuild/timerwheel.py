"""The slots of a timer wheel as the units of the timer log fill them: what a broker does unit by unit, for many units at once.

A unit whose time is that of its slot becomes the newest one of the slot and counts; with any other time the slot begins again with it
(fact sheet timer §1.6, §1.10). A deletion counts −1.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rmqstore.formats.timer import WHEEL_SLOTS

Integers = npt.NDArray[np.int64]


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
