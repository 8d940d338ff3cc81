"""Faults that make a started broker's timer busy-loop until memory is full: slots without units, units that link to themselves.

Observed on 5.3.3 and 5.5.1 (fact sheet timer observed §3). A start replays the end of the timer log, and every slot that gets a unit
from there is valid again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from rmqstore.doctor.areas import Area, Effect, Harm, State
from rmqstore.findings import Finding
from rmqstore.formats import timer
from rmqstore.verify.context import Context
from rmqstore.verify.timer.files import TimerFiles, open_timer
from rmqstore.verify.timer.wheel import what_a_start_trips_over
from rmqstore.wording import counted

_BUSY_LOOPS = "its timer busy-loops until memory is full"


def check(context: Context) -> Iterator[Effect | Finding]:
    """Yield what prevents the timer from running. Reads the wheel and what a start reads of the timer log."""
    findings = list(what_a_start_trips_over(context))
    files = open_timer(context.store, context.log.last_timestamp)
    replayed, circles = _replay(files)
    beyond = [finding for finding in findings if finding.code == "RMQ-TM-WHEEL-BEYOND" and not _is_replayed(finding, replayed)]
    yield from (finding for finding in findings if finding.code != "RMQ-TM-WHEEL-BEYOND" or finding in beyond)
    for offset in circles:
        text = f"the entry at {offset} of the timer log links to itself or to a later one"
        yield context.finding("RMQ-TM-CHAIN", text, file=context.store.timerlog.files[-1].path, found=offset)
    if circles:
        yield Effect(Area.DELAYED, State.LOSES, f"{_BUSY_LOOPS}: an entry of the timer log links to itself", Harm.LOST, len(circles))
    elif beyond and files.log.queue.files:
        text = f"{_BUSY_LOOPS}: {counted(len(beyond), 'slot')} of the wheel point beyond the timer log"
        yield Effect(Area.DELAYED, State.LOSES, text, Harm.LOST, len(beyond))


def _replay(files: TimerFiles) -> tuple[frozenset[int], list[int]]:
    """Return numbers of the slots that units of the replayed end of the log belong to, and offsets of live units that link forward."""
    slots: set[int] = set()
    circles: list[int] = []
    for window in files.log.windows(files.log.replay_start(files.flushed)):
        times = files.slot_time(window.units)
        slots.update(np.unique(times[window.sound] % timer.WHEEL_SLOTS).tolist())
        wrong = window.sound & files.is_live(times) & (window.units["prev_pos"].astype(np.int64) >= window.offsets)
        circles += window.offsets[wrong].tolist()
    return frozenset(slots), circles


def _is_replayed(finding: Finding, slots: Iterable[int]) -> bool:
    return finding.position is not None and finding.position // timer.WHEEL_SLOT_SIZE in slots
