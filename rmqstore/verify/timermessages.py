"""The message that a unit of the timer log names: one of the timer topic, of that size, for that real topic."""

from __future__ import annotations

import struct
from functools import cache

from rmqstore.errors import RmqstoreError
from rmqstore.formats.javahash import java_hash
from rmqstore.formats.layout import Field, fixed_layout, struct_format
from rmqstore.formats.naming import TIMER_TOPIC
from rmqstore.formats.properties import REAL_TOPIC, parse_properties
from rmqstore.formats.record import MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2, MIN_RECORD_SIZE_V1, RECORD_PREFIX, SysFlag, record_head
from rmqstore.store.window import read_at
from rmqstore.verify.context import MAX_RECORD_READ, Context

_PREFIX = struct.Struct(struct_format(RECORD_PREFIX))
_NAMES = list(fixed_layout(RECORD_PREFIX))
_TOPIC = TIMER_TOPIC.encode()
# TOPICLEN and the topic as the two versions of a record write them, with PROPLEN behind.
_TOPIC_FIELDS = {
    MESSAGE_MAGIC_V1: len(_TOPIC).to_bytes(1, "big") + _TOPIC,
    MESSAGE_MAGIC_V2: len(_TOPIC).to_bytes(2, "big") + _TOPIC,
}
_PROPERTIES_LENGTH = struct.Struct(">h")


def wrong_message(context: Context, offset: int, size: int, topic_hash: int) -> str | None:
    """What is wrong with the message at a physical offset, None if nothing is or if it expired before it was due."""
    log = context.log
    if offset < log.min_offset:
        return None
    if log.is_damaged(offset):
        return f"the message at {offset} lies in a damaged range"
    # Decoding a whole record takes fifty times longer, so that is kept for the explanation.
    if _is_as_named(context, offset, size, topic_hash):
        return None
    record = context.record_at(offset)
    if record is None:
        return f"no message begins at {offset}"
    if record.size != size:
        return f"the message at {offset} is {record.size} bytes long, the unit says {size}"
    if record.topic != TIMER_TOPIC:
        return f"the message at {offset} is one of {record.topic}, not of {TIMER_TOPIC}"
    if _hash(record.properties.get(REAL_TOPIC)) != topic_hash:
        return f"the message at {offset} is for another topic than the unit says"
    return None


def _is_as_named(context: Context, offset: int, size: int, topic_hash: int) -> bool:
    file = context.store.commitlog.find(offset)
    if file is None or offset >= context.log.end_offset or not MIN_RECORD_SIZE_V1 <= size <= min(file.end - offset, MAX_RECORD_READ):
        return False
    try:
        data = read_at(file, offset - file.start, size)
    except RmqstoreError:
        return False
    prefix = dict(zip(_NAMES, _PREFIX.unpack_from(data), strict=True))
    topic = _TOPIC_FIELDS.get(prefix["magic_code"])
    if topic is None or prefix["total_size"] != size or prefix["physical_offset"] != offset:
        return False
    flag = prefix["sys_flag"]
    place = _body_length(bool(flag & SysFlag.BORN_HOST_V6), bool(flag & SysFlag.STORE_HOST_V6))
    body_end = place.end + int.from_bytes(data[place.offset : place.end], "big", signed=True)
    start = body_end + len(topic) + _PROPERTIES_LENGTH.size
    if not place.end <= body_end <= start <= size or data[body_end : body_end + len(topic)] != topic:
        return False
    (length,) = _PROPERTIES_LENGTH.unpack_from(data, start - _PROPERTIES_LENGTH.size)
    return bool(start + length == size and _hash(parse_properties(data[start:]).get(REAL_TOPIC)) == topic_hash)


@cache
def _body_length(born_v6: bool, store_v6: bool) -> Field:
    return fixed_layout(record_head(born_v6, store_v6))["body_length"]


def _hash(topic: str | None) -> int:
    return 0 if topic is None else java_hash(topic)
