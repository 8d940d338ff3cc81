"""The commit log in ranges: what of it was read, is damaged, will be discarded by the next start, or is empty."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from rmqstore.doctor.predicted import Prediction
from rmqstore.findings import Finding, Severity

_PARTS = 1000


class LogState(StrEnum):
    """The state of a range."""

    VALID = "valid"
    NOT_READ = "not read"
    DAMAGED = "damaged"
    DISCARDED = "discarded"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class LogRange:
    """Physical offsets [begin, end) and their state; a range that is damaged is part of another one, which does not say so, and may hold
    valid bytes between damages."""

    begin: int
    end: int
    state: LogState

    def as_json(self) -> dict[str, Any]:
        """Return the range as an object."""
        return {"begin": self.begin, "end": self.end, "state": str(self.state)}


def log_ranges(prediction: Prediction, findings: Iterable[Finding]) -> tuple[LogRange, ...]:
    """Return the ranges of the log of a diagnosis by offset, damage after them. Files that are missing are in none.

    Neighbours in the same state are one range, and so are damages that are closer than a thousandth of the log: a strip cannot show more.
    """
    files = prediction.context.store.message_log
    near = (files.max_offset - files.min_offset) // _PARTS
    damages = sorted(_damages(findings), key=lambda one: one.begin)
    return (*_joined(_states(prediction), 0), *_joined(damages, near))


def _joined(ranges: Iterable[LogRange], near: int) -> Iterator[LogRange]:
    """Yield ranges, those of one state that are at most `near` bytes apart as one."""
    last: LogRange | None = None
    for one in ranges:
        if last is not None and last.state is one.state and one.begin - last.end <= near:
            last = LogRange(last.begin, max(last.end, one.end), last.state)
            continue
        if last is not None:
            yield last
        last = one
    if last is not None:
        yield last


def _states(prediction: Prediction) -> Iterator[LogRange]:
    scanned, scan = prediction.range, prediction.outcome.scan
    unread = {file.start for file in scanned.unread}
    data_end = min(unread, default=max(scanned.end_offset, scanned.start_offset))
    cut = data_end if scan is None or not prediction.loss.messages else min(scan.stop_offset, data_end)
    lost = bool(prediction.loss.messages or prediction.loss.uncounted_bytes)
    for file in prediction.context.store.message_log.files:
        borders: tuple[tuple[LogState, int], ...] = ((LogState.VALID, cut), (LogState.DISCARDED, data_end), (LogState.EMPTY, file.end))
        if file.end <= scanned.start_offset or (file.start in unread and not lost):
            borders = ((LogState.NOT_READ, file.end),)
        elif file.start in unread:
            borders = ((LogState.DISCARDED, prediction.context.log.end_offset), (LogState.EMPTY, file.end))
        begin = file.start
        for state, border in borders:
            end = max(begin, min(border, file.end))
            if begin < end:
                yield LogRange(begin, end, state)
            begin = end


def _damages(findings: Iterable[Finding]) -> Iterator[LogRange]:
    for one in findings:
        damages = one.code.startswith("RMQ-CL-") and (one.severity is Severity.ERROR or one.code == "RMQ-CL-TORN")
        if damages and one.offset is not None and one.length:
            yield LogRange(one.offset, one.offset + one.length, LogState.DAMAGED)
