"""Plans for the timer wheel, whose content follows from the units of the timer log.

A start enters the units of the last one or two files of the timer log only (fact sheet timer §1.7), so messages whose units are in older
files are delivered only if the wheel has them. A wheel that is missing or has a wrong length is built from all units, before the place
where a start stops reading the log; of any other wheel, the slots are corrected that verification reports. A slot whose newest unit the
timer log lost would link to itself when a new unit is written there (T1).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rmqstore.formats import timer
from rmqstore.rebuild.timerwheel import fill
from rmqstore.repair.plan.builder import PlanBuilder
from rmqstore.repair.plan.staging import StagedFile, Staging
from rmqstore.store.parts import PartKind
from rmqstore.store.root import Store
from rmqstore.verify.timer.files import SLOT, Slots, TimerFiles, open_timer
from rmqstore.verify.timer.slots import faults

_BEYOND = "its newest entry is after the end of the timer log"
_WRONG = "it does not lead to the entries of its time"
_LENGTH = f"a wheel has {timer.WHEEL_FILE_SIZE} bytes, and its slots follow from the timer log"
_UNUSED = "a wheel of the wrong length that is not used"
_MOST_RUNS = 1000
"""Ranges of wrong slots up to which they are corrected in place."""


def plan_wheel(builder: PlanBuilder, store: Store, files: TimerFiles, forgotten: set[int]) -> None:
    """Plan wheel and snapshots; the units of the timer log were read before.

    `forgotten`: numbers of slots of pending units that neither the wheel nor a start reaches. Raises UnreadableError, OSError.
    """
    _plan_files(builder, store, files)
    if files.slots is not None:
        _plan_slots(builder, files, files.slots, forgotten)


def plan_wheel_files(builder: PlanBuilder, store: Store, last_timestamp: int) -> None:
    """Plan wheels that are missing or have a wrong length; `last_timestamp`: of the last message of the log, ms. Raises as `plan_wheel`."""
    if not (store.timerlog.files or store.timerwheel_paths()):
        return
    files = open_timer(store, last_timestamp)
    for _ in files.log.windows():
        pass  # so that it is known where the log ends
    _plan_files(builder, store, files)


# Files


def _plan_files(builder: PlanBuilder, store: Store, files: TimerFiles) -> None:
    used = {files.wheel, store.root / PartKind.TIMERWHEEL}
    for path in sorted(used):
        length = _length(path)
        # Brokers that use snapshots leave the plain wheel as it is.
        if length == timer.WHEEL_FILE_SIZE or (not length and path != files.wheel):
            continue
        if files.log.has_units:
            builder.replace(path, _staged(builder.staging, files), reason=_LENGTH, code="RMQ-TM-WHEEL-LENGTH")
            builder.note(_evidence(store, path, files))
        elif length:
            builder.quarantine(path, reason=_UNUSED, code="RMQ-TM-WHEEL-LENGTH")
    for path in store.timerwheel_paths():
        if path not in used and path.suffix != ".tmp" and _length(path) not in (0, timer.WHEEL_FILE_SIZE):
            builder.quarantine(path, reason=_UNUSED, code="RMQ-TM-WHEEL-LENGTH")


def _length(path: Path) -> int:
    """Return the length of a file in bytes, 0 without one."""
    return path.stat().st_size if path.is_file() else 0


def _evidence(store: Store, path: Path, files: TimerFiles) -> str:
    """Return a sentence on what a new wheel is made from."""
    if store.config.explicit_integer("timerPrecisionMs") is not None:
        source = "as timerPrecisionMs says"
    else:
        source = "by the times in the entries" if files.slots is None else "as in the wheel in use"
    end = files.log.end(files.flushed)
    return f"{path.name} is built from the entries of the timer log up to {end}, with slots of {files.precision} ms, {source}."


# Slots


def _plan_slots(builder: PlanBuilder, files: TimerFiles, slots: Slots, forgotten: set[int]) -> None:
    found = faults(files, slots)
    wrong = found.misplaced | found.odd | found.foreign
    beyond = np.setdiff1d(slots.number[files.beyond(slots) & ~wrong], list(forgotten))
    numbers = np.union1d(slots.number[wrong], np.array(sorted(forgotten), np.int64))
    runs = [(run, _WRONG, "RMQ-TM-WHEEL-SLOT") for run in _runs(numbers)] + [(run, _BEYOND, "RMQ-TM-WHEEL-BEYOND") for run in _runs(beyond)]
    if len(runs) > _MOST_RUNS:
        builder.replace(
            files.wheel, _staged(builder.staging, files), reason=f"{len(runs)} ranges of its slots are wrong", code="RMQ-TM-WHEEL-SLOT"
        )
        return
    wheel = np.zeros(timer.WHEEL_SLOTS if runs else 0, SLOT)
    if runs:
        _fill(wheel, files)
    for (first, end), reason, code in runs:
        position, data = first * timer.WHEEL_SLOT_SIZE, wheel[first:end].tobytes()
        if data.strip(b"\0"):
            builder.write(files.wheel, position, data, reason=reason, code=code)
        else:
            builder.zero(files.wheel, position, len(data), reason=reason, code=code)


def _runs(numbers: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield [first, end) of consecutive numbers, which are in ascending order."""
    borders = np.flatnonzero(np.diff(numbers) != 1) + 1
    for run in np.split(numbers, borders) if numbers.size else ():
        yield int(run[0]), int(run[-1]) + 1


# Content


def _staged(staging: Staging, files: TimerFiles) -> StagedFile:
    """Return a new wheel with all units before the end of the timer log."""
    name = str(PartKind.TIMERWHEEL)
    wheel = staging.open(name, timer.WHEEL_FILE_SIZE).view(SLOT)
    _fill(wheel, files)
    del wheel
    return staging.close(name)


def _fill(wheel: npt.NDArray[np.void], files: TimerFiles) -> None:
    end = files.log.end(files.flushed)
    for window in files.log.windows():
        rows = np.flatnonzero(window.sound & (window.offsets < end))
        units = window.units[rows]
        counts = np.where(units["magic"] & timer.UnitMagic.DELETE, -1, 1)
        fill(wheel, files.slot_time(units), window.offsets[rows], counts)
