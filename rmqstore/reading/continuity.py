"""The course of the QUEUEOFFSETs of one queue along the log, and the records whose QUEUEOFFSETs the records around them contradict.

In the order of the log, a QUEUEOFFSET is the one before plus the queue offsets that the record before takes. So the QUEUEOFFSET of each
record, less the queue offsets that all records before it take, is one number, its shift. Lost messages raise it for all that follows; a
queue that starts again, or that uses queue offsets again, lowers it for all that follows. Damaged QUEUEOFFSETs change it for a few
records, and the records after them have the shift of before again, or a higher one if messages were lost in between.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from rmqstore.formats.message import MIN_RECORD_SIZE_V1

_MOST_CLOSED = 4096
"""Queue offsets of damaged records in a row between two others that continue as if no message was lost."""
_MOST_IN_DOUBT = 16
"""The same where messages were lost as well, or where there are no records on one side."""
_MOST_SEGMENTS = 8
"""Segments of damaged records in a row where messages were lost as well."""

Room = Callable[[int, int], int]
"""How many messages can have been lost between the records at two physical offsets."""
_Cost = tuple[int, int]  # unexplained breaks, queue offsets of records that are damaged then


@dataclass(frozen=True, slots=True)
class Segment:
    """Records with consecutive QUEUEOFFSETs [start, end), the first and the last one at physical offsets `first` and `last`."""

    start: int
    end: int
    first: int
    last: int

    @property
    def width(self) -> int:
        """Number of queue offsets that the records take."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Misnumbered:
    """Segments, one after the other in a queue, whose QUEUEOFFSETs the records around them contradict.

    `low` is the queue offset after the record before them, which is at physical offset `after`, and `high` that of the record after them,
    at `before`. `low` is None without a record before, `high` without one after. Before queue offset 0 there is none: `after` is -1.
    Where all QUEUEOFFSETs of a queue are negative, which no broker writes, there are records on neither side. `room`: how many messages can
    have been lost after the record before, where there is none after them.
    `starts`: the queue offset that each segment begins with if no message is missing beside the ones that were lost in damage, None where
    messages were lost in several places. `doubtful`: the records on both sides are among the last of the queue, whose QUEUEOFFSETs go back.
    """

    segments: tuple[Segment, ...]
    low: int | None
    high: int | None
    after: int
    before: int
    starts: tuple[int, ...] | None
    room: int = 0
    doubtful: bool = False

    @property
    def closed(self) -> bool:
        """Whether there are records on both sides."""
        return self.low is not None and self.high is not None

    @property
    def certain(self) -> bool:
        """Whether the log alone leaves one value for each record, if `starts` is not None.

        With records on one side it does for negative QUEUEOFFSETs, which no broker writes, where no message can be missing.
        """
        return (self.closed and not self.doubtful) or (
            self.low is not None and not self.room and all(segment.start < 0 for segment in self.segments)
        )

    def nearer(self) -> Misnumbered | None:
        """Return the same without the segment beside the records of the one side, None without any left or with records on both sides."""
        if self.closed or len(self.segments) == 1 or self.starts is None:
            return None
        if self.high is None:
            first = self.segments[0]
            begins = accumulate((segment.width for segment in self.segments[1:-1]), initial=first.end)
            return replace(self, segments=self.segments[1:], low=first.end, after=first.last, starts=tuple(begins))
        last = self.segments[-1]
        ends = accumulate((-segment.width for segment in self.segments[-2::-1]), initial=last.start)
        return replace(self, segments=self.segments[:-1], high=last.start, before=last.first, starts=tuple(ends)[:0:-1])


def continues(end: int, width: int, start: int) -> bool:
    """Return whether a record with QUEUEOFFSET `start` follows one that ends at `end` if records that take `width` are between."""
    return end + width == start


def room_of(damages: Sequence[tuple[int, int]]) -> Room:
    """Return the room for lost messages in `damages`, ranges of physical offsets that are ascending and apart from each other."""
    starts = [start for start, _ in damages]
    sizes = [0, *accumulate(end - start for start, end in damages)]

    def room(after: int, before: int) -> int:
        return (sizes[bisect_left(starts, before)] - sizes[bisect_left(starts, after)]) // MIN_RECORD_SIZE_V1

    return room


def misnumbered(segments: Sequence[Segment], room: Room, *, from_zero: bool) -> list[Misnumbered]:
    """Return the misnumbered records of a queue, whose segments are given in the order of the log.

    `from_zero`: no message before them expired, so the queue begins with 0. Of all ways to take segments for damaged, the one with the
    fewest unexplained breaks counts, and of these the one with the fewest damaged records.
    """
    if len(segments) == 1 and (segments[0].start == 0 or (segments[0].end > 0 and not from_zero)):
        return []
    nodes = [Segment(0, 0, -1, -1), *segments] if from_zero else list(segments)
    if not from_zero and all(node.end <= 0 for node in nodes) and sum(node.width for node in nodes) <= _MOST_IN_DOUBT:
        return [Misnumbered(tuple(nodes), None, None, -1, -1, None)]
    return list(_Course(nodes, room).misnumbered())


class _Course:
    """One queue. `nodes`: its segments, and an empty one before queue offset 0 where the queue begins there."""

    def __init__(self, nodes: Sequence[Segment], room: Room) -> None:
        self._nodes = nodes
        self._room = room
        self._taken = [0, *accumulate(node.width for node in nodes)]  # queue offsets that the nodes before take
        self._shifts = [node.start - taken for node, taken in zip(nodes, self._taken, strict=False)]

    def misnumbered(self) -> Iterator[Misnumbered]:
        """Yield the misnumbered records, those without records on one side as well."""
        path = self._path()
        yield from self._head(path)
        begin = self._tail_begin(path)
        for here, there in pairwise(path):
            if there > here + 1:
                yield replace(self._between(here, there), doubtful=here >= begin)
        if begin < len(self._nodes):
            yield self._tail(begin)

    def _path(self) -> list[int]:
        """Return the nodes that are not damaged."""
        best: list[_Cost] = [(0, 0)]
        came = [-1]
        of_shift: dict[int, int] = {self._shifts[0]: 0}
        for there in range(1, len(self._nodes)):
            options = [(self._stepped(best[there - 1], there), there - 1)]
            here = of_shift.get(self._shifts[there])
            if here is not None and self._skipped(here, there) <= _MOST_CLOSED:
                options.append((_added(best[here], 0, self._skipped(here, there)), here))
            for here in range(max(0, there - 1 - _MOST_SEGMENTS), there - 1):
                if self._may_have_lost(here, there):
                    options.append((_added(best[here], self._roomy(here, there), self._skipped(here, there)), here))
            cost, here = min(options, key=lambda option: (option[0], -option[1]))
            best.append(cost)
            came.append(here)
            known = of_shift.get(self._shifts[there])
            if known is None or cost <= _added(best[known], 0, self._skipped(known, there)):
                of_shift[self._shifts[there]] = there
        path = [len(self._nodes) - 1]
        while came[path[-1]] >= 0:
            path.append(came[path[-1]])
        return path[::-1]

    def _skipped(self, here: int, there: int) -> int:
        """Return how many queue offsets the nodes between two nodes take."""
        return self._taken[there] - self._taken[here + 1]

    def _stepped(self, cost: _Cost, there: int) -> _Cost:
        return _added(cost, int(not self._is_explained(there)), 0)

    def _is_explained(self, there: int) -> bool:
        """Return whether a node follows the one before as brokers and damage leave it: lost messages, or a queue that starts again."""
        before, node = self._nodes[there - 1], self._nodes[there]
        if node.start == 0 and node.width > 1:
            return True
        return before.end <= node.start <= before.end + self._room(before.last, node.first)

    def _may_have_lost(self, here: int, there: int) -> bool:
        """Return whether the nodes between two nodes can be damaged, and messages lost beside them."""
        lost = self._shifts[there] - self._shifts[here]
        return 0 < lost <= sum(self._rooms(here, there)) and self._skipped(here, there) <= _MOST_IN_DOUBT

    def _roomy(self, here: int, there: int) -> int:
        """Return how many nodes between two nodes may be right as they are, where messages were lost."""
        return sum(self._shifts[here] <= shift <= self._shifts[there] for shift in self._shifts[here + 1 : there])

    def _rooms(self, here: int, there: int) -> list[int]:
        """Return the room for lost messages before each node after `here`, up to `there`."""
        return [self._room(self._nodes[node - 1].last, self._nodes[node].first) for node in range(here + 1, there + 1)]

    def _between(self, here: int, there: int) -> Misnumbered:
        before, after = self._nodes[here], self._nodes[there]
        lost = self._shifts[there] - self._shifts[here]
        rooms = self._rooms(here, there)
        places = [number for number, room in enumerate(rooms) if room]
        if not lost:
            starts = self._continued(here, there, before.end)
        elif len(places) == 1:
            starts = self._continued(here, there, before.end)
            starts = tuple(start + lost * (number >= places[0]) for number, start in enumerate(starts))
        else:
            starts = None
        return Misnumbered(tuple(self._nodes[here + 1 : there]), before.end, after.start, before.last, after.first, starts)

    def _continued(self, here: int, there: int, start: int) -> tuple[int, ...]:
        """Return what the nodes between two nodes begin with if the first one begins with `start`."""
        return tuple(start + self._skipped(here, node) for node in range(here + 1, there))

    def _head(self, path: Sequence[int]) -> Iterator[Misnumbered]:
        """Yield the first records of the log if they are few, and the queue does not continue after them."""
        end = 0
        if self._nodes[0].first < 0:
            return
        for there in range(1, len(path)):
            if path[there] != there or self._is_explained(there) or self._taken[there] > _MOST_IN_DOUBT:
                break
            end = there
        if end:
            after = self._nodes[end]
            starts = self._continued(-1, end, after.start - self._taken[end])
            yield Misnumbered(tuple(self._nodes[:end]), None, after.start, -1, after.first, starts)

    def _tail_begin(self, path: Sequence[int]) -> int:
        """Return the first of the last nodes that are few and do not continue the queue; the number of nodes if they do.

        Damaged nodes between two of these belong to them.
        """
        count = begin = len(self._nodes)
        for number in range(len(path) - 1, 0, -1):
            node = path[number]
            if self._taken[count] - self._taken[node] > _MOST_IN_DOUBT:
                break
            if path[number - 1] == node - 1:
                if self._is_explained(node):
                    break
                begin = node
        return begin

    def _tail(self, begin: int) -> Misnumbered:
        """Return the last records of the log, from the node `begin` on."""
        count, before = len(self._nodes), self._nodes[begin - 1]
        starts = self._continued(begin - 1, count, before.end)
        room = sum(self._rooms(begin - 1, count - 1))
        return Misnumbered(tuple(self._nodes[begin:]), before.end, None, before.last, -1, starts, room)


def _added(cost: _Cost, unexplained: int, damaged: int) -> _Cost:
    return cost[0] + unexplained, cost[1] + damaged
