"""The request for a dump: filters, number of objects, form of bodies."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from rmqstore.errors import UsageError
from rmqstore.formats.javahash import LONG_MAX, LONG_MIN, index_key_hash, java_hash

Value = Mapping[str, Any]
_TIMES = ("store_timestamp", "store_time", "msg_store_time")
_WITH_PROPERTIES = ("message", "dledger_entry")
_EPOCH_MS = re.compile(r"-?\d{1,19}")


class BodyForm(StrEnum):
    """Form in which `--body` shows bodies."""

    NONE = "none"
    TEXT = "text"
    HEX = "hex"
    BASE64 = "base64"


def parse_time(text: str) -> int:
    """Return `1700000000000`, `2024-01-31`, `2024-01-31T12:00:00.5+08:00` as ms since the epoch; without an offset the time is UTC.

    Raises UsageError.
    """
    if _EPOCH_MS.fullmatch(text):
        return max(LONG_MIN, min(LONG_MAX, int(text)))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        hint = "give ISO 8601 such as 2024-01-31T12:00:00 (UTC), or milliseconds since 1970"
        raise UsageError(f"{text!r} is not a time", hint) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    elapsed = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (elapsed.days * 86_400 + elapsed.seconds) * 1000 + elapsed.microseconds // 1000


@dataclass(frozen=True, slots=True)
class Filters:
    """Filters on objects; None means any. Times are ms and inclusive, `to_offset` is exclusive, offsets are bytes in the log."""

    topic: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    from_offset: int | None = None
    to_offset: int | None = None
    from_time: int | None = None
    to_time: int | None = None
    key: str | None = None
    tag: str | None = None
    _tests: list[Callable[[Value], bool]] = field(init=False, repr=False, compare=False, default_factory=list)

    def __post_init__(self) -> None:
        tests = (
            (self.topic, self._has_topic),
            (self.queue_id, self._has_queue_id),
            (self.queue_offset, self._has_queue_offset),
            (self.from_offset, self._begins_behind),
            (self.to_offset, self._begins_before),
            (self.from_time, self._is_late_enough),
            (self.to_time, self._is_early_enough),
            (self.key, self._has_key),
            (self.tag, self._has_tag),
        )
        self._tests.extend(test for wanted, test in tests if wanted is not None)

    @property
    def selective(self) -> bool:
        """Whether messages are selected by their content, not only by their offset."""
        chosen = (self.topic, self.queue_id, self.queue_offset, self.from_time, self.to_time, self.key, self.tag)
        return any(wanted is not None for wanted in chosen)

    @property
    def key_hash(self) -> int | None:
        """The hash of an index entry of the wanted key, None if any key is wanted."""
        return None if self.topic is None or self.key is None else index_key_hash(self.topic, self.key)

    def accept(self, value: Value) -> bool:
        """Return whether an object passes every filter; one without the field of a filter does not."""
        return all(test(value) for test in self._tests)

    def _has_topic(self, value: Value) -> bool:
        # An index entry holds its topic only in the hash of its key.
        return _field(value, ("topic",)) == self.topic or (value["type"] == "index_item" and self.key is not None)

    def _has_queue_id(self, value: Value) -> bool:
        return bool(_field(value, ("queue_id",)) == self.queue_id)

    def _has_queue_offset(self, value: Value) -> bool:
        first = _field(value, ("queue_offset", "msg_base_offset"))
        return first is not None and self.queue_offset is not None and bool(first <= self.queue_offset < first + value.get("batch_size", 1))

    def _begins_behind(self, value: Value) -> bool:
        place = _place(value)
        return place is not None and self.from_offset is not None and place >= self.from_offset

    def _begins_before(self, value: Value) -> bool:
        place = _place(value)
        return place is not None and self.to_offset is not None and place < self.to_offset

    def _is_late_enough(self, value: Value) -> bool:
        time = _field(value, _TIMES)
        return time is not None and self.from_time is not None and time >= self.from_time

    def _is_early_enough(self, value: Value) -> bool:
        time = _field(value, _TIMES)
        return time is not None and self.to_time is not None and time <= self.to_time

    def _has_key(self, value: Value) -> bool:
        if value["type"] == "index_item":
            return bool(value["key_hash"] == self.key_hash)
        return _field(value, ("unique_key",)) == self.key or self.key in (_field(value, ("keys",)) or "").split(" ")

    def _has_tag(self, value: Value) -> bool:
        if value["type"] in _WITH_PROPERTIES:
            return bool(_field(value, ("tags",)) == self.tag)
        return self.tag is not None and value.get("tags_code") == java_hash(self.tag)


def _field(value: Value, names: tuple[str, ...]) -> Any:
    """Return the first of these fields that an object (or the message inside a DLedger entry) has, None if it has none."""
    subject = value["message"] or {} if value["type"] == "dledger_entry" else value
    return next((subject[name] for name in names if name in subject), None)


def _place(value: Value) -> Any:
    """Return the offset in the commit log of an object or of what it points to."""
    if value["type"] in _WITH_PROPERTIES:
        return value["position"]
    return value.get("offset_py" if value["type"] == "timer_unit" else "physical_offset")


@dataclass(frozen=True, slots=True)
class Request:
    """The whole request for a dump. `limit` and `tail` count objects without damage; None means all."""

    filters: Filters = field(default_factory=Filters)
    limit: int | None = None
    tail: int | None = None
    body: BodyForm = BodyForm.NONE
    decompress: bool = False
    slots: bool = False
