"""Decoding of one record of the commit log, with the structural rules applied strictly and an exact reason for a failure.

Source: fact sheet commitlog §2, §2.9 (tagsCode), §3. The declaration is in `message.py`. V1 in all releases, V2 since 5.1.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from rmqstore.formats import properties as names
from rmqstore.formats.crc import body_crc
from rmqstore.formats.delay import deliver_timestamp
from rmqstore.formats.javahash import decode_java_utf8, java_hash, parse_java_integer
from rmqstore.formats.layout import Field, fixed_layout
from rmqstore.formats.message import (
    BLANK,
    BLANK_MAGIC,
    BLANK_SIZE,
    MESSAGE,
    MESSAGE_MAGIC_V1,
    MESSAGE_MAGIC_V2,
    MIN_RECORD_SIZE_V1,
    RECORD_PREFIX,
    record_head,
    smallest_record,
    topic_length_width,
)
from rmqstore.formats.message_id import encode_offset_message_id
from rmqstore.formats.naming import SCHEDULE_TOPIC
from rmqstore.formats.properties import parse_properties
from rmqstore.formats.sysflag import SysFlag, TransactionType, transaction_type

__all__ = [
    "BLANK",
    "BLANK_MAGIC",
    "BLANK_SIZE",
    "MESSAGE",
    "MESSAGE_MAGIC_V1",
    "MESSAGE_MAGIC_V2",
    "MIN_RECORD_SIZE_V1",
    "RECORD_PREFIX",
    "Record",
    "RecordError",
    "StopReason",
    "SysFlag",
    "decode_record",
    "record_head",
    "smallest_record",
    "tags_code",
]

Buffer = bytes | bytearray | memoryview


class StopReason(StrEnum):
    """Reasons why no record can be decoded at a position, in the order of the checks."""

    TRUNCATED = "truncated"
    """Fewer than 8 bytes are left."""
    BLANK = "blank"
    """A BLANK: the rest of the file holds no records. Not an error."""
    END_OF_DATA = "end_of_data"
    """TOTALSIZE and MAGICCODE are zero: nothing was written here."""
    ILLEGAL_MAGIC = "illegal_magic"
    """MAGICCODE is none that a broker writes."""
    SIZE_TOO_SMALL = "size_too_small"
    """TOTALSIZE is below the smallest record of that magic and those hosts."""
    SIZE_BEYOND_FILE = "size_beyond_file"
    """The record would end after the end of the file."""
    BODY_LENGTH = "body_length"
    """BODYLEN is negative or leaves no room for the fields after the body."""
    TOPIC_LENGTH = "topic_length"
    """TOPICLEN is negative or leaves no room for the fields after the topic."""
    PROPERTIES_LENGTH = "properties_length"
    """PROPLEN is negative or reaches beyond the record."""
    SIZE_MISMATCH = "size_mismatch"
    """TOTALSIZE is larger than the sum of the fields."""


class RecordError(ValueError):
    """There is no record at this position."""

    def __init__(self, reason: StopReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Record:
    """A decoded record. Times are ms since epoch, offsets and sizes bytes, hosts text (`10.9.8.7:10911`, `[fe80::1]:10911`)."""

    physical_offset: int
    size: int
    magic: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    sys_flag: int
    born_timestamp: int
    born_host: str
    store_timestamp: int
    store_host: str
    reconsume_times: int
    prepared_transaction_offset: int
    body_length: int
    body: bytes
    topic: str
    properties: dict[str, str]
    properties_length: int

    @property
    def body_crc_matches(self) -> bool:
        """Return whether BODYCRC is that of the stored body; brokers do not check it for an empty body."""
        return not self.body or self.body_crc == body_crc(self.body)

    @property
    def tags(self) -> str | None:
        return self.properties.get(names.TAGS)

    @property
    def keys(self) -> str | None:
        """Return the keys as they are stored, separated by spaces."""
        return self.properties.get(names.KEYS)

    @property
    def unique_key(self) -> str | None:
        return self.properties.get(names.UNIQ_KEY)

    @property
    def offset_message_id(self) -> str:
        return encode_offset_message_id(self.store_host, self.physical_offset)

    @property
    def is_inner_batch(self) -> bool:
        """Return whether the record counts as several messages in its queue: it has both INNER_NUM and INNER_BASE."""
        return names.INNER_NUM in self.properties and names.INNER_BASE in self.properties

    @property
    def transaction_type(self) -> TransactionType:
        return transaction_type(self.sys_flag)

    def tags_code(self, delay_levels: Sequence[int]) -> int | None:
        """Return the tagsCode that a broker with these delay levels writes to the queue; None if it refuses the record for its `DELAY`."""
        return tags_code(self.topic, self.properties, self.store_timestamp, delay_levels)


def tags_code(topic: str, properties: dict[str, str], store_timestamp: int, delay_levels: Sequence[int]) -> int | None:
    """Return the tagsCode: hash of TAGS, in the schedule topic deliver time (ms); None for a `DELAY` there that is no integer.

    `delay_levels`: ms per level; empty for 4.9.2–4.9.8 during recovery, where the hash is written in the schedule topic too.
    """
    delay = properties.get(names.DELAY)
    if topic == SCHEDULE_TOPIC and delay is not None:
        level = parse_java_integer(delay)
        if level is None:
            return None
        deliver = deliver_timestamp(store_timestamp, level, delay_levels)
        if deliver is not None:
            return deliver
    tags = properties.get(names.TAGS)
    return java_hash(tags) if tags else 0


_PREFIX = fixed_layout(RECORD_PREFIX)


@cache
def _body_length_field(v6_hosts: tuple[bool, bool]) -> Field:
    return fixed_layout(record_head(*v6_hosts))["body_length"]


def _v6_hosts(sys_flag: int) -> tuple[bool, bool]:
    return bool(sys_flag & SysFlag.BORN_HOST_V6), bool(sys_flag & SysFlag.STORE_HOST_V6)


def _integer(data: Buffer, offset: int, width: int, signed: bool = True) -> int:
    return int.from_bytes(data[offset : offset + width], "big", signed=signed)


def _check(data: Buffer, position: int) -> int:
    """Return the total size of the record at `position`; raises RecordError if the structural rules do not hold."""
    left = len(data) - position
    if left < BLANK_SIZE:
        raise RecordError(StopReason.TRUNCATED, f"{left} bytes are left")

    def read(field: Field, signed: bool = True) -> int:
        return _integer(data, position + field.offset, field.width, signed)

    size, magic = read(_PREFIX["total_size"]), read(_PREFIX["magic_code"], signed=False)
    if magic == BLANK_MAGIC:
        raise RecordError(StopReason.BLANK, f"BLANK of {size} bytes")
    if size == 0 and magic == 0:
        raise RecordError(StopReason.END_OF_DATA, "nothing was written here")
    if magic not in (MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2):
        raise RecordError(StopReason.ILLEGAL_MAGIC, f"MAGICCODE is {magic:08X}")
    # Without SYSFLAG the hosts are taken as IPv4; such a record is too small or too long in any case.
    sys_flag = read(_PREFIX["sys_flag"]) if left >= _PREFIX["sys_flag"].end else 0
    smallest = smallest_record(magic, sys_flag)
    if size < smallest:
        raise RecordError(StopReason.SIZE_TOO_SMALL, f"TOTALSIZE is {size}, the smallest record has {smallest} bytes")
    if size > left:
        raise RecordError(StopReason.SIZE_BEYOND_FILE, f"TOTALSIZE is {size}, {left} bytes are left")

    room = size - smallest
    body_field = _body_length_field(_v6_hosts(sys_flag))
    body_length = read(body_field)
    if not 0 <= body_length <= room:
        raise RecordError(StopReason.BODY_LENGTH, f"BODYLEN is {body_length}, there is room for {room} bytes")
    room -= body_length
    topic_field = Field(body_field.end + body_length, topic_length_width(magic))
    topic_length = read(topic_field)
    if not 0 <= topic_length <= room:
        raise RecordError(StopReason.TOPIC_LENGTH, f"TOPICLEN is {topic_length}, there is room for {room} bytes")
    room -= topic_length
    properties_length = read(Field(topic_field.end + topic_length, 2))
    if not 0 <= properties_length <= room:
        raise RecordError(StopReason.PROPERTIES_LENGTH, f"PROPLEN is {properties_length}, there is room for {room} bytes")
    if properties_length != room:
        raise RecordError(StopReason.SIZE_MISMATCH, f"TOTALSIZE is {size}, the fields have {size - room + properties_length} bytes")
    return size


def decode_record(buf: Buffer, position: int = 0) -> Record:
    """Decode the record at `position` of `buf`, whose end is the end of the file; raises RecordError if there is none.

    Neither checksums nor PHYSICALOFFSET = position are verified.
    """
    size = _check(buf, position)
    parsed = MESSAGE.parse(bytes(buf[position : position + size]))
    return Record(
        physical_offset=parsed.physical_offset,
        size=parsed.total_size,
        magic=parsed.magic_code,
        body_crc=parsed.body_crc,
        queue_id=parsed.queue_id,
        flag=parsed.flag,
        queue_offset=parsed.queue_offset,
        sys_flag=parsed.sys_flag,
        born_timestamp=parsed.born_timestamp,
        born_host=parsed.born_host,
        store_timestamp=parsed.store_timestamp,
        store_host=parsed.store_host,
        reconsume_times=parsed.reconsume_times,
        prepared_transaction_offset=parsed.prepared_transaction_offset,
        body_length=parsed.body_length,
        body=parsed.body,
        topic=decode_java_utf8(parsed.topic),
        properties=parse_properties(parsed.properties),
        properties_length=parsed.properties_length,
    )
