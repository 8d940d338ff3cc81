"""The message that a unit of the timer log names: one of the timer topic, of that size, for that real topic, due at the unit's time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set

from rmqstore.errors import RmqstoreError
from rmqstore.formats.javahash import java_hash
from rmqstore.formats.naming import TIMER_TOPIC
from rmqstore.formats.properties import REAL_QID, REAL_TOPIC, TIMER_DEL_UNIQKEY, TIMER_OUT_MS, parse_properties
from rmqstore.formats.record import MIN_RECORD_SIZE_V1
from rmqstore.formats.timer import GIVEN_UP, UnitMagic
from rmqstore.reading.parts import parts_of
from rmqstore.reading.records import LARGEST_RECORD
from rmqstore.store.window import read_at
from rmqstore.times import time_text
from rmqstore.verify.context import Context

_TOPIC = TIMER_TOPIC.encode()
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
# The buffer of the timer takes so many bytes more than maxMessageSize (fact sheet timer §1.9 Q2).
_SPARE_BYTES = 100

Problem = tuple[str, str]
"""A finding code and a message."""


def unit_problems(context: Context, *, offset: int, size: int, topic_hash: int, kind: int, slot_time: int) -> Iterator[Problem]:
    """Yield problems of the message that a unit names; `slot_time` in ms. A message that expired before it was due is none."""
    log = context.log
    if offset < log.min_offset or size == GIVEN_UP:
        return
    if log.is_damaged(offset):
        yield "RMQ-TM-MESSAGE", f"the message at {offset} is in a damaged range"
        return
    properties = named(context, offset, size, topic_hash)
    if properties is None:
        yield "RMQ-TM-MESSAGE", _explanation(context, offset, size)
        return
    yield from message_problems(context, offset, size, properties)
    yield from _contradictions(offset, properties, kind, slot_time)


def named(context: Context, offset: int, size: int, topic_hash: int) -> dict[str, str] | None:
    """Return the properties of the message that a unit names by these three, None without one; damage is not known here."""
    # Decoding a whole record takes fifty times longer, so that is kept for explanations.
    properties = _properties(context, offset, size)
    return properties if properties is not None and _hash(properties.get(REAL_TOPIC)) == topic_hash else None


def message_problems(context: Context, offset: int, size: int, properties: Mapping[str, str]) -> Iterator[Problem]:
    """Yield why a message of the timer topic cannot be put into the timer or delivered (fact sheet timer §1.9 Q2, Q3)."""
    wrong = [name for name in (TIMER_OUT_MS, REAL_QID) if not _INTEGER.fullmatch(properties.get(name, ""))]
    if REAL_TOPIC not in properties:
        wrong.append(REAL_TOPIC)
    if wrong:
        yield "RMQ-TM-PROPERTIES", f"the message at {offset} lacks a valid {' and '.join(wrong)}"
    limit = _largest_message(context) + _SPARE_BYTES
    if size > limit:
        record = context.record_at(offset)
        # A body of that size was accepted, so the broker's limit is not the default one.
        if context.store.config.explicit("maxMessageSize") is not None or (record is not None and record.body_length <= limit):
            yield "RMQ-TM-SIZE", f"the message at {offset} is {size} bytes long, the timer handles up to {limit}"


def deliver_time(properties: Mapping[str, str]) -> int | None:
    """Return TIMER_OUT_MS, None if there is none."""
    text = properties.get(TIMER_OUT_MS, "")
    return int(text) if _INTEGER.fullmatch(text) else None


def fits_slot(due: int, kind: int, slot_time: int) -> bool:
    """Return whether a unit of that kind and time (ms) can be that of a message due at `due` (fact sheet timer §1.9 L5)."""
    return due > slot_time if kind & UnitMagic.ROLL else due == slot_time


def _contradictions(offset: int, properties: Mapping[str, str], kind: int, slot_time: int) -> Iterator[Problem]:
    """Yield contradictions between a unit and its message (fact sheet timer §1.9 L5, L6)."""
    due = deliver_time(properties)
    if due is not None and not fits_slot(due, kind, slot_time):
        wanted = "later than" if kind & UnitMagic.ROLL else "at"
        slot = time_text(slot_time)
        yield "RMQ-TM-UNIT", f"the message at {offset} is due at {time_text(due)}, but its entry is for one due {wanted} {slot}"
    deletes = bool(kind & UnitMagic.DELETE)
    if deletes != (TIMER_DEL_UNIQKEY in properties):
        said, found = ("a deletion", "an ordinary message") if deletes else ("an ordinary message", "a deletion")
        yield "RMQ-TM-UNIT", f"the entry says {said}, but the message at {offset} is {found}"


def _explanation(context: Context, offset: int, size: int) -> str:
    record = context.record_at(offset)
    if record is None:
        return f"no message begins at {offset}"
    if record.size != size:
        return f"the message at {offset} is {record.size} bytes long, but the entry says {size}"
    if record.topic != TIMER_TOPIC:
        return f"the message at {offset} belongs to {record.topic}, not to {TIMER_TOPIC}"
    return f"the message at {offset} is for another topic than the entry says"


def _largest_message(context: Context) -> int:
    return context.store.config.integer("maxMessageSize")


def _properties(context: Context, offset: int, size: int) -> dict[str, str] | None:
    """Return the properties of the message of the timer topic at a physical offset with that size, None without one."""
    file = context.store.message_log.find(offset)
    if file is None or offset >= context.log.end_offset or not MIN_RECORD_SIZE_V1 <= size <= min(file.end - offset, LARGEST_RECORD):
        return None
    try:
        data = read_at(file, offset - file.start, size)
    except RmqstoreError:
        return None
    parts = parts_of(data)
    if parts is None or parts.topic != _TOPIC or parts.physical_offset != offset:
        return None
    return parse_properties(parts.properties)


def _hash(topic: str | None) -> int:
    return 0 if topic is None else java_hash(topic)


def is_deleted(topic: str | None, key: str | None, deletions: Set[str]) -> bool:
    """Return whether one of the `deletions`, values of TIMER_DEL_UNIQKEY, names a message by its real topic and unique key.

    They are unique keys, of 5.3.2 to 5.3.4 after the topic and a plus (sheet of the newer releases §2).
    """
    return key is not None and (key in deletions or f"{topic}+{key}" in deletions)
