"""The messages that a search is for, and the form in which the command line names them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rmqstore.dump.request import parse_time
from rmqstore.errors import UsageError
from rmqstore.formats.javahash import LONG_MAX, LONG_MIN, java_split, parse_java_integer
from rmqstore.formats.message_id import decode_offset_message_id
from rmqstore.formats.properties import INNER_BASE, INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET, INNER_NUM
from rmqstore.formats.sysflag import UNLISTED, TransactionType, transaction_type

_QUEUE = re.compile(r"(.+)/(\d{1,10})@(\d{1,18})(?:\.\.(\d{1,18}))?", re.DOTALL)
Value = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Key:
    """Messages with a key: one of KEYS or the unique key; with `unique` the unique key alone. `topic` None: of all topics."""

    key: str
    topic: str | None = None
    unique: bool = False

    def accept(self, value: Value) -> bool:
        """Return whether a message, as `dump` shows it, is one of them. Records of rollbacks are not, because brokers do not index them."""
        if self.topic not in (None, value["topic"]) or transaction_type(value["sys_flag"]) is TransactionType.ROLLBACK:
            return False
        return self.key == value["unique_key"] or (not self.unique and self.key in (value["keys"] or "").split(" "))


@dataclass(frozen=True, slots=True)
class Offset:
    """The message at a physical offset."""

    physical_offset: int


@dataclass(frozen=True, slots=True)
class QueueRange:
    """Messages with queue offsets [first, last] of one queue, which can be a further queue of multi-dispatch messages."""

    topic: str
    queue_id: int
    first: int
    last: int

    def accept(self, value: Value) -> bool:
        """Return whether a message, as `dump` shows it, has one of these queue offsets."""
        begin, end = self.offsets_of(value)
        return begin <= self.last and self.first < end

    def offsets_of(self, value: Value) -> tuple[int, int]:
        """Return the queue offsets [begin, end) that a message has in the queue; they are empty if it is not in the queue.

        Half messages of transactions and rollbacks get no entry.
        """
        if transaction_type(value["sys_flag"]) in UNLISTED:
            return 0, 0
        properties = value["properties"]
        if value["topic"] == self.topic:
            number = parse_java_integer(properties.get(INNER_NUM, "")) if INNER_BASE in properties else None
            offset = value["queue_offset"] if value["queue_id"] == self.queue_id else None
            return (0, 0) if offset is None else (offset, offset + (number or 1))
        topics = java_split(properties.get(INNER_MULTI_DISPATCH, ""), ",")
        offsets = java_split(properties.get(INNER_MULTI_QUEUE_OFFSET, ""), ",")
        number = topics.index(self.topic) if self.topic in topics else len(offsets)
        offset = parse_java_integer(offsets[number], LONG_MIN, LONG_MAX) if number < len(offsets) else None
        return (0, 0) if offset is None else (offset, offset + 1)


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Messages that were stored at [first, last], ms since the epoch; `topic` None: of all topics."""

    first: int
    last: int
    topic: str | None = None

    def accept(self, value: Value) -> bool:
        """Return whether a message, as `dump` shows it, was stored then."""
        return bool(self.first <= value["store_timestamp"] <= self.last) and self.topic in (None, value["topic"])


Wanted = Key | Offset | QueueRange | TimeRange


def parse_queue(text: str) -> QueueRange:
    """Return `orders/0@17` or `orders/0@17..20` as a range of queue offsets. Raises UsageError."""
    found = _QUEUE.fullmatch(text)
    if found is None or (found[4] is not None and int(found[4]) < int(found[3])):
        raise UsageError(
            f"{text!r} does not name queue offsets.", "Give them as orders/0@17, or as orders/0@17..20 for the messages from 17 to 20."
        )
    return QueueRange(found[1], int(found[2]), int(found[3]), int(found[4] or found[3]))


def parse_time_range(text: str, topic: str | None) -> TimeRange:
    """Return `FROM..TO`, where either end can be missing, as a range of store times. Raises UsageError."""
    first, separator, last = text.partition("..")
    if not separator:
        raise UsageError(f"{text!r} is not a range of times.", "Give it as 2024-01-31T12:00..2024-01-31T13:00 (UTC), or in ms since 1970.")
    return TimeRange(parse_time(first) if first else LONG_MIN, parse_time(last) if last else LONG_MAX, topic)


def parse_offset_id(text: str) -> Offset:
    """Return the physical offset in an offsetMsgId. Raises UsageError."""
    try:
        return Offset(decode_offset_message_id(text)[2])
    except ValueError as error:
        raise UsageError(f"{text!r} is no offset message id: {error}.", "A unique key is searched with --unique-key.") from error


def wanted_by(
    *,
    key: str | None = None,
    unique_key: str | None = None,
    offset_id: str | None = None,
    queue: str | None = None,
    time: str | None = None,
    physical_offset: int | None = None,
    topic: str | None = None,
) -> Wanted:
    """Return the search that one of the arguments before `topic` describes, as the options of `rmqstore query`. Raises UsageError."""
    texts = {"--key": key, "--unique-key": unique_key, "--offset-id": offset_id, "--queue": queue, "--time": time}
    given = [name for name, value in {**texts, "--physical-offset": physical_offset}.items() if value is not None]
    if len(given) != 1:
        said = "none of them is given" if not given else f"{' and '.join(given)} are given"
        raise UsageError(f"a search takes one of {', '.join(texts)} and --physical-offset; {said}.", "Give exactly one.")
    if topic is not None and given[0] not in ("--key", "--unique-key", "--time"):
        raise UsageError(f"--topic does not go with {given[0]}.", "Leave it out.")
    if key is not None:
        return Key(key, topic)
    if unique_key is not None:
        return Key(unique_key, topic, unique=True)
    if offset_id is not None:
        return parse_offset_id(offset_id)
    if queue is not None:
        return parse_queue(queue)
    return parse_time_range(time, topic) if time is not None else Offset(physical_offset or 0)
