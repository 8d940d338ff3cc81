"""The messages of tiered queues: each unit of the consume queue segments against the record it points at, and index entries as well.

Brokers read only records that a unit or an index entry names. After a crash a broker can append messages a second time: records that no
unit names are normal, and so are bytes between those of the units that are no record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from rmqstore.findings import Finding
from rmqstore.formats.consumequeue import UNIT, UNIT_SIZE
from rmqstore.formats.consumequeue_ext import MAX_ADDRESS
from rmqstore.formats.tiered_names import SegmentType
from rmqstore.formats.tiered_segment import CODA, CODA_MAGIC, CODA_SIZE
from rmqstore.scan.columns import KEY_DTYPE, Check, Fault, integer_columns
from rmqstore.scan.walk import Batch, Damage, FileEnd, LogScanner
from rmqstore.store.mapped import MappedFile
from rmqstore.store.window import read_at
from rmqstore.verify.context import Context
from rmqstore.verify.queues.spans import QueueKey
from rmqstore.verify.tiered.items import ItemStore
from rmqstore.verify.tiered.state import Tiered
from rmqstore.wording import counted

RECORD, UNIT_CODE, ITEM, CODA_CODE = "RMQ-TI-RECORD", "RMQ-TI-UNIT", "RMQ-TI-INDEX", "RMQ-TI-CODA"
_COLUMNS = np.dtype(
    [(name, np.int64) for name in ("position", "size", "queue_offset", "tags_code")]
    + [(name, np.int32) for name in ("queue_id", "topic", "faults")]
)
_UNITS = np.dtype([("number", "i8"), ("position", "i8"), ("size", "i8"), ("tags_code", "i8")])
_STORED = integer_columns(UNIT)
_MOST_RECORDS = 1 << 19
_UNITS_AT_A_TIME = 1 << 18
_AFTER = 64  # units in a row that point after a range show that those of the range were read
_INVALID = int(Fault.BODY_CRC | Fault.PHYSICAL_OFFSET)


@dataclass(frozen=True, slots=True)
class _Part:
    """Records and bytes that are none of one file, in the range [start, end) of the tiered log. `keys`: the records' by row, KEY_DTYPE."""

    file: MappedFile
    start: int
    end: int
    records: npt.NDArray[np.void]
    keys: npt.NDArray[np.void]
    damages: Sequence[Damage]
    stop: int | None
    """Offset after the last record, in the last part of a file."""


@dataclass
class QueueChecker:
    """The check of all queues of a store; `scanner` numbers their topics."""

    context: Context
    tiered: Tiered
    items: ItemStore
    scanner: LogScanner = field(init=False)

    def __post_init__(self) -> None:
        checks = Check.KEYS if self.context.options.quick else Check.KEYS | Check.BODY_CRC
        self.scanner = LogScanner(checks=checks, delays=self.context.delays)

    def check(self, key: QueueKey, path: str) -> Iterator[Finding]:
        """Yield the findings of one queue. Reads its segments once. Raises UnreadableError, StoreChangedError, OSError."""
        one = _Queue(self, key, path)
        for part in self._parts(path):
            yield from one.of_part(part)
        yield from one.at_the_end()

    def _parts(self, path: str) -> Iterator[_Part]:
        for file in self.tiered.read_by_broker(path, SegmentType.COMMIT_LOG):
            yield from self._parts_of(file)

    def _parts_of(self, file: MappedFile) -> Iterator[_Part]:
        start, rows = file.start, 0
        records: list[npt.NDArray[np.void]] = []
        keys: list[npt.NDArray[np.void]] = []
        damages: list[Damage] = []
        for event in self.scanner.scan(file):
            if isinstance(event, Damage):
                damages.append(event)
            elif isinstance(event, FileEnd):
                yield _part(file, (start, file.end), records, keys, damages, event.position)
            else:
                records.append(event.records[list(_COLUMNS.names or ())].astype(_COLUMNS))
                keys.append(_keys_of(event, rows))
                rows += event.records.size
                if rows >= _MOST_RECORDS:
                    end = int(records[-1]["position"][-1] + records[-1]["size"][-1])
                    yield _part(file, (start, end), records, keys, damages, None)
                    start, rows = end, 0
                    records, keys, damages = [], [], []


def _part(
    file: MappedFile,
    extent: tuple[int, int],
    records: list[npt.NDArray[np.void]],
    keys: list[npt.NDArray[np.void]],
    damages: Sequence[Damage],
    stop: int | None,
) -> _Part:
    every, named = np.concatenate([np.zeros(0, _COLUMNS), *records]), np.concatenate([np.zeros(0, KEY_DTYPE), *keys])
    return _Part(file, *extent, every, named, damages, stop)


def _keys_of(batch: Batch, rows: int) -> npt.NDArray[np.void]:
    """Return the keys of a batch without those of tags, which tiered index files do not have; `rows` records are before it."""
    kept: npt.NDArray[np.void] = batch.keys[batch.keys["is_tag"] == 0].copy()
    kept["record"] += rows
    return kept


class _Queue:
    """The units and index entries of one queue that were not compared yet."""

    def __init__(self, checker: QueueChecker, key: QueueKey, path: str) -> None:
        self._context, self._scanner, self._key = checker.context, checker.scanner, key
        tiered = checker.tiered
        self._log = tiered.read_by_broker(path, SegmentType.COMMIT_LOG)
        self._files = tiered.read_by_broker(path, SegmentType.CONSUME_QUEUE)
        claimed = () if tiered.metadata is None else tiered.metadata.lists.get((path, SegmentType.COMMIT_LOG), ())
        self._begin = min([one.base_offset for one in claimed] or [file.start for file in self._log], default=0)
        number = None if tiered.metadata is None else tiered.metadata.topics.get(key[0])
        self._items = checker.items.of(number, key[1]) if number is not None else checker.items.of(-1, -1)
        self._item_files = checker.items.files
        self._windows = self._read_units()
        self._pending = np.zeros(0, _UNITS)
        self._is_read = False

    def of_part(self, part: _Part) -> Iterator[Finding]:
        """Yield the findings of the units and index entries that point into a part of the log."""
        self._fill(part.end)
        offsets = self._pending["position"]
        inside = (offsets >= part.start) & (offsets < part.end) & (self._pending["size"] > 0)
        units, self._pending = self._pending[inside], self._pending[~inside]
        yield from self._units(part, units)
        begin, end = np.searchsorted(self._items["offset"], (part.start, part.end))
        yield from self._entries(part, self._items[begin:end])
        if part.stop is not None:
            yield from self._coda(part)

    def at_the_end(self) -> Iterator[Finding]:
        """Yield the findings of units and index entries that point at nothing that brokers have, and of bytes that are no unit."""
        self._fill(None)
        rest = self._pending
        zero = (rest["position"] == 0) & (rest["size"] == 0)
        if zero.any():
            first = int(rest["number"][zero][0])
            text = f"{counted(int(zero.sum()), 'unit')} of zeros: these messages cannot be consumed"
            yield self._of_unit(first, text, count=int(zero.sum()))
        lost = rest[~zero & (rest["position"] >= self._begin)]
        if lost.size:
            where = int(lost["position"][0])
            text = (
                f"{counted(lost.size, 'unit')} from queue offset {int(lost['number'][0])} on point at bytes that are gone, from {where} on"
            )
            yield self._of_unit(int(lost["number"][0]), text, count=lost.size)
        end = self._log[-1].end if self._log else self._begin
        after = self._items[self._items["offset"] >= end]
        if after.size:
            text = f"index entries of messages after the end of the log of {self._name}, {end}: {after.size}"
            yield self._of_item(after[0], text, count=after.size)
        for file in self._files:
            if file.length % UNIT_SIZE:
                rest_bytes = file.length % UNIT_SIZE
                text = f"the segment has {file.length} bytes, {rest_bytes} more than whole units of {UNIT_SIZE} bytes"
                yield self._finding(UNIT_CODE, text, file.path, file.length - rest_bytes, rest_bytes)

    @property
    def _name(self) -> str:
        return f"{self._key[0]}/{self._key[1]}"

    def _finding(self, code: str, text: str, path: Any, position: int, length: int, **where: Any) -> Finding:
        topic, queue_id = self._key
        return self._context.finding(code, text, file=path, position=position, length=length, topic=topic, queue_id=queue_id, **where)

    def _of_unit(self, number: int, text: str, **where: Any) -> Finding:
        offset = number * UNIT_SIZE
        file = next((file for file in reversed(self._files) if file.start <= offset), self._files[0])
        return self._finding(UNIT_CODE, text, file.path, offset - file.start, UNIT_SIZE, queue_offset=number, **where)

    def _of_item(self, item: np.void, text: str, **where: Any) -> Finding:
        file = self._item_files[int(item["file"])]
        return self._finding(ITEM, text, file.path, int(item["position"]), 0, **where)

    # Units

    def _read_units(self) -> Iterator[npt.NDArray[np.void]]:
        for file in self._files:
            count = file.length // UNIT_SIZE
            for done in range(0, count, _UNITS_AT_A_TIME):
                stored = np.frombuffer(read_at(file, done * UNIT_SIZE, min(_UNITS_AT_A_TIME, count - done) * UNIT_SIZE), _STORED)
                units = np.empty(stored.size, _UNITS)
                units["number"] = file.start // UNIT_SIZE + done + np.arange(stored.size)
                units["position"], units["size"] = stored["physical_offset"], stored["size"]
                units["tags_code"] = stored["tags_code"]
                yield units

    def _fill(self, end: int | None) -> None:
        """Read units until the last ones all point at `end` or after it, all without."""
        while not self._is_read:
            last = self._pending[-_AFTER:]
            if end is not None and last.size == _AFTER and (last["position"] >= end).all():
                return
            units = next(self._windows, None)
            if units is None:
                self._is_read = True
            else:
                self._pending = np.concatenate([self._pending, units])

    def _units(self, part: _Part, units: npt.NDArray[np.void]) -> Iterator[Finding]:
        records = part.records
        at = np.minimum(np.searchsorted(records["position"], units["position"]), max(0, records.size - 1))
        hits = records["position"][at] == units["position"] if records.size else np.zeros(units.size, bool)
        missed = units[~hits]
        for damage in part.damages:
            inside = (missed["position"] >= damage.start) & (missed["position"] < max(damage.end, damage.start + 1))
            if not damage.resumed:
                inside = missed["position"] >= damage.start
            if inside.any():
                length = damage.end - damage.start
                text = f"{length} bytes are no message; {counted(int(inside.sum()), 'unit')} of {self._name} point into them"
                where = {"queue_offset": int(missed["number"][inside][0]), "count": int(inside.sum())}
                yield self._finding(RECORD, text, part.file.path, damage.start - part.file.start, length, **where)
                missed = missed[~inside]
        for unit in missed:
            text = f"unit {unit['number']} points at offset {unit['position']}, where no message begins"
            yield self._of_unit(int(unit["number"]), text)
        yield from self._damaged(part, units[hits], records[at[hits]])
        yield from self._differing(units[hits], records[at[hits]])

    def _damaged(self, part: _Part, units: npt.NDArray[np.void], records: npt.NDArray[np.void]) -> Iterator[Finding]:
        topics = [number for number in np.unique(records["topic"]).tolist() if self._scanner.topic(number) == self._key[0]]
        foreign = ~np.isin(records["topic"], topics) | (records["queue_id"] != self._key[1])
        faults = records["faults"] & _INVALID
        for row in np.flatnonzero(foreign | (faults != 0)):
            one = records[row]
            why = f"the message is of {self._scanner.topic(int(one['topic']))}/{int(one['queue_id'])}"
            if faults[row] & int(Fault.BODY_CRC):
                why = "the checksum of the body does not match"
            elif faults[row]:
                why = f"PHYSICALOFFSET is not {int(one['position'])}, where the message is in the tiered log"
            position = int(one["position"]) - part.file.start
            where = {"queue_offset": int(units["number"][row]), "count": 1}
            yield self._finding(RECORD, why, part.file.path, position, int(one["size"]), **where)

    def _differing(self, units: npt.NDArray[np.void], records: npt.NDArray[np.void]) -> Iterator[Finding]:
        tags = (units["tags_code"] != records["tags_code"]) & (units["tags_code"] > MAX_ADDRESS)
        compared = (
            ("size", units["size"] != records["size"], units["size"], records["size"]),
            ("QUEUEOFFSET", units["number"] != records["queue_offset"], units["number"], records["queue_offset"]),
            ("tagsCode", tags, units["tags_code"], records["tags_code"]),
        )
        for row in np.flatnonzero(np.any([differs for _, differs, _, _ in compared], axis=0)):
            name, _, found, expected = next(one for one in compared if one[1][row])
            text = f"{name} is {int(found[row])}, the message at offset {int(units['position'][row])} has {int(expected[row])}"
            yield self._of_unit(int(units["number"][row]), text, expected=int(expected[row]), found=int(found[row]))

    # Index entries and the end of a file

    def _entries(self, part: _Part, items: npt.NDArray[np.void]) -> Iterator[Finding]:
        """Yield index entries that point at no message, or at one without their key; those into bytes that are no message are left out."""
        records = part.records
        if not items.size:
            return
        at = np.minimum(np.searchsorted(records["position"], items["offset"]), max(0, records.size - 1))
        hits = records["position"][at] == items["offset"] if records.size else np.zeros(items.size, bool)
        hits[hits] &= records["size"][at[hits]] == items["size"][hits]
        keyed = np.zeros(items.size, bool)
        names = np.sort(part.keys["record"].astype(np.int64) << 32 | part.keys["hash"].astype(np.int64))
        keyed[hits] = np.isin(at[hits].astype(np.int64) << 32 | items["hash"][hits].astype(np.int64), names)
        for row in np.flatnonzero(~keyed):
            item = items[row]
            if any(damage.start <= item["offset"] < max(damage.end, damage.start + 1) for damage in part.damages):
                continue
            what = "has no key with this hash" if hits[row] else f"is not one of {int(item['size'])} bytes"
            yield self._of_item(item, f"the message at offset {int(item['offset'])} of the log of {self._name} {what}")

    def _coda(self, part: _Part) -> Iterator[Finding]:
        """Yield bytes after the last message of a full segment that are not the coda of 5.1.x."""
        stop, file = part.stop, part.file
        if stop is None or stop == file.end or file is self._log[-1] or any(damage.resumed for damage in part.damages if damage.end > stop):
            return
        rest = file.end - stop
        coda = CODA.parse(read_at(file, stop - file.start, CODA_SIZE)) if rest == CODA_SIZE else None
        if coda is None or coda.magic != CODA_MAGIC or coda.size != CODA_SIZE:
            text = f"{rest} bytes after the last message of a full segment are no coda of {CODA_SIZE} bytes"
            yield self._finding(CODA_CODE, text, file.path, stop - file.start, rest)
