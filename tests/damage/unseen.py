"""Differences of one file that no start and no reader of a store can see, each with the reason.

The reasons are conservative: what is not listed here has to be noticed. Of the file only the bytes before and after are used, of the rest
of the store what another file says, which is whole.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmqstore.formats import consumequeue, index, record, timer
from rmqstore.formats.timer import LOG_UNIT_SIZE, WHEEL_SLOT_SIZE
from rmqstore.store import fastjson
from tests.damage.test_bit_flips import INVISIBLE
from tests.support.storeview import record_fields

_LASTING = ("topics.json", "subscriptionGroup.json", "topicQueueMapping.json")
_OFFSETS = ("consumerOffset.json", "lmqConsumerOffset.json", "delayOffset.json")
_OFTEN_SENT = ("consumerFilter.json", "consumerOrderInfo.json", "messageRequestMode.json", "timermetrics", "transactionMetrics")
"""Of consumers that are connected, and statistics."""
_FIELDS = (*INVISIBLE, "properties")
"""Fields of a record that no other place repeats; of the properties only keys and tags are in index and queue."""
_CURSORS = slice(16, 32)


@dataclass(frozen=True, slots=True)
class Place:
    """The store and the settings of its broker."""

    root: Path
    settings: Mapping[str, str]


def reason(place: Place, name: str, before: bytes, after: bytes | None) -> str | None:
    """Return why no broker sees that the file `name` has other bytes now, or is gone; None if one can."""
    if before == after:
        return "nothing changed"
    for prefix, of_area in _AREAS.items():
        if name.startswith(prefix):
            return of_area(place, name, before, after)
    return None


def changed(before: bytes, after: bytes) -> Iterator[int]:
    """Yield the positions of bytes that differ, those after the shorter one included."""
    if len(before) == len(after):
        first = next(at for at in range(0, len(before), 4096) if before[at : at + 4096] != after[at : at + 4096])
        last = first + 8192  # a damage is at most one page long
        yield from (at for at in range(first, min(last, len(before))) if before[at] != after[at])
    else:
        shorter = min(len(before), len(after))
        yield from (at for at in range(shorter) if before[at] != after[at])
        yield from range(shorter, max(len(before), len(after)))


# ---- configuration


def _configuration(place: Place, name: str, before: bytes, after: bytes | None) -> str | None:
    if name.endswith(".bak"):
        return "the file beside it is read"
    if name == "config/timercheck":
        return _timercheck(before, after)
    backup = place.root / f"{name}.bak"
    value = _parsed(after)
    if value is None:
        return "the .bak is read" if backup.exists() and _parsed(backup.read_bytes()) is not None else None
    was = _parsed(before)
    if was == value:
        return "JSON with the same content"
    base = name.removeprefix("config/")
    if base in _OFTEN_SENT:
        return "clients send it again, or it is a statistic"
    if _without_version(was) == _without_version(value):
        return "brokers do not compare dataVersion at a start"
    if base in _LASTING:
        same = backup.exists() and was is not None and _parsed(backup.read_bytes()) == was
        return None if same else "a possible value, and the .bak has another version"
    if base in _OFFSETS and _only_larger(was, value):
        return "a group or level may have come so far"
    return None


def _parsed(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        value = fastjson.parse(data).value
    except ValueError:
        return None
    return value if isinstance(value, dict) and len(value) else None


def _without_version(value: Any) -> Any:
    return {key: one for key, one in value.items() if key != "dataVersion"} if isinstance(value, dict) else value


def _only_larger(before: Any, after: Any) -> bool:
    """Return whether two tables have the same keys, and only integers are different, all of them larger by less than they were twice."""
    if isinstance(before, dict) and isinstance(after, dict):
        return before.keys() == after.keys() and all(_only_larger(before[key], after[key]) for key in before)
    return before == after or (type(before) is int and type(after) is int and after > before)


# ---- timer


def _timercheck(before: bytes, after: bytes | None) -> str | None:
    if after is None or len(after) < len(before):
        return None
    if before[:8] == after[:8]:
        if before[_CURSORS] == after[_CURSORS]:
            return "the flushed position and the version only save work"
        was, now = struct.unpack(">qq", before[_CURSORS]), struct.unpack(">qq", after[_CURSORS])
        return "the end of the timer log decides about a larger queue offset" if min(now) >= min(was) else None
    return None


def _read_time(place: Place) -> int:
    return int.from_bytes((place.root / "config/timercheck").read_bytes()[:8], "big") // 1000


def _wheel(place: Place, name: str, before: bytes, after: bytes | None) -> str | None:
    if after is None or len(after) != len(before):
        return "a start fills a missing wheel from the end of the timer log" if not after else None
    now = _read_time(place)
    for slot in {at // WHEEL_SLOT_SIZE for at in changed(before, after)}:
        times = [timer.WHEEL_SLOT.parse(data[slot * WHEEL_SLOT_SIZE :][:WHEEL_SLOT_SIZE]) for data in (before, after)]
        live = [one for one in times if one.time >= now and one.time % timer.WHEEL_SLOTS == slot]
        if live and (times[0].time, times[0].last_pos) != (times[1].time, times[1].last_pos):
            return None
    return "slots that were delivered, and hints"


def _timer_log(place: Place, name: str, before: bytes, after: bytes | None) -> str | None:
    if after is None or len(after) != len(before):
        return None
    now, end = _read_time(place), len(before.rstrip(b"\0"))
    for number in {at // LOG_UNIT_SIZE for at in changed(before, after)}:
        unit = timer.LOG_UNIT.parse(before[number * LOG_UNIT_SIZE :][:LOG_UNIT_SIZE].ljust(LOG_UNIT_SIZE, b"\0"))
        if number * LOG_UNIT_SIZE < end and (unit.write_time + unit.delay) // 1000 >= now:
            return None
    return "entries that were delivered, and bytes after the last one"


# ---- log, queues, index


def _commit_log(place: Place, name: str, before: bytes, after: bytes | None) -> str | None:
    if after is None or len(after) != len(before):
        used = any(before[:8])
        first = name == min(f"commitlog/{path.name}" for path in [*(place.root / "commitlog").iterdir(), Path(name)])
        if after is None and first:
            return "brokers delete the first file when it expires"
        return None if used else "a file for later records"
    hit = set(changed(before, after))
    position = 0
    while position < len(before) and hit:
        size, magic = struct.unpack_from(">iI", before, position) if position + 8 <= len(before) else (0, 0)
        if magic == record.BLANK_MAGIC & 0xFFFFFFFF:
            return None if any(at < position + record.BLANK_SIZE for at in hit) else "bytes after the last record of a file"
        if size <= 0 or magic not in (record.MESSAGE_MAGIC_V1 & 0xFFFFFFFF, record.MESSAGE_MAGIC_V2 & 0xFFFFFFFF):
            return None if min(hit) < position + 8 else "bytes after the end of the log"
        mine = {at for at in hit if position <= at < position + size}
        if mine:
            try:
                fields = record_fields(before, position)
            except Exception:  # what a killed broker was writing
                return "bytes after the end of the log"
            if any(not _is_unseen(fields, at) for at in mine):
                return None
        hit -= mine
        position += size
    return "fields that nothing repeats"


def _is_unseen(fields: Mapping[str, Any], position: int) -> bool:
    name = next((name for name, field in fields.items() if field.offset <= position < field.offset + field.width), "")
    return name in _FIELDS or name in ("sys_flag", "store_host", "prepared_transaction_offset")


def _queue(place: Place, name: str, before: bytes, after: bytes | None) -> str | None:
    return _after_the_end(before, after, consumequeue.UNIT_SIZE)


def _after_the_end(before: bytes, after: bytes | None, unit: int) -> str | None:
    if after is None or len(after) != len(before):
        return None
    end = len(before.rstrip(b"\0"))
    return "bytes after the last entry" if min(changed(before, after)) >= end + 2 * unit else None


def _index(place: Place, name: str, before: bytes, after: bytes | None) -> str | None:
    if after is None or len(after) != len(before):
        return None
    header = index.HEADER.parse(before)
    slots = int(place.settings.get("maxHashSlotNum", 5_000_000))
    return "bytes after the last entry" if min(changed(before, after)) >= index.item_position(header.index_count, slots) else None


# ---- the rest


def _compaction(place: Place, name: str, before: bytes, after: bytes | None) -> str | None:
    return "not compared with the commit log, as verify says" if after is not None and len(after) == len(before) else None


def _because(text: str) -> Callable[[Place, str, bytes, bytes | None], str | None]:
    return lambda place, name, before, after: text


_AREAS: Mapping[str, Callable[[Place, str, bytes, bytes | None], str | None]] = {
    "config/": _configuration,
    "commitlog/": _commit_log,
    "consumequeue/": _queue,
    "batchconsumequeue/": lambda place, name, before, after: _after_the_end(before, after, 46),
    "consumequeue_ext/": lambda place, name, before, after: _after_the_end(before, after, 4),
    "index/": _index,
    "timerlog/": _timer_log,
    "timerwheel": _wheel,
    "compaction/position-checkpoint": _because("runs of the compaction begin there, and repeat what they did"),
    "compaction/": _compaction,
    "checkpoint": _because("the simulated start uses it, and the tests of the prediction judge that"),
    "abort": _because("the simulated start uses it; its content is the number of a process"),
    "lock": _because("its content means nothing"),
    "rocksdbstore/": _because("an empty database, which brokers start without"),
    "brokerIdentity": _because("of controller mode"),
}
