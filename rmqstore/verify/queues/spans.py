"""Results of scans of the log for each queue: of one file, or of several in a row, joined in the order of the log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rmqstore.scan.kernels.queue import EVENT_DTYPE, RUN_DTYPE, Order

QueueKey = tuple[str, int]

NUMBERS = ("first_offset", "first_position", "next_offset", "last_position", "records")
_FIRST, _FIRST_POSITION, _NEXT, _LAST_POSITION, _RECORDS = range(len(NUMBERS))


class QueueSpan(NamedTuple):
    """The results for one queue: the QUEUEOFFSETs of its first and last record, and the outcome of every claim as runs (RUN_DTYPE).

    `events`: records whose QUEUEOFFSETs do not continue (EVENT_DTYPE), in the order of the log.
    """

    first_offset: int
    first_position: int
    next_offset: int
    last_position: int
    records: int
    runs: npt.NDArray[np.void]
    events: npt.NDArray[np.void]


@dataclass(slots=True)
class Spans:
    """The spans of all queues in few arrays, row by row for `queues`: a span as an object takes five times the memory.

    `queues`: number of the topic, queue id. `numbers`: the integers of QueueSpan. `counts`: how many of the `runs` each queue has.
    `events`: with the row as queue; those of one queue are in the order of the log.
    """

    topics: list[str] = field(default_factory=list)
    queues: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros((0, 2), np.int32))
    numbers: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, len(NUMBERS)), np.int64))
    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    runs: npt.NDArray[np.void] = field(default_factory=lambda: np.zeros(0, RUN_DTYPE))
    events: npt.NDArray[np.void] = field(default_factory=lambda: np.zeros(0, EVENT_DTYPE))

    @classmethod
    def of_keys(cls, keys: Iterable[QueueKey]) -> Spans:
        """Return the value for queues, without anything else."""
        topics: dict[str, int] = {}
        rows = [(topics.setdefault(topic, len(topics)), queue_id) for topic, queue_id in keys]
        return cls(list(topics), np.array(rows, np.int32).reshape(len(rows), 2))

    def queue_keys(self) -> list[QueueKey]:
        """Return the queues."""
        return [(self.topics[number], queue_id) for number, queue_id in self.queues.tolist()]

    def by_queue(self) -> dict[QueueKey, QueueSpan]:
        """Return the span of each queue."""
        order = np.argsort(self.events["queue"], kind="stable")
        of_runs = _split(self.runs, self.counts)
        of_events = _split(self.events[order], np.bincount(self.events["queue"], minlength=len(self.queues)))
        rows = zip(*self.numbers.T.tolist(), of_runs, of_events, strict=True)
        return {key: QueueSpan(*row) for key, row in zip(self.queue_keys(), rows, strict=True)}

    def of_rows(self, rows: npt.NDArray[np.int64]) -> Spans:
        """Return those of some of the queues, by ascending row."""
        is_wanted = np.zeros(len(self.queues), np.bool_)
        is_wanted[rows] = True
        events = self.events[is_wanted[self.events["queue"]]]
        events["queue"] = np.searchsorted(rows, events["queue"])
        topics, topic = np.unique(self.queues[rows, 0], return_inverse=True)
        queues = np.column_stack([topic, self.queues[rows, 1]]).astype(np.int32)
        runs = self.runs[np.repeat(is_wanted, self.counts)]
        return Spans([self.topics[number] for number in topics.tolist()], queues, self.numbers[rows], self.counts[rows], runs, events)

    def without_runs(self) -> Spans:
        """Return the same without the outcome of claims."""
        return replace(self, counts=np.zeros_like(self.counts), runs=self.runs[:0])


def _split(rows: npt.NDArray[np.void], counts: npt.NDArray[np.int64]) -> list[npt.NDArray[np.void]]:
    ends = np.cumsum(counts).tolist()
    return [rows[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def joined(parts: Iterable[Spans]) -> Spans:
    """Return the spans of several parts of the log, given in its order, as those of one."""
    joining = _Joining()
    for part in parts:
        joining.add(part)
    return joining.finish()


class _Joining:
    """Spans to which those of what follows in the log are appended. Runs with the same outcome are one where they continue each other."""

    def __init__(self) -> None:
        self._rows: dict[QueueKey, int] = {}
        self._numbers = np.zeros((0, len(NUMBERS)), np.int64)
        self._last = np.zeros(0, RUN_DTYPE)  # the last run of each queue, which the next one may continue; empty if there is none
        self._before: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.void]]] = []  # rows of queues, and runs before their last one
        self._events: list[npt.NDArray[np.void]] = []

    def add(self, later: Spans) -> None:
        """Append the spans of what follows in the log."""
        rows = np.array([self._rows.setdefault(key, len(self._rows)) for key in later.queue_keys()], np.int64)
        missing = len(self._rows) - self._last.size
        if missing > 0:
            more = max(missing, self._last.size)
            self._numbers = np.concatenate([self._numbers, np.zeros((more, len(NUMBERS)), np.int64)])
            self._last = np.concatenate([self._last, np.zeros(more, RUN_DTYPE)])
        self._add_numbers(rows, later.numbers)
        events = later.events.copy()
        events["queue"] = rows[events["queue"]]
        self._events.append(events)
        self._add_runs(rows, later)

    def _add_numbers(self, rows: npt.NDArray[np.int64], later: npt.NDArray[np.int64]) -> None:
        here = self._numbers[rows]
        follows, begins = later[:, _RECORDS] > 0, here[:, _RECORDS] == 0
        first, expected = later[:, _FIRST], here[:, _NEXT]
        broken = np.flatnonzero(follows & ~begins & (first != expected))
        events = np.zeros(broken.size, EVENT_DTYPE)
        events["queue"] = rows[broken]
        order = np.where(first > expected, int(Order.GAP), int(Order.REPEAT))
        events["order"] = np.where(first == 0, int(Order.RESTART), order)[broken]
        events["expected"], events["found"] = expected[broken], first[broken]
        events["position"], events["after"] = later[broken, _FIRST_POSITION], here[broken, _LAST_POSITION]
        self._events.append(events)
        begins &= follows
        for column, where in ((_FIRST, begins), (_FIRST_POSITION, begins), (_NEXT, follows), (_LAST_POSITION, follows)):
            here[where, column] = later[where, column]
        here[:, _RECORDS] += later[:, _RECORDS]
        self._numbers[rows] = here

    def _add_runs(self, rows: npt.NDArray[np.int64], later: Spans) -> None:
        held = np.flatnonzero(later.counts)
        ends = np.cumsum(later.counts)[held]
        starts = ends - later.counts[held]
        runs, mine = later.runs.copy(), rows[held]
        first, last = runs[starts], self._last[mine]
        has_run = last["start"] != last["end"]
        joins = has_run & (last["claim"] == first["claim"]) & (last["end"] == first["start"])
        for name in ("end", "last_position"):
            last[name][joins] = first[name][joins]
        runs[starts[joins]] = last[joins]
        closed = has_run & ~joins
        self._before.append((mine[closed], last[closed]))
        inner = np.ones(runs.size, np.bool_)
        inner[ends - 1] = False
        self._before.append((np.repeat(rows, later.counts)[inner], runs[inner]))
        self._last[mine] = runs[ends - 1]

    def finish(self) -> Spans:
        """Return the joined spans."""
        found = Spans.of_keys(self._rows)
        count = len(self._rows)
        open_runs = np.flatnonzero(self._last["start"] != self._last["end"])
        pieces = [*self._before, (open_runs, self._last[open_runs])]
        rows = np.concatenate([rows for rows, _ in pieces])
        found.numbers = self._numbers[:count]
        found.counts = np.bincount(rows, minlength=count)
        found.runs = np.concatenate([runs for _, runs in pieces])[np.argsort(rows, kind="stable")]
        found.events = np.concatenate([found.events, *self._events])
        return found
