"""Filled gaps: holes of the log with the records known in them, made large enough for a filler, and then filled."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice

from rmqstore.errors import RefusedError
from rmqstore.formats.message import BLANK_SIZE
from rmqstore.formats.naming import LMQ_PREFIX
from rmqstore.formats.record import Record
from rmqstore.repair.log.edits import Edit
from rmqstore.repair.log.fillers import LostRecord, Neighbour, Segment, Style, blank, filler, is_placeholder, lay_out, placeholder_size
from rmqstore.repair.log.future import LostUnit
from rmqstore.repair.log.gaps import Gap
from rmqstore.repair.plan.model import LostMessage
from rmqstore.store.mapped import MappedFile
from rmqstore.verify.queues.judgement import union

ReadRecord = Callable[[int], Record | None]
"""A function that returns the record that begins at a physical offset, None where there is none."""


@dataclass(frozen=True, slots=True)
class FilledGap:
    """A hole: bytes [start, end) of `file` (of full length), its reason, and the records that are known to have been there.

    `closes`: nothing after it in the file is a record, so a BLANK ends it; `new_file`: the file is a new one, and fillers cost nothing;
    `placed`: records whose queue offsets are known, and whose placeholders are put at any position between the known ones.
    """

    file: MappedFile
    start: int
    end: int
    why: str
    code: str
    known: tuple[LostRecord, ...] = ()
    closes: bool = False
    new_file: bool = False
    placed: tuple[LostRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class Filled:
    """The result of filling gaps: edits, lost messages, and the ranges that hold no message any more.

    `closed`: ranges at the ends of files that no evidence covers; there may have been only a BLANK.
    """

    edits: tuple[Edit, ...]
    lost: tuple[LostMessage, ...]
    damages: tuple[tuple[int, int], ...]
    closed: tuple[LostMessage, ...]


def witnesses(units: Sequence[LostUnit], start: int, end: int) -> tuple[LostRecord, ...]:
    """Return the records that queue units, ascending by position, name in [start, end); of several queues the one not of %LMQ%."""
    low = bisect_left(units, start, key=lambda unit: unit.position)
    high = bisect_left(units, end, key=lambda unit: unit.position)
    found = []
    for _, group in groupby(units[low:high], key=lambda unit: unit.position):
        owner = min(group, key=lambda unit: unit.topic.startswith(LMQ_PREFIX))
        found.append(LostRecord(owner.position, owner.size, owner.topic, owner.queue_id, owner.queue_offset))
    return tuple(found)


def widened(plugs: Sequence[FilledGap], read: ReadRecord, style: Style) -> tuple[list[FilledGap], list[LostMessage]]:
    """Return the gaps by offset, each large enough: those that touch are joined if one is too small or a lost record is in both.

    A hole that is too small for a filler alone is extended by the next record.

    The messages that are lost only for that are returned as well. Raises RefusedError where a hole is too small even for a BLANK.
    """
    result: list[FilledGap] = []
    sacrificed: list[LostMessage] = []
    for plug in sorted(plugs, key=lambda plug: plug.start):
        before = result[-1] if result else None
        if before is not None and plug.end <= before.end:
            continue
        touches = before is not None and before.end == plug.start and before.file == plug.file
        in_both = before is not None and any(record.end > before.end for record in before.known)
        if before is not None and touches and (in_both or _too_small(before, style) or _too_small(plug, style)):
            plug = replace(plug, start=result.pop().start, known=(*before.known, *plug.known))
        while _too_small(plug, style) and not _meets(plugs, plug.end):
            record = read(plug.end)
            if record is None:
                plug = replace(plug, end=plug.file.end, closes=True)
                continue
            sacrificed.append(lost_message(record, "the hole before it is too small for a filler"))
            plug = replace(plug, end=plug.end + record.size, known=(*plug.known, known_of(record)))
        if plug.closes and plug.end - plug.start < BLANK_SIZE:
            raise RefusedError(
                f"The {plug.end - plug.start} bytes at {plug.start} are too few to close {plug.file.path.name}.",
                "Cut the log before them with `rmqstore truncate`, or restore the file from a replica.",
            )
        result.append(plug)
    return result, sacrificed


def _too_small(plug: FilledGap, style: Style) -> bool:
    return not plug.closes and plug.end - plug.start < style.smallest


def _meets(plugs: Sequence[FilledGap], offset: int) -> bool:
    return any(plug.start == offset for plug in plugs)


def known_of(record: Record) -> LostRecord:
    """Return a record that can be read, as one that is lost."""
    return LostRecord(record.physical_offset, record.size, record.topic, record.queue_id, record.queue_offset)


def lost_message(record: Record, why: str) -> LostMessage:
    """Return a record that can be read, as a lost message."""
    return LostMessage(record.topic, record.queue_id, record.queue_offset, record.physical_offset, record.size, why)


def with_placeholders(plugs: Sequence[FilledGap], gaps: Sequence[Gap], style: Style) -> list[FilledGap]:
    """Return gaps that `widened` made with placeholders for queue offsets that the log leaves out across them, as far as there is room.

    Queues that a broker builds from the log in RocksDB have no entries for queue offsets that the log leaves out, and it does not serve
    the messages before such a gap (seen with 5.2.0 and 5.3.3).
    """
    starts = [plug.start for plug in plugs]
    known = {(record.topic, record.queue_id, record.queue_offset) for plug in plugs for record in plug.known}
    reached = [max((record.end for record in plug.known), default=plug.start) for plug in plugs]
    placed: dict[int, list[LostRecord]] = defaultdict(list)
    for gap in sorted(gaps, key=lambda gap: gap.before):
        size = placeholder_size(LostRecord(0, 0, *gap.key, gap.start), style)
        across = range(bisect_left(starts, gap.after), bisect_left(starts, gap.before))
        room = sum(plugs[number].end - plugs[number].start for number in across) // style.smallest
        offsets = (offset for offset in range(gap.start, gap.end) if (*gap.key, offset) not in known)
        for number in across if size and gap.end - gap.start <= room else ():
            for queue_offset in islice(offsets, _places(plugs[number], reached[number], size, style)):
                placed[number].append(LostRecord(reached[number], size, *gap.key, queue_offset))
                reached[number] += size
    return [replace(plug, placed=tuple(placed[number])) if number in placed else plug for number, plug in enumerate(plugs)]


def _places(plug: FilledGap, start: int, size: int, style: Style) -> int:
    """Return how many placeholders of a size there is room for in a gap from `start` on: a rest has to be large enough for a filler."""
    room = plug.end - start - (BLANK_SIZE if plug.closes else style.smallest)
    return max(0, room // size)


def fill(plugs: Sequence[FilledGap], read: ReadRecord, last: Neighbour, style: Style) -> Filled:
    """Return the fillers of gaps that `widened` made; `last`: the values that fillers after all records take over."""
    edits: list[Edit] = []
    lost: list[LostMessage] = []
    damages: list[tuple[int, int]] = []
    closed: list[LostMessage] = []
    neighbour = last
    following: FilledGap | None = None
    for plug in reversed(plugs):
        neighbour = _neighbour(plug, following, read) or neighbour
        following = plug
        for segment in _segments(plug, style):
            what = "a placeholder for a lost message" if is_placeholder(segment, style) else "a filler for bytes that cannot be read"
            reason = f"{what}: {plug.why}"
            edits += [Edit(patch, reason, plug.code) for patch in filler(segment, neighbour, style)]
        damages.append((plug.start, plug.end))
        closing = _closing(plug, style)
        if closing is not None:
            edits.append(Edit(blank(closing, plug.end), "a BLANK that closes the file", plug.code))
        *known, rest = _messages(plug, style)
        lost += known
        if (rest.size or 0) >= style.smallest:
            # A file of which nothing is known held messages: a broker begins the next one when it is full.
            (closed if plug.closes and rest.physical_offset != plug.file.start else lost).append(rest)
    return Filled(tuple(edits), tuple(lost), tuple(union(damages)), tuple(closed))


def _neighbour(plug: FilledGap, following: FilledGap | None, read: ReadRecord) -> Neighbour | None:
    """Return the values that the record after a gap gives to fillers; None where the next gap follows at once."""
    for offset in (plug.end, plug.file.end):
        if following is not None and following.start == offset:
            return None
        record = read(offset)
        if record is not None:
            return Neighbour(record.store_timestamp, record.store_host)
    return None


def _filled_up_to(plug: FilledGap, style: Style) -> int:
    """Return where the fillers of a gap end and its BLANK begins: after the last record that is known, unless fillers cost nothing.

    A file of which nothing is known gets one, too: verification and brokers treat a file without any record as damaged.
    """
    if not plug.closes:
        return plug.end
    limit = plug.end - BLANK_SIZE
    if plug.new_file or (plug.start == plug.file.start and not plug.known and not plug.placed):
        return limit if limit - plug.start >= style.smallest else plug.start
    records = (*plug.known, *plug.placed)
    return max((record.end for record in records if record.size >= style.smallest and record.end <= limit), default=plug.start)


def _segments(plug: FilledGap, style: Style) -> list[Segment]:
    end = _filled_up_to(plug, style)
    return lay_out(plug.start, end, (*plug.known, *plug.placed), style) if end > plug.start else []


def _closing(plug: FilledGap, style: Style) -> int | None:
    return _filled_up_to(plug, style) if plug.closes else None


def _messages(plug: FilledGap, style: Style) -> Iterator[LostMessage]:
    """Yield the messages of a gap: those that are known, and one for each range between them without evidence; last the rest of it."""
    reached = plug.start
    for record in sorted(plug.known, key=lambda record: record.start):
        if record.start >= reached + style.smallest:
            yield LostMessage(physical_offset=reached, size=record.start - reached, why=plug.why)
        if record.start >= reached:
            yield LostMessage(record.topic, record.queue_id, record.queue_offset, record.start, record.size, plug.why)
            reached = record.end
    yield LostMessage(physical_offset=reached, size=max(0, plug.end - reached), why=plug.why)
