"""The slots of a timer wheel against the units of the timer log (fact sheet timer §1.9, W2 to W6)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rmqstore.formats import timer
from rmqstore.verify.timer.files import Slots, TimerFiles
from rmqstore.verify.timer.log import Mask, Offsets, Window


class Faults(NamedTuple):
    """Which slots are wrong: by their own time, by positions that are no unit boundaries, by a newest unit of another time."""

    misplaced: Mask
    odd: Mask
    foreign: Mask


def faults(files: TimerFiles, slots: Slots) -> Faults:
    """Return which slots are wrong; to be called after the units of the timer log were read. Raises UnreadableError."""
    misplaced = np.asarray(slots.time % timer.WHEEL_SLOTS != slots.number)
    odd = odd_positions(files, slots)
    live = files.is_live(slots.time) & ~misplaced
    # Units before the first file have been deleted with their messages.
    inside = np.flatnonzero(live & ~odd & (slots.last >= files.log.queue.min_offset) & (slots.last < files.log.end(files.flushed)))
    units = files.log.units_at(slots.last[inside])
    foreign = np.zeros(len(misplaced), np.bool_)
    foreign[inside] = (units["size"] != timer.LOG_UNIT_SIZE) | (files.slot_time(units) != slots.time[inside])
    return Faults(misplaced, odd, foreign)


def odd_positions(files: TimerFiles, slots: Slots) -> Mask:
    """Return which slots have positions that are no unit boundaries."""
    odd = (slots.last < -1) | (slots.first < -1)
    if files.log.queue.files:
        odd |= ((slots.last >= 0) & ~files.log.aligned(slots.last)) | ((slots.first >= 0) & ~files.log.aligned(slots.first))
    return np.asarray(odd)


def wrong_links(files: TimerFiles, window: Window, times: Offsets, live: Offsets) -> tuple[Offsets, Offsets]:
    """Return which of the `live` entries of a window link to no older place of an entry, and which to one of another time.

    `times`: slot times of all entries of the window. Raises UnreadableError.
    """
    links = window.units["prev_pos"].astype(np.int64)
    linked = live[links[live] >= 0]
    wrong = (links[linked] >= window.offsets[linked]) | ~files.log.aligned(links[linked])
    # Units before the first file have been deleted with their messages.
    rest = linked[~wrong & (links[linked] >= files.log.queue.min_offset)]
    older = files.log.units_at(links[rest])
    foreign = (older["size"] != timer.LOG_UNIT_SIZE) | (files.slot_time(older) != times[rest])
    return linked[wrong], rest[foreign]


def forgotten_units(files: TimerFiles, times: Offsets, offsets: Offsets) -> Mask:
    """Return which units neither the wheel nor a start reaches, which reads the end of the timer log only.

    `times`: slot times of units that are not delivered yet, `offsets`: their places in the timer log. None where the wheel has another
    length, which is reported as that.
    """
    if files.slots is None and files.wheel.is_file() and files.wheel.stat().st_size > 0:
        return np.zeros(len(times), np.bool_)
    return np.asarray((offsets < files.log.replay_start(files.flushed)) & ~is_reached(files.slots, times, offsets))


def is_reached(slots: Slots | None, times: Offsets, offsets: Offsets) -> Mask:
    """Return whether the wheel has the slot of each time (in units of the precision), with its newest unit at the offset or after it."""
    if slots is None or not slots.number.size:
        return np.zeros(len(times), np.bool_)
    number = times % timer.WHEEL_SLOTS
    place = np.minimum(np.searchsorted(slots.number, number), slots.number.size - 1)
    return np.asarray((slots.number[place] == number) & (slots.time[place] == times) & (slots.last[place] >= offsets))
