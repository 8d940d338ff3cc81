"""Columns of messages made from batches of the scan, without Python per record except for a few unusual ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rmqstore.dump.message import message_object
from rmqstore.formats.host import HOST_V4, HOST_V6, host_text
from rmqstore.formats.layout import fixed_layout
from rmqstore.formats.record import SysFlag, decode_record, record_head
from rmqstore.pipeline.tables.table import TYPES
from rmqstore.pipeline.tables.texts import Properties, hex_array, replaced, spans_array
from rmqstore.scan.columns import Fault, Mark
from rmqstore.scan.kernels.offsets import MAGIC
from rmqstore.scan.walk import Batch, LogScanner

Rows = NDArray[np.void]
Positions = NDArray[np.int64]

_PROPERTY_COLUMNS = {"tags": "TAGS", "keys": "KEYS", "unique_key": "UNIQ_KEY"}
_FAULT_NAMES = {
    Fault.BODY_CRC: "body_crc",
    Fault.PHYSICAL_OFFSET: "physical_offset",
    Fault.DELAY: "delay",
    Fault.PROPERTIES: "properties",
}
# Columns for which a single record must be decoded: the scan knows the rest in any case.
_TEXTUAL = {"properties", "tags", "keys", "unique_key", "tags_code", "faults"}
_HEAD_V4 = fixed_layout(record_head(born_v6=False, store_v6=False))
_BORN_HOST = _HEAD_V4["born_host"].offset
_HOST_WIDTH, _HOST_V6_WIDTH = HOST_V4.sizeof(), HOST_V6.sizeof()
_WIDER = _HOST_V6_WIDTH - _HOST_WIDTH
_AFTER_BORN_HOST = _HEAD_V4["store_host"].offset - _HEAD_V4["born_host"].end
_HEAD_LENGTH = _HEAD_V4["body_length"].end


class BatchColumns:
    """Makes the selected columns of one batch after the other."""

    def __init__(self, scanner: LogScanner, delay_levels: Sequence[int], schema: pa.Schema) -> None:
        """`delay_levels`: ms per level, level 1 first; `schema`: the selected columns of the table of messages."""
        self._scanner = scanner
        self._delay_levels = delay_levels
        self._schema = schema
        self._judges_odd_ones = not _TEXTUAL.isdisjoint(schema.names)
        self._needs_properties = not {"properties", *_PROPERTY_COLUMNS}.isdisjoint(schema.names)

    def make(self, batch: Batch, rows: Rows) -> pa.RecordBatch:
        """Return the columns of some records of a batch."""
        made = _Made(self._scanner, batch, rows, needs_properties=self._needs_properties)
        arrays = [made.column(name) for name in self._schema.names]
        if self._judges_odd_ones and len(odd := made.odd_rows()):
            values = [self._one(batch, row) for row in rows[odd]]
            arrays = [
                replaced(array, odd, [one[name] for one in values]) if name in _TEXTUAL else array
                for name, array in zip(self._schema.names, arrays, strict=True)
            ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _one(self, batch: Batch, row: np.void) -> dict[str, Any]:
        """Return a record as `rmqstore dump` shows it."""
        start = int(row["position"]) - batch.origin
        record = decode_record(batch.window[start : start + int(row["size"])].tobytes())
        value = message_object(record, int(row["position"]), self._delay_levels)
        return {**value, "properties": list(value["properties"].items()), "faults": value.get("faults")}


class _Made:
    """Columns of some records of one batch, made on first use."""

    def __init__(self, scanner: LogScanner, batch: Batch, rows: Rows, *, needs_properties: bool) -> None:
        self._scanner = scanner
        self._window = batch.window
        self._base = batch.window.ctypes.data
        self._rows = rows
        self._starts: Positions = rows["position"] - batch.origin
        ends = self._starts + rows["size"]
        self._properties = Properties(self._base, ends - rows["properties_length"], ends) if needs_properties else None
        self._wide_born = (rows["sys_flag"] & SysFlag.BORN_HOST_V6) != 0
        self._wide_store = (rows["sys_flag"] & SysFlag.STORE_HOST_V6) != 0
        self._store_hosts: Positions = self._starts + _BORN_HOST + _HOST_WIDTH + _WIDER * self._wide_born + _AFTER_BORN_HOST

    def odd_rows(self) -> NDArray[np.int64]:
        """Return rows that must be decoded separately: text that is not UTF-8, repeated properties, a DELAY that is no number."""
        odd = (self._rows["marks"] & Mark.MALFORMED_TEXT | self._rows["faults"] & Fault.DELAY) != 0
        if self._properties is not None:
            odd |= self._properties.odd
        return np.flatnonzero(odd)

    def column(self, name: str) -> pa.Array:
        """Return one column."""
        if name in _PROPERTY_COLUMNS and self._properties is not None:
            return self._properties.value(_PROPERTY_COLUMNS[name])
        maker = _MAKERS.get(name)
        return pa.array(np.ascontiguousarray(self._rows[name])) if maker is None else maker(self)

    def maps(self) -> pa.Array:
        """Return all properties."""
        assert self._properties is not None
        return self._properties.maps()

    def topics(self) -> pa.Array:
        """Return TOPIC as text."""
        numbers, codes = np.unique(self._rows["topic"], return_inverse=True)
        return _taken([self._scanner.topic(int(number)) for number in numbers], codes)

    def magics(self) -> pa.Array:
        """Return MAGICCODE without a sign."""
        return pa.array(self._gathered(self._starts + MAGIC, 4).view(">u4").ravel().astype(np.int64))

    def born_hosts(self) -> pa.Array:
        """Return BORNHOST as text."""
        return self._hosts(self._starts + _BORN_HOST, self._wide_born)

    def store_hosts(self) -> pa.Array:
        """Return STOREHOST as text."""
        return self._hosts(self._store_hosts, self._wide_store)

    def message_ids(self) -> pa.Array:
        """Return offsetMsgId: the bytes of STOREHOST, then those of PHYSICALOFFSET."""
        offsets = self._rows["physical_offset"].astype(">i8").view(np.uint8).reshape(-1, 8)
        ids = hex_array(np.hstack((self._gathered(self._store_hosts, _HOST_WIDTH), offsets)))
        wide = np.flatnonzero(self._wide_store)
        if not len(wide):
            return ids
        wide_ids = hex_array(np.hstack((self._gathered(self._store_hosts[wide], _HOST_V6_WIDTH), offsets[wide])))
        return replaced(ids, wide, wide_ids.to_pylist())

    def bodies(self) -> pa.Array:
        """Return the stored bodies."""
        ends: Positions = self._starts + _HEAD_LENGTH + _WIDER * (self._wide_born.astype(np.int64) + self._wide_store)
        return spans_array(self._base, ends, ends + self._rows["body_length"], pa.binary())

    def faults(self) -> pa.Array:
        """Return names of the faults of each record, null for valid ones."""
        faults = self._rows["faults"]
        reported = int(np.bitwise_or.reduce([int(fault) for fault in _FAULT_NAMES]))
        array = pa.nulls(len(faults), TYPES["array<string>"])
        faulty = np.flatnonzero(faults & reported)
        if not len(faulty):
            return array
        names = [[name for fault, name in _FAULT_NAMES.items() if faults[row] & fault] for row in faulty]
        return replaced(array, faulty, names)

    def _gathered(self, positions: Positions, width: int) -> NDArray[np.uint8]:
        """Return uint8[n, width]: the bytes at some positions of the window."""
        found: NDArray[np.uint8] = self._window[positions[:, None] + np.arange(width)]
        return found

    def _hosts(self, positions: Positions, wide: NDArray[np.bool_]) -> pa.Array:
        words, codes = np.unique(self._gathered(positions, _HOST_WIDTH).view(np.uint64).ravel(), return_inverse=True)
        hosts = _taken([_host(word.tobytes()) for word in words], codes)
        rows = np.flatnonzero(wide)
        if not len(rows):
            return hosts
        return replaced(hosts, rows, [_host(row.tobytes()) for row in self._gathered(positions[rows], _HOST_V6_WIDTH)])


_HOST_TEXTS = {host.sizeof(): host_text(host) for host in (HOST_V4, HOST_V6)}
_MAKERS: dict[str, Callable[[_Made], pa.Array]] = {
    "magic": _Made.magics,
    "born_host": _Made.born_hosts,
    "store_host": _Made.store_hosts,
    "topic": _Made.topics,
    "properties": _Made.maps,
    "offset_message_id": _Made.message_ids,
    "body": _Made.bodies,
    "faults": _Made.faults,
}


@lru_cache(maxsize=1 << 16)
def _host(data: bytes) -> str:
    """Return the text of the 8 or 20 bytes of a host."""
    text: str = _HOST_TEXTS[len(data)].parse(data)
    return text


def _taken(texts: list[str], codes: NDArray[np.int64]) -> pa.Array:
    """Return the texts with the numbers in `codes`, in their order."""
    return pa.array(texts, pa.string()).take(pa.array(codes))
