"""The parts of one record, found by their places: fifty times as fast as the declaration, for many records that no scan reads."""

from __future__ import annotations

import struct
from functools import cache
from typing import NamedTuple

from rmqstore.formats.layout import Field, fixed_layout, struct_format
from rmqstore.formats.message import (
    MESSAGE_MAGIC_V1,
    MESSAGE_MAGIC_V2,
    MIN_RECORD_SIZE_V1,
    RECORD_PREFIX,
    record_head,
    topic_length_width,
)
from rmqstore.formats.sysflag import SysFlag

_PREFIX = struct.Struct(struct_format(RECORD_PREFIX))
_NAMES = list(fixed_layout(RECORD_PREFIX))
_WANTED = ("total_size", "magic_code", "body_crc", "queue_id", "queue_offset", "physical_offset", "sys_flag")
_PLACES = [_NAMES.index(name) for name in _WANTED]
_PROPERTIES_LENGTH = 2


class Parts(NamedTuple):
    """Fields of a record as they are stored, its STORETIMESTAMP (ms), and its three parts of variable length."""

    body_crc: int
    queue_id: int
    queue_offset: int
    physical_offset: int
    store_timestamp: int
    body: bytes
    topic: bytes
    properties: bytes


def parts_of(data: bytes) -> Parts | None:
    """Return the parts of a record, None where the lengths in it do not give exactly `data`. No checksum is verified."""
    if len(data) < MIN_RECORD_SIZE_V1:
        return None
    values = _PREFIX.unpack_from(data)
    size, magic, body_crc, queue_id, queue_offset, physical_offset, flag = (values[place] for place in _PLACES)
    if size != len(data) or magic not in (MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2):
        return None
    time, length = _after_prefix(bool(flag & SysFlag.BORN_HOST_V6), bool(flag & SysFlag.STORE_HOST_V6))
    body_end = length.end + int.from_bytes(data[length.offset : length.end], "big", signed=True)
    topic_start = body_end + topic_length_width(magic)
    if not length.end <= body_end <= topic_start <= size:
        return None
    topic_end = topic_start + int.from_bytes(data[body_end:topic_start], "big", signed=True)
    start = topic_end + _PROPERTIES_LENGTH
    if not topic_start <= topic_end <= start <= size or int.from_bytes(data[topic_end:start], "big", signed=True) != size - start:
        return None
    stored = int.from_bytes(data[time.offset : time.end], "big", signed=True)
    body, topic = data[length.end : body_end], data[topic_start:topic_end]
    return Parts(body_crc, queue_id, queue_offset, physical_offset, stored, body, topic, data[start:])


@cache
def _after_prefix(born_v6: bool, store_v6: bool) -> tuple[Field, Field]:
    """Return the places of STORETIMESTAMP and BODYLEN, which depend on the hosts."""
    layout = fixed_layout(record_head(born_v6, store_v6))
    return layout["store_timestamp"], layout["body_length"]
