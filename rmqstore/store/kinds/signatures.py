"""Recognition of a format by the first bytes of a file, for files with an unknown name.

Each test is a necessary condition strong enough that the other formats fail it; the most specific ones come first.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from construct import Construct, ConstructError

from rmqstore.formats import batchconsumequeue, checkpoint, consumequeue, consumequeue_ext, dledger, index, tiered_index, timer
from rmqstore.formats.record import BLANK, BLANK_MAGIC, MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2
from rmqstore.store.kinds.filekind import FileKind

HEAD_LENGTH = 4096
_EARLIEST_MS = 1_000_000_000_000  # 2001
_LATEST_MS = 10_000_000_000_000  # 2286


def identify_content(head: bytes, length: int) -> FileKind:
    """Return the format that `head`, the first 4096 bytes of a file of `length` bytes, fits; `UNKNOWN` if none does."""
    for kind, fits in _SIGNATURES:
        try:
            if fits(head, length):
                return kind
        except ConstructError:
            continue  # shorter than the structure
    return FileKind.UNKNOWN


def _time(value: int) -> bool:
    return _EARLIEST_MS <= value <= _LATEST_MS


def _units(layout: Construct[Any, Any], head: bytes, count: int) -> Iterator[Any]:
    size = int(layout.sizeof())
    for position in range(0, min(len(head) - size + 1, count * size), size):
        yield layout.parse(head[position : position + size])


def _commitlog(head: bytes, length: int) -> bool:
    start = BLANK.parse(head)
    return start.magic_code in (MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2, BLANK_MAGIC) and start.total_size >= BLANK.sizeof()


def _tiered_index(head: bytes, length: int) -> bool:
    return tiered_index.HEADER.parse(head).magic in (tiered_index.BEGIN_MAGIC, tiered_index.END_MAGIC)


def _dledger(head: bytes, length: int) -> bool:
    entry = dledger.ENTRY_HEADER.parse(head)
    return bool(entry.magic == dledger.ENTRY_MAGIC and entry.body_len >= 0 and entry.size == entry.body_len + dledger.ENTRY_HEADER_SIZE)


def _dledger_index(head: bytes, length: int) -> bool:
    units = list(_units(dledger.INDEX_UNIT, head, 2))
    if length % dledger.INDEX_UNIT_SIZE or len(units) < 2:
        return False
    first, second = units
    follows = second.magic == 0 or (second.index == first.index + 1 and second.pos >= first.pos + first.size)
    return bool(first.magic == dledger.ENTRY_MAGIC and first.size >= dledger.ENTRY_HEADER_SIZE and first.index >= 0 and follows)


def _timerwheel(head: bytes, length: int) -> bool:
    return length == timer.WHEEL_FILE_SIZE


def _timerlog(head: bytes, length: int) -> bool:
    unit = timer.LOG_UNIT.parse(head)
    return bool(unit.size == timer.LOG_UNIT_SIZE and unit.prev_pos >= -1 and 0 < unit.magic < 16 and _time(unit.write_time))


def _timercheck(head: bytes, length: int) -> bool:
    if length != timer.CHECK_FILE_SIZE:
        return False
    check = timer.parse_check(head)
    offsets = (check.last_timer_log_flush_pos, check.last_timer_queue_offset, check.master_timer_queue_offset, check.data_version_counter)
    return _time(check.last_read_time_ms) and _time(check.data_version_timestamp) and all(0 <= offset < _EARLIEST_MS for offset in offsets)


def _checkpoint(head: bytes, length: int) -> bool:
    if length != checkpoint.FILE_SIZE:
        return False
    fields = checkpoint.parse_checkpoint(head)
    times = (fields.physic_msg_timestamp, fields.logics_msg_timestamp, fields.index_msg_timestamp)
    return any(times) and all(time == 0 or _time(time) for time in times) and not any(fields.reserved)


def _index(head: bytes, length: int) -> bool:
    header = index.HEADER.parse(head)
    fits = index.file_size(0, header.index_count) <= length and 0 <= header.hash_slot_count <= header.index_count
    in_order = 0 <= header.begin_phy_offset <= header.end_phy_offset
    return bool(header.index_count >= 1 and fits and in_order and _time(header.begin_timestamp) and _time(header.end_timestamp))


def _batch_queue(head: bytes, length: int) -> bool:
    unit = batchconsumequeue.UNIT.parse(head)
    counted = unit.msg_base_offset >= 0 and unit.batch_size > 0
    return bool(unit.physical_offset >= 0 and unit.size > 0 and _time(unit.store_time) and counted and unit.reserved == 0)


def _queue_ext(head: bytes, length: int) -> bool:
    unit = consumequeue_ext.UNIT_PREFIX.parse(head)
    return bool(
        unit.bit_map_size >= 0 and unit.size == consumequeue_ext.UNIT_PREFIX_SIZE + unit.bit_map_size and _time(unit.msg_store_time)
    )


def _queue(head: bytes, length: int) -> bool:
    """Return whether used units are a prefix, and their records are in order and apart; pre-blank units (offset 0) come before them."""
    if length % consumequeue.UNIT_SIZE:
        return False
    units = list(_units(consumequeue.UNIT, head, HEAD_LENGTH))
    used = list(itertools.takewhile(lambda unit: unit.size != 0, units))
    ends = [unit.physical_offset + (0 if unit.size == consumequeue.PRE_BLANK_SIZE else unit.size) for unit in used]
    return bool(
        used
        and all(unit.physical_offset >= 0 and unit.size > 0 for unit in used)
        and all(unit.physical_offset >= end for unit, end in zip(used[1:], ends, strict=False))
        and all(unit.physical_offset == unit.tags_code == 0 for unit in units[len(used) :])
    )


def is_text(head: bytes) -> bool:
    """Return whether the bytes are printable UTF-8; the last character may be cut."""
    text = head.decode("utf-8", "ignore")
    whole = len(head) - len(text.encode()) <= (3 if len(head) >= HEAD_LENGTH else 0)
    return whole and bool(text.strip()) and all(letter.isprintable() or letter in "\t\r\n\f" for letter in text)


def _epoch(head: bytes, length: int) -> bool:
    return re.match(rb"[0-9]+\r?\n[0-9]+\r?\n[0-9]+-[0-9]+\r?\n", head) is not None


def _json(head: bytes, length: int) -> bool:
    # The broker's JSON has bare numbers as names, which no JSON parser accepts, so test for a brace and text.
    return head.lstrip()[:1] in (b"{", b"[") and is_text(head)


def _compaction(head: bytes, length: int) -> bool:
    try:
        return length <= HEAD_LENGTH and "queueOffsetMap" in json.loads(head)
    except (ValueError, TypeError):
        return _json(head, length) and head.lstrip().startswith(b'{"queueOffsetMap"')


def _lock(head: bytes, length: int) -> bool:
    return head == b"lock"


def _abort(head: bytes, length: int) -> bool:
    return re.fullmatch(rb"[0-9]{1,10}\s*", head) is not None


def _properties(head: bytes, length: int) -> bool:
    if not is_text(head):
        return False
    lines = (line.strip() for line in head.decode("utf-8", "ignore").splitlines())
    return "=" in next((line for line in lines if line and line[0] not in "#!"), "")


def _text(head: bytes, length: int) -> bool:
    return is_text(head)


_SIGNATURES: tuple[tuple[FileKind, Callable[[bytes, int], bool]], ...] = (
    (FileKind.COMMITLOG, _commitlog),
    (FileKind.TIERED_INDEX, _tiered_index),
    (FileKind.DLEDGER, _dledger),
    (FileKind.DLEDGER_INDEX, _dledger_index),
    (FileKind.TIMERWHEEL, _timerwheel),
    (FileKind.TIMERLOG, _timerlog),
    (FileKind.TIMERCHECK, _timercheck),
    (FileKind.CHECKPOINT, _checkpoint),
    (FileKind.INDEX, _index),
    (FileKind.BATCHCONSUMEQUEUE, _batch_queue),
    (FileKind.CONSUMEQUEUE_EXT, _queue_ext),
    (FileKind.CONSUMEQUEUE, _queue),
    (FileKind.EPOCH, _epoch),
    (FileKind.COMPACTION, _compaction),
    (FileKind.JSON, _json),
    (FileKind.LOCK, _lock),
    (FileKind.ABORT, _abort),
    (FileKind.PROPERTIES, _properties),
    (FileKind.TEXT, _text),
)
