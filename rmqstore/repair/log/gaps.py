"""Evidence in the QUEUEOFFSETs that the log leaves out: lost messages that no queue entry names."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from rmqstore.formats.message import MESSAGE_MAGIC_V1, smallest_record
from rmqstore.formats.naming import LMQ_PREFIX
from rmqstore.reading.continuity import Segment
from rmqstore.repair.plan.model import Doubt, LostMessage
from rmqstore.verify.queues.spans import QueueKey

_SMALLEST = smallest_record(MESSAGE_MAGIC_V1, 0)

_BEYOND = 1 << 64  # greater than every QUEUEOFFSET
_MOST_SAID = 20  # places in one sentence

Range = tuple[int, int]
"""Physical offsets [start, end)."""
Place = tuple[str, int, int]
"""Topic, queue id and queue offset."""


@dataclass(frozen=True, slots=True)
class Gap:
    """QUEUEOFFSETs [start, end) of a queue that no record has between those at physical offsets `after` and `before`."""

    key: QueueKey
    start: int
    end: int
    after: int
    before: int


def gaps_of(courses: Mapping[QueueKey, Sequence[Segment]], starts: Mapping[int, int], *, from_zero: bool) -> list[Gap]:
    """Return the QUEUEOFFSETs that the log leaves out. `courses`: the segments of each queue in the order of the log.

    `starts` has the true QUEUEOFFSETs of misnumbered segments, by the physical offset of their first record. `from_zero`: queues begin
    with 0.
    """
    found: list[Gap] = []
    for key, segments in courses.items():
        end, last = (0, -1) if from_zero else (_BEYOND, -1)
        for segment in segments:
            start = starts.get(segment.first, segment.start)
            if start > end:
                found.append(Gap(key, end, start, last, segment.first))
            end, last = start + segment.width, segment.last
    return sorted(found, key=lambda gap: gap.before)


def named_by_gaps(
    lost: Sequence[LostMessage],
    gaps: Sequence[Gap],
    damages: Sequence[Range],
    starts: Callable[[Sequence[Range]], Sequence[int]],
    closed: Sequence[LostMessage] = (),
    is_elsewhere: Callable[[Place], bool] = lambda place: False,
) -> list[LostMessage]:
    """Return the lost messages, damage without a topic named by the gaps of the log that extend across it.

    `damages` are ascending and apart from each other; `starts` returns where records began in some of them, ascending, by other evidence.
    A gap is due to damage only if the bytes have room for its messages. Queue offsets that a queue entry gives and the log contradicts are
    those of the gap. Of `closed`, ranges at the ends of files, only those that a gap extends across held messages. `is_elsewhere` returns
    whether the queue entry at a place points at a valid record: no message of the damage had that queue offset.
    """
    lost = [*_owned(_placed(lost, gaps), gaps), *closed]
    doubtful = {damage_at(damages, one.physical_offset or 0) for one in closed}
    known = {(one.topic, one.queue_id, one.queue_offset) for one in lost if one.topic is not None}
    unnamed: dict[Range, list[LostMessage]] = defaultdict(list)
    for one in lost:
        damage = damage_at(damages, one.physical_offset or 0) if one.topic is None else None
        if damage is not None:
            unnamed[damage].append(one)
    if not unnamed or not gaps:
        return [one for one in lost if one not in closed]
    named: dict[Range, list[Place]] = defaultdict(list)
    unexplained = sorted(unnamed)
    for gap in sorted(gaps, key=lambda gap: gap.before):
        across = list(_across(gap, unexplained))
        room = sum(end - start for start, end in across) // _SMALLEST
        places = [(*gap.key, number) for number in range(gap.start, gap.end)] if gap.end - gap.start <= room else []
        places = [place for place in places if place not in known and not is_elsewhere(place)]
        if places:
            across.sort(key=lambda damage: damage in doubtful)
            place = next((damage for damage in across if damage not in named), across[0])
            named[place] += places
    begins = starts(list(named))
    kept = [one for one in lost if not named.get(damage_at(damages, one.physical_offset or 0) or (0, 0)) or one.topic is not None]
    kept = [one for one in kept if one not in closed]
    return [*kept, *(message for damage, places in named.items() for message in _named(unnamed[damage], places, begins))]


def _placed(lost: Sequence[LostMessage], gaps: Sequence[Gap]) -> list[LostMessage]:
    """Return the lost messages, those of a shifted queue at the queue offsets that the log leaves out where as many of them were lost."""
    of_queue: dict[tuple[str | None, int | None], list[int]] = defaultdict(list)
    for number in sorted(range(len(lost)), key=lambda number: lost[number].physical_offset or 0):
        if lost[number].queue_offset is not None:
            of_queue[lost[number].topic, lost[number].queue_id].append(number)
    placed = list(lost)
    for gap in gaps:
        numbers = of_queue.get(gap.key, [])
        low = bisect_right(numbers, gap.after, key=lambda number: lost[number].physical_offset or 0)
        high = bisect_left(numbers, gap.before, key=lambda number: lost[number].physical_offset or 0)
        if high - low == gap.end - gap.start:
            for number, place in zip(numbers[low:high], range(gap.start, gap.end), strict=True):
                placed[number] = replace(lost[number], queue_offset=place)
    return placed


def _owned(lost: Sequence[LostMessage], gaps: Sequence[Gap]) -> list[LostMessage]:
    """Return the lost messages, those that only a queue of an %LMQ% topic knows in the queue that the log leaves as many out of."""
    owned = list(lost)
    light = [number for number, one in enumerate(lost) if one.topic is not None and one.topic.startswith(LMQ_PREFIX)]
    light.sort(key=lambda number: lost[number].physical_offset or 0)
    known: dict[tuple[str | None, int | None], list[int]] = defaultdict(list)
    for one in sorted(lost, key=lambda one: one.queue_offset or 0) if light else ():
        if one.queue_offset is not None:
            known[one.topic, one.queue_id].append(one.queue_offset)
    used: set[int] = set()
    for gap in gaps if light else ():
        low = bisect_right(light, gap.after, key=lambda number: lost[number].physical_offset or 0)
        high = bisect_left(light, gap.before, key=lambda number: lost[number].physical_offset or 0)
        offsets = known.get(gap.key, [])
        taken = offsets[bisect_left(offsets, gap.start) : bisect_left(offsets, gap.end)]
        if high - low == gap.end - gap.start - len(taken) and used.isdisjoint(light[low:high]):
            used.update(light[low:high])
            for number, place in zip(light[low:high], sorted({*range(gap.start, gap.end)} - {*taken}), strict=True):
                owned[number] = replace(lost[number], topic=gap.key[0], queue_id=gap.key[1], queue_offset=place)
    return owned


def _named(ranges: Sequence[LostMessage], places: Sequence[Place], begins: Sequence[int]) -> Iterator[LostMessage]:
    """Yield the losses in one damage, of which nothing but `ranges` and the `places` that gaps name is known.

    Each message is named if it is known where as many as were lost there began, else the ranges stay, and their reason lists the places.
    """
    pieces = [piece for one in ranges for piece in _pieces(one, begins)]
    headers = {(one.queue_id, one.queue_offset): one for one in pieces if one.queue_offset is not None}
    fitting: Counter[tuple[int | None, int | None]] = Counter(
        place[1:] for place in places
    )  # a header names no topic, so several queues may fit
    left = [place for place in places if place[1:] not in headers or fitting[place[1:]] > 1]
    free = [one for one in pieces if one.queue_offset is None]
    free += [replace(one, queue_id=None, queue_offset=None) for key, one in headers.items() if fitting[key] > 1]
    free.sort(key=lambda one: one.physical_offset or 0)
    yield from (replace(headers[place[1:]], topic=place[0]) for place in places if place not in left)
    yield from (one for key, one in headers.items() if key not in fitting)
    if len(left) == len(free):
        sure = len({place[:2] for place in left}) == 1
        for one, place in zip(free, left, strict=True):
            why = one.why if sure else f"{one.why}; it is unknown which of the messages lost here began at this position"
            doubt = None if sure else Doubt.POSITION
            yield replace(one, topic=place[0], queue_id=place[1], queue_offset=place[2], why=why, doubt=doubt)
        return
    missing = ", ".join(f"{topic}/{queue_id} {number}" for topic, queue_id, number in left[:_MOST_SAID])
    more = f" and {len(left) - _MOST_SAID} more" if len(left) > _MOST_SAID else ""
    for one in free:
        yield replace(one, why=f"{one.why}; the log leaves out the queue offsets {missing}{more} around here") if left else one


def _pieces(one: LostMessage, begins: Sequence[int]) -> Iterator[LostMessage]:
    """Yield a lost range, cut where records are known to have begun."""
    start, size = one.physical_offset or 0, one.size or 0
    low, high = bisect_right(begins, start), bisect_left(begins, start + size)
    cuts = [start, *(begins[low:high] if one.queue_offset is None else ()), start + size]
    for begin, end in pairwise(cuts):
        yield replace(one, physical_offset=begin, size=end - begin)


def damage_at(damages: Sequence[Range], offset: int) -> Range | None:
    """Return the range, of ascending ones apart from each other, that holds a physical offset."""
    number = bisect_right(damages, offset, key=lambda damage: damage[0]) - 1
    return damages[number] if number >= 0 and offset < damages[number][1] else None


def _across(gap: Gap, damages: Sequence[Range]) -> Iterator[Range]:
    """Yield the damages between the two records of a gap."""
    yield from _between(damages, gap.after, gap.before)


def _between(damages: Sequence[Range], after: int, before: int) -> Iterator[Range]:
    """Yield the ranges that begin between two physical offsets."""
    for number in range(bisect_left(damages, (after, 0)), len(damages)):
        if damages[number][0] >= before:
            return
        yield damages[number]
