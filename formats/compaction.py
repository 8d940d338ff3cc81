"""The position file of the compaction store: up to which queue offset each queue of a compacted topic was rewritten.

Source: `CompactionPositionMgr`, `CompactionStore`; fact sheet queues §5 (≥5.1.0).
Its logs hold records (`message.py`) with offsets of their own, its queues the units of `batchconsumequeue.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from rmqstore.formats.batchconsumequeue import UNIT_SIZE

_OFFSETS = "queueOffsetMap"
_EMPTY = "empty"


def queue_file_size(configured: int) -> int:
    """Return the length of a queue file for `compactionCqMappedFileSize`: rounded down to whole units."""
    return configured // UNIT_SIZE * UNIT_SIZE


DEFAULT_QUEUE_FILE_SIZE = queue_file_size(10 * 1024 * 1024)


class CompactedQueue(NamedTuple):
    """A queue of a compacted topic."""

    topic: str
    queue_id: int


def parse_positions(data: bytes) -> dict[CompactedQueue, int]:
    """Return the last compacted queue offset per queue; raises ValueError for a text that is not a position file."""
    try:
        offsets = json.loads(data.decode("utf-8"))[_OFFSETS]
        return {_queue(name): _offset(offset) for name, offset in offsets.items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a position file: {error}") from error


def build_positions(positions: Mapping[CompactedQueue, int], *, breaks_empty_table: bool = False) -> bytes:
    """Return the text of a position file as brokers write it. `breaks_empty_table`: as 5.4.0 writes a table without entries."""
    entries = "".join(
        f'\n\t\t"{json.dumps(f"{queue.topic}_{queue.queue_id}", ensure_ascii=False)[1:-1]}":{offset},'
        for queue, offset in sorted(positions.items())
    )
    empty = "{\n\t\t\n\t}" if breaks_empty_table else "{}"
    table = f"{{{entries[:-1]}\n\t}}" if entries else empty
    return f'{{\n\t"{_EMPTY}":{json.dumps(not positions)},\n\t"{_OFFSETS}":{table}\n}}'.encode()


def log_file_size(configured_log: int, queue_file_size: int = DEFAULT_QUEUE_FILE_SIZE) -> int:
    """Return the length of a log file for `compactionMappedFileSize`: a multiple of the queue file's length, at least five of them."""
    count, rest = divmod(configured_log, queue_file_size)
    if count < 5:
        return 5 * queue_file_size
    return (count if 0 < rest < queue_file_size // 2 else count + 1) * queue_file_size


def _queue(name: str) -> CompactedQueue:
    topic, _, queue_id = name.rpartition("_")
    return CompactedQueue(topic, int(queue_id))


def _offset(offset: object) -> int:
    if not isinstance(offset, int) or isinstance(offset, bool):
        raise TypeError(f"{offset!r} is not a queue offset")
    return offset
