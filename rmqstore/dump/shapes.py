"""Columns of a table or CSV of each part, and the form of times in them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from rmqstore.dump.message import MESSAGE_FIELDS
from rmqstore.store.kinds.identify import FileKind

_LOGS = (FileKind.COMMITLOG, FileKind.COMPACTION_LOG)
_TREES = (FileKind.CHECKPOINT, FileKind.TIMERCHECK, FileKind.ABORT, FileKind.LOCK, FileKind.JSON, FileKind.TEXT, FileKind.DLEDGER)
_DAMAGE_FIELDS = ("faults", "file", "length", "reason", "message")
_LOG_TABLE = (
    "type",
    "physical_offset",
    "size",
    "topic",
    "queue_id",
    "queue_offset",
    "store_timestamp",
    "tags",
    "keys",
    "unique_key",
    "body",
    "faults",
    "reason",
    "message",
)
_TIMES = ("store_timestamp", "begin_timestamp", "end_timestamp")
_LATEST_MS = 253_402_300_799_999


def is_tree(kind: FileKind) -> bool:
    """Return whether a part is a few objects with many or nested fields, which are shown line by line."""
    return kind in _TREES


def columns(kind: FileKind, output_format: str) -> tuple[str, ...] | None:
    """Return the columns of a part; None: those of each object. A log's messages and damage share one table."""
    if kind not in _LOGS:
        return None
    if output_format == "table":
        return _LOG_TABLE
    return ("type", *MESSAGE_FIELDS, "tags_code", "position", "body", "body_encoding", *_DAMAGE_FIELDS)


def readable(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object with times as ISO 8601 in UTC."""
    return {name: iso_time(item) if name in _TIMES else item for name, item in value.items()}


def iso_time(milliseconds: Any) -> Any:
    """Return a time as `2024-01-31T12:00:00.500Z`; an implausible time is returned unchanged."""
    if not isinstance(milliseconds, int) or not 0 < milliseconds <= _LATEST_MS:
        return milliseconds
    moment = datetime.fromtimestamp(milliseconds // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03d}Z"
