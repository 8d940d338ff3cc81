"""Columns of a table or CSV of each part."""

from __future__ import annotations

from rmqstore.dump.message import MESSAGE_FIELDS
from rmqstore.store.kinds.identify import FileKind

_LOGS = (FileKind.COMMITLOG, FileKind.COMPACTION_LOG)
_TREES = (
    *(FileKind.CHECKPOINT, FileKind.TIMERCHECK, FileKind.ABORT, FileKind.LOCK, FileKind.JSON, FileKind.TEXT, FileKind.DLEDGER),
    FileKind.ROCKSDB,
)
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
