"""Slots filled with many units at once against a wheel that takes them one by one, as brokers do (fact sheet timer §1.6)."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from rmqstore.formats.timer import WHEEL_SLOTS
from rmqstore.rebuild.timerwheel import fill
from rmqstore.verify.timer.files import SLOT

Unit = tuple[int, int, int]
"""Slot time, offset in the timer log, 1 or −1."""


def one_by_one(units: list[Unit]) -> dict[int, list[int]]:
    """Time, first, last and num by number of the slot, as `TimerMessageStore.doEnqueue` leaves them."""
    wheel: dict[int, list[int]] = {}
    for time, offset, count in units:
        slot = wheel.setdefault(time % WHEEL_SLOTS, [-1, -1, -1, 0])
        if slot[0] != time:
            slot[:] = [time, offset, offset, 0]
        slot[2] = offset
        slot[3] += count
    return wheel


@pytest.mark.parametrize("seed", range(20))
def test_many_units_at_once_fill_the_wheel_as_one_by_one(seed: int) -> None:
    random = Random(seed)
    numbers = [random.randrange(WHEEL_SLOTS) for _ in range(6)]
    first_round = 1_700_000_000 // WHEEL_SLOTS
    units: list[Unit] = []
    for place in range(random.randrange(1, 120)):
        # Few slots, and times of three turns of the wheel: slots are continued, and taken over by another time.
        time = (first_round + random.choice([0, 0, 0, 1, 2])) * WHEEL_SLOTS + random.choice(numbers)
        units.append((time, place * 52, random.choice([1, 1, -1])))
    wheel = np.zeros(WHEEL_SLOTS, SLOT)
    rest = units
    while rest:
        size = random.randrange(1, len(rest) + 1)
        times, offsets, counts = (np.array(column, np.int64) for column in zip(*rest[:size], strict=True))
        fill(wheel, times, offsets, counts)
        rest = rest[size:]

    filled = {int(number): [int(wheel[name][number]) for name in ("time", "first_pos", "last_pos", "num")] for number in numbers}
    expected = one_by_one(units)
    assert filled == {number: expected.get(number, [0, 0, 0, 0]) for number in numbers}
    assert np.count_nonzero(wheel["time"]) == len(expected)
    assert not wheel["magic"].any()


def test_no_units_change_nothing() -> None:
    wheel = np.zeros(WHEEL_SLOTS, SLOT)
    nothing = np.empty(0, np.int64)
    fill(wheel, nothing, nothing, nothing)
    assert not wheel.view(np.uint8).any()
