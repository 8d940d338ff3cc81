"""Filler records: they replace lost records, so that brokers read over the hole and everything after it keeps its offset.

A filler is a valid record of exactly the length it has to fill. Its type is rollback, so no dispatcher makes a queue unit or an index entry
of it (fact sheets commit log §9.6, queues §1; tried on 4.9.8 to 5.5.1). Its body is zeros: the lost bytes are not presented as a message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from rmqstore.formats.crc import body_crc, property_crc
from rmqstore.formats.host import parse_host
from rmqstore.formats.message import BLANK, BLANK_MAGIC, MESSAGE, MESSAGE_MAGIC_V1, record_head, smallest_record
from rmqstore.formats.naming import FILLER_TOPIC, PLACEHOLDER, SCHEDULE_TOPIC, SYSTEM_PREFIX
from rmqstore.formats.properties import CRC_BLOCK_LENGTH, build_properties, property_crc_block
from rmqstore.formats.sysflag import SysFlag
from rmqstore.repair.log.future import LostUnit, Patch

PLACEHOLDER_PROPERTIES = {PLACEHOLDER: "lost"}
"""Mark of a placeholder for consumers that subscribe to all; without a tag, no consumer that subscribes by tag gets it."""
LARGEST_FILLER = 4 << 20
"""Most bytes of one filler: the record check of the brokers allocates TOTALSIZE, and messages have up to 4 MiB by default."""

_V1_TOPIC_LIMIT = 127
_ANY_HOST = "0.0.0.0:0"
# Topics that the broker itself consumes: a placeholder there would be taken for work to do.
_SYSTEM_TOPICS = (SCHEDULE_TOPIC, SYSTEM_PREFIX, SYSTEM_PREFIX.upper())


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Values that a filler takes over from a record next to it, so that search by time and checks of neighbours accept it."""

    store_timestamp: int = 1
    store_host: str = _ANY_HOST


@dataclass(frozen=True, slots=True)
class LostRecord:
    """A lost record whose place is known: physical offset and size in bytes, and the queue position, where that is known as well."""

    start: int
    size: int
    topic: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None

    @property
    def end(self) -> int:
        """Physical offset after the record."""
        return self.start + self.size

    @property
    def place(self) -> LostUnit | None:
        """The queue unit of the record, None where topic, queue or queue offset are not known."""
        if self.topic is None or self.queue_id is None or self.queue_offset is None:
            return None
        return LostUnit(self.topic, self.queue_id, self.queue_offset, self.start, self.size)


@dataclass(frozen=True, slots=True)
class Style:
    """The form of fillers: the largest one in bytes, with property CRC or without, and whether known messages get placeholders."""

    largest: int = LARGEST_FILLER
    property_crc: bool = False
    placeholders: bool = False

    @property
    def smallest(self) -> int:
        """Bytes of the smallest filler; its topic is cut to one character."""
        return smallest_record(MESSAGE_MAGIC_V1, 0) + 1 + (CRC_BLOCK_LENGTH if self.property_crc else 0)


@dataclass(frozen=True, slots=True)
class Segment:
    """Bytes [start, end) of a hole that become one filler; `lost` is the record that was there, if its place is known."""

    start: int
    end: int
    lost: LostRecord | None = None

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self.end - self.start


def lay_out(start: int, end: int, lost: Sequence[LostRecord], style: Style) -> list[Segment]:
    """Return the fillers of a hole of at least `style.smallest` bytes: one for each lost record whose place is known, others between them.

    A rest that is too small for a filler is added to the one before it, or, at the start, to the one after it.
    """
    pieces: list[Segment] = []
    reached = start
    for record in sorted(lost, key=lambda record: (record.start, record.size)):
        if record.start < reached or record.end > end or record.size < style.smallest:
            continue
        pieces += _between(reached, record.start)
        pieces.append(Segment(record.start, record.end, record))
        reached = record.end
    pieces += _between(reached, end)
    return [part for piece in _joined(pieces, style.smallest) for part in _split(piece, style)]


def _between(start: int, end: int) -> list[Segment]:
    return [Segment(start, end)] if end > start else []


def _joined(pieces: list[Segment], smallest: int) -> list[Segment]:
    """Return the pieces, those that are too small joined to a neighbour."""
    result: list[Segment] = []
    begin: int | None = None
    for piece in pieces:
        start = piece.start if begin is None else begin
        begin = None
        if piece.end - start >= smallest:
            result.append(Segment(start, piece.end, piece.lost if start == piece.start else None))
        elif result:
            result[-1] = Segment(result[-1].start, piece.end, result[-1].lost)
        else:
            begin = start
    return result


def _split(piece: Segment, style: Style) -> Iterator[Segment]:
    """Yield a piece in parts that are small enough; the last one is not too small."""
    start = piece.start
    while piece.end - start > style.largest and piece.lost is None:
        size = min(style.largest, piece.end - start - style.smallest)
        yield Segment(start, start + size)
        start += size
    yield Segment(start, piece.end, piece.lost)


def placeholder_size(lost: LostRecord, style: Style) -> int:
    """Return the bytes of the smallest placeholder for a message, 0 where none can represent it."""
    topic, properties = _text_of(lost, 0)
    fits = style.placeholders and _can_be_named(lost) and len(topic) <= _V1_TOPIC_LIMIT
    return style.smallest - 1 + len(topic) + len(properties) if fits else 0


def is_placeholder(segment: Segment, style: Style) -> bool:
    """Return whether the filler of a segment represents its message in the queue."""
    return style.placeholders and segment.lost is not None and _can_be_named(segment.lost) and _fits(segment, style, segment.lost)


def blank(start: int, file_end: int) -> Patch:
    """Return the BLANK that closes a file from `start` on; `file_end` is the end of the file, at least 8 bytes later."""
    return Patch.write(start, bytes(BLANK.build({"total_size": file_end - start, "magic_code": BLANK_MAGIC})))


def _can_be_named(lost: LostRecord) -> bool:
    return lost.place is not None and not lost.place.topic.startswith(_SYSTEM_TOPICS)


def _text_of(lost: LostRecord | None, room: int) -> tuple[bytes, bytes]:
    """Return (topic, properties without the CRC) of a filler that has `room` bytes for both."""
    if lost is not None:
        return str(lost.topic).encode("utf-8", "surrogateescape"), build_properties(PLACEHOLDER_PROPERTIES)
    return FILLER_TOPIC.encode()[: max(1, room)], b""


def _room(segment: Segment, style: Style, v6: bool) -> int:
    """Return the bytes of a filler for body, topic and properties."""
    fixed = smallest_record(MESSAGE_MAGIC_V1, SysFlag.STORE_HOST_V6 if v6 else 0)
    return segment.size - fixed - (CRC_BLOCK_LENGTH if style.property_crc else 0)


def _fits(segment: Segment, style: Style, lost: LostRecord) -> bool:
    topic, properties = _text_of(lost, 0)
    return len(topic) <= _V1_TOPIC_LIMIT and len(topic) + len(properties) <= _room(segment, style, False)


def filler(segment: Segment, neighbour: Neighbour, style: Style) -> Iterator[Patch]:
    """Yield the bytes of one filler: head, zeros, and topic with properties after them."""
    lost = segment.lost if is_placeholder(segment, style) else None
    host = neighbour.store_host
    if "[" in host and (lost is not None or _room(segment, style, True) < 1):
        host = _ANY_HOST
    v6 = "[" in host
    topic, properties = _text_of(lost, _room(segment, style, v6))
    body_length = _room(segment, style, v6) - len(topic) - len(properties)
    fields = {
        "magic_code": MESSAGE_MAGIC_V1,
        "body_crc": _crc_of_zeros(body_length),
        "queue_id": 0 if lost is None else lost.queue_id,
        "flag": 0,
        "queue_offset": 0 if lost is None else lost.queue_offset,
        "physical_offset": segment.start,
        "sys_flag": (SysFlag.TRANSACTION_ROLLBACK if lost is None else 0) | (SysFlag.STORE_HOST_V6 if v6 else 0),
        "born_timestamp": neighbour.store_timestamp,
        "store_timestamp": neighbour.store_timestamp,
        "reconsume_times": 0,
        "prepared_transaction_offset": 0,
    }
    block = properties + (property_crc_block(0) if style.property_crc else b"")
    short = MESSAGE.build({**fields, "born_host": _ANY_HOST, "store_host": host, "body": b"", "topic": topic, "properties": block})
    layout = record_head(store_v6=v6)
    hosts = {
        name: dict(zip(("address", "port"), parse_host(text), strict=True))
        for name, text in (("born_host", _ANY_HOST), ("store_host", host))
    }
    head = layout.build({**fields, **hosts, "total_size": segment.size, "body_length": body_length})
    tail = short[layout.sizeof() :]
    if style.property_crc:
        crc = property_crc(head + bytes(body_length) + tail[:-CRC_BLOCK_LENGTH])
        tail = tail[:-CRC_BLOCK_LENGTH] + property_crc_block(crc)
    behind = segment.end - len(tail)
    yield Patch.write(segment.start, head)
    if body_length:
        yield Patch(segment.start + len(head), behind)
    yield Patch.write(behind, tail)


@cache
def _crc_of_zeros(length: int) -> int:
    return body_crc(bytes(length))
