"""Correction of a single field of a record in place, where checksum, lengths or a queue unit leave no other value.

Pure: bytes and witnesses in, a change out. Uncertain values are left alone, and a checksum over doubtful bytes is never recomputed.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rmqstore.formats.layout import fixed_layout
from rmqstore.formats.message import MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2, RECORD_PREFIX, record_head, smallest_record, topic_length_width
from rmqstore.formats.naming import is_legal_topic
from rmqstore.formats.properties import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR, property_crc_matches
from rmqstore.formats.record import Record, RecordError, decode_record
from rmqstore.formats.sysflag import KNOWN_SYS_FLAGS, UNLISTED, CompressionType, SysFlag, TransactionType, transaction_type
from rmqstore.repair.log.future import LostUnit

_PREFIX = fixed_layout(RECORD_PREFIX)
_MAGICS = (MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2)
_HOST_BITS = SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6
_PROPERTIES_WIDTH = 2
_LONGEST_TOPIC = 255
_CRC_MASK = 0x7FFF_FFFF
_LZ4, _ZSTD, _DEFLATE = b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd", 8  # first bytes of compressed streams
_COMPRESSION_SHIFT = 8
_TRIED = 4096  # bytes of a stream that are decompressed to see whether it is one
_NAME_END, _PROPERTY_END = NAME_VALUE_SEPARATOR.encode(), PROPERTY_SEPARATOR.encode()
_LEFT_OVER = re.compile(rb"(INNER_MULTI_QUEUE_OFFSET\x01[0-9,]*\x02).*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Correction:
    """The change: bytes `new` at `offset` inside the record, and the field that it corrects, by its RocketMQ name."""

    offset: int
    new: bytes
    field: str

    def applied(self, record: bytes) -> bytes:
        """Return the record with the field corrected."""
        return record[: self.offset] + self.new + record[self.offset + len(self.new) :]


# Records of invalid structure


def of_structure(
    data: bytes, position: int, units: Sequence[LostUnit] = (), unqueued: Callable[[], TransactionType | None] = lambda: None
) -> Correction | None:
    """Return the one change that makes `data`, a hole at physical offset `position`, one record of that length, else None.

    The proof: the body has the CRC that the record stores, PHYSICALOFFSET is the position, all lengths add up, topic and properties look
    like what brokers write. Where several changes pass, one of the queue `units` that point at the record decides by topic and queue.
    A TOTALSIZE that a unit has as well is valid: zeros over the end of a record are no shorter record without properties.
    `unqueued` returns the type of a record that no queue holds although later ones are held, None for one that belongs in its queue.
    """
    found = {corrected for corrected in _changes(data, unqueued) if is_proven(corrected.applied(data), position)}
    if len(found) > 1:
        found = {corrected for corrected in found if _witnessed(decode_record(corrected.applied(data)), units)}
    change = found.pop() if len(found) == 1 else None
    if (
        change is not None
        and change.field == "TOTALSIZE"
        and _integer(data, change.offset, len(change.new)) in {unit.size for unit in units}
    ):
        return None
    return change


def _witnessed(record: Record, units: Sequence[LostUnit]) -> bool:
    place = (record.topic, record.queue_id, record.queue_offset, record.size)
    return any((unit.topic, unit.queue_id, unit.queue_offset, unit.size) == place for unit in units)


def sizes_at(data: bytes) -> list[int]:
    """Return the sizes that a damaged record at the start of `data` may have: its TOTALSIZE, and the sum of its lengths."""
    if len(data) < smallest_record(MESSAGE_MAGIC_V1, 0):
        return []
    found = {_integer(data, _PREFIX["total_size"].offset, 4)}
    for magic in _MAGICS:
        ends = _ends(data, magic)
        if ends is not None:
            found.add(ends[2])
    return sorted(size for size in found if smallest_record(MESSAGE_MAGIC_V1, 0) <= size <= len(data))


def is_proven(record: bytes, position: int) -> bool:
    """Return whether bytes are one record that belongs at physical offset `position`: see `of_structure` for the proof."""
    try:
        decoded = decode_record(record)
    except RecordError:
        return False
    if decoded.size != len(record) or decoded.physical_offset != position or decoded.body_crc != zlib.crc32(decoded.body) & _CRC_MASK:
        return False
    if not is_legal_topic(decoded.topic.encode("utf-8", "replace")) or not _are_written(record[len(record) - decoded.properties_length :]):
        return False
    return property_crc_matches(record, decoded.properties) is not False


def _are_written(block: bytes) -> bool:
    """Return whether a property block looks written by a broker, and not like zeros or the bytes of something else.

    Brokers decode what clients send, so that what they write is UTF-8.
    Brokers with %LMQ% queues leave bytes of an earlier message after INNER_MULTI_QUEUE_OFFSET, which they write last (seen in 5.2.0).
    """
    block = _LEFT_OVER.sub(rb"\1", block, count=1)
    pieces = block.removesuffix(_PROPERTY_END).split(_PROPERTY_END) if block else []
    try:
        block.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return b"\0" not in block and all(piece.find(_NAME_END) > 0 for piece in pieces)


def _changes(data: bytes, unqueued: Callable[[], TransactionType | None]) -> Iterator[Correction]:
    """Yield each change of a single field that may be wrong, to the value that the other fields demand."""
    if len(data) < smallest_record(MESSAGE_MAGIC_V1, 0):
        return
    for magic in _MAGICS:
        yield _header("magic_code", magic, "MAGICCODE")
    yield _header("total_size", len(data), "TOTALSIZE")
    sys_flag = _integer(data, _PREFIX["sys_flag"].offset, 4)
    if sys_flag & ~KNOWN_SYS_FLAGS:
        yield from _sys_flags(data, unqueued)
    else:
        for bits in (SysFlag.BORN_HOST_V6, SysFlag.STORE_HOST_V6, _HOST_BITS):
            yield _header("sys_flag", sys_flag ^ bits, "SYSFLAG")
    magic = _integer(data, _PREFIX["magic_code"].offset, 4) & 0xFFFF_FFFF
    if magic in _MAGICS:
        yield from _lengths(data, magic)


def _sys_flags(data: bytes, unqueued: Callable[[], TransactionType | None]) -> Iterator[Correction]:
    """Yield SYSFLAGs to replace one with bits that no release writes, of which no bit is trusted: one for each length of the hosts."""
    for hosts in (0, SysFlag.BORN_HOST_V6, SysFlag.STORE_HOST_V6, _HOST_BITS):
        change = _header("sys_flag", hosts, "SYSFLAG")
        try:
            record = decode_record(change.applied(data))
        except RecordError:
            continue
        if record.physical_offset >= 0:
            # Brokers write QUEUEOFFSET 0 into records that get no place in a queue.
            yield _header("sys_flag", _derived_sys_flag(record, unqueued() if record.queue_offset == 0 else None), "SYSFLAG")


def _derived_sys_flag(record: Record, unqueued: TransactionType | None) -> int:
    """Return SYSFLAG as the rest of a record demands it; of its present value only the lengths of the hosts count."""
    transaction: int = SysFlag.TRANSACTION_COMMIT if record.prepared_transaction_offset else 0
    transaction = transaction if unqueued is None else unqueued
    batch = SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP if record.is_inner_batch else 0
    return record.sys_flag & _HOST_BITS | transaction | batch | _compression_bits(record.body)


def _compression_bits(body: bytes) -> int:
    """Return the bits of SYSFLAG for the compression of a body, by its first bytes."""
    if body.startswith(_LZ4):
        return SysFlag.COMPRESSED | CompressionType.LZ4 << _COMPRESSION_SHIFT
    if body.startswith(_ZSTD):
        return SysFlag.COMPRESSED | CompressionType.ZSTD << _COMPRESSION_SHIFT
    if len(body) > 1 and body[0] & 0x0F == _DEFLATE and int.from_bytes(body[:2], "big") % 31 == 0:
        try:
            zlib.decompressobj().decompress(body, _TRIED)
        except zlib.error:
            return 0
        return int(SysFlag.COMPRESSED)
    return 0


def _lengths(data: bytes, magic: int) -> Iterator[Correction]:
    """Yield changes of one of the three lengths inside the record."""
    head, width = _head_size(data), topic_length_width(magic)
    for body in range(len(data) - head - width - _PROPERTIES_WIDTH + 1):
        topic = _integer(data, head + body, width)
        if topic >= 0 and _behind_properties(data, head + body + width + topic) == len(data):
            yield Correction(head - 4, body.to_bytes(4, "big"), "BODYLEN")
    body = _integer(data, head - 4, 4)
    topic_start = head + body + width
    if body < 0 or topic_start + _PROPERTIES_WIDTH > len(data):
        return
    for topic in range(min(_LONGEST_TOPIC, (1 << (8 * width - 1)) - 1) + 1):
        if _behind_properties(data, topic_start + topic) == len(data):
            yield Correction(topic_start - width, topic.to_bytes(width, "big"), "TOPICLEN")
    properties_at = topic_start + _integer(data, topic_start - width, width)
    length = len(data) - properties_at - _PROPERTIES_WIDTH
    if topic_start <= properties_at and 0 <= length < 1 << 15:
        yield Correction(properties_at, length.to_bytes(_PROPERTIES_WIDTH, "big"), "PROPLEN")


def _ends(data: bytes, magic: int) -> tuple[int, int, int] | None:
    """Return the ends of body, topic and properties by their lengths; None where one does not fit `data`."""
    head, width = _head_size(data), topic_length_width(magic)
    body = _integer(data, head - 4, 4)
    if body < 0 or head + body + width > len(data):
        return None
    topic = _integer(data, head + body, width)
    behind = _behind_properties(data, head + body + width + topic) if topic >= 0 else None
    return None if behind is None else (head + body, head + body + width + topic, behind)


def _behind_properties(data: bytes, at: int) -> int | None:
    """Return the end of the property block whose length is at `at`; None where that is outside of `data`."""
    if at + _PROPERTIES_WIDTH > len(data):
        return None
    length = _integer(data, at, _PROPERTIES_WIDTH)
    end = at + _PROPERTIES_WIDTH + length
    return end if length >= 0 and end <= len(data) else None


def _head_size(data: bytes) -> int:
    sys_flag = _integer(data, _PREFIX["sys_flag"].offset, 4)
    return int(record_head(bool(sys_flag & SysFlag.BORN_HOST_V6), bool(sys_flag & SysFlag.STORE_HOST_V6)).sizeof())


def _integer(data: bytes, offset: int, width: int) -> int:
    return int.from_bytes(data[offset : offset + width], "big", signed=True)


def _header(name: str, value: int, field: str) -> Correction:
    place = _PREFIX[name]
    return Correction(place.offset, (value % (1 << (8 * place.width))).to_bytes(place.width, "big"), field)


# Records of valid structure


def of_body_crc(record: Record) -> Correction | None:
    """Return the change of BODYCRC where only its top bit is set, which brokers clear, or of an empty body, which has 0."""
    true = zlib.crc32(record.body) & _CRC_MASK
    if record.body_crc != true and (not record.body or record.body_crc & _CRC_MASK == true):
        return _header("body_crc", true, "BODYCRC")
    return None


def of_physical_offset(position: int) -> Correction:
    """Return the change of PHYSICALOFFSET of a record that belongs where it is stored."""
    return _header("physical_offset", position, "PHYSICALOFFSET")


def of_sys_flag(record: Record, *, compressed: bool, queued: bool) -> Correction | None:
    """Return the change that takes compression (unless `compressed`) and a type that no queue holds (if `queued`) out of SYSFLAG.

    Prepared and rolled back records get no place in a queue (fact sheet queues §1). None where no flag is wrong.
    """
    value = record.sys_flag
    if not compressed and value & ~KNOWN_SYS_FLAGS:
        value = _derived_sys_flag(record, None)
    elif not compressed:
        value &= ~(SysFlag.COMPRESSED | SysFlag.COMPRESSION_TYPE_MASK)
    if queued and transaction_type(value) in UNLISTED:
        kind = TransactionType.COMMIT if record.prepared_transaction_offset else TransactionType.NONE
        value = (value & ~SysFlag.TRANSACTION_MASK) | kind
    return None if value == record.sys_flag else _header("sys_flag", value, "SYSFLAG")


def of_queue_offset(value: int) -> Correction:
    """Return the change of QUEUEOFFSET of a record whose neighbours leave no other."""
    return _header("queue_offset", value, "QUEUEOFFSET")


def of_queue_position(raw: bytes, record: Record, units: Sequence[LostUnit]) -> Correction | None:
    """Return the change of topic, QUEUEID or QUEUEOFFSET, where the one unit that points at the record differs in just that field."""
    witnesses = [unit for unit in units if unit.size == record.size]
    if len(witnesses) != 1:
        return None
    unit = witnesses[0]
    same = (unit.topic == record.topic, unit.queue_id == record.queue_id, unit.queue_offset == record.queue_offset)
    match same:
        case (True, False, True):
            return _header("queue_id", unit.queue_id, "QUEUEID")
        case (True, True, False):
            return of_queue_offset(unit.queue_offset)
        case (False, True, True):
            return _topic(raw, record, unit.topic)
    return None


def _topic(raw: bytes, record: Record, topic: str) -> Correction | None:
    """Return the change to another topic of the same length in bytes."""
    new = topic.encode("utf-8", "surrogateescape")
    ends = _ends(raw, record.magic)
    if ends is None or ends[1] - ends[0] - topic_length_width(record.magic) != len(new):
        return None
    return Correction(ends[1] - len(new), new, "TOPIC")
