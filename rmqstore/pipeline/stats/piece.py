"""The counts of one piece of a log: batches of columns into a tally per dimension, and the bytes between and after the records."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from rmqstore.formats.dledger import END_MAGIC
from rmqstore.formats.javahash import decode_java_utf8
from rmqstore.formats.record import BLANK_MAGIC
from rmqstore.formats.sysflag import SysFlag
from rmqstore.pipeline.logparts import LogPiece, PieceReader
from rmqstore.pipeline.stats.counts import Counts, Sums, Value
from rmqstore.pipeline.stats.kernels_tally import KEYS_DTYPE, NO_TAG, TALLY_DTYPE, describe
from rmqstore.pipeline.stats.tally import MOST_KEYS, Tally
from rmqstore.pipeline.stats.weights import Scales, StoreFacts, Weight
from rmqstore.reading.progress import Advance
from rmqstore.scan.columns import Check, Fault
from rmqstore.scan.kernels.offsets import BORN_HOST, BORN_HOST_V6, ENTRY_MAGIC, MAGIC
from rmqstore.scan.walk import Batch
from rmqstore.store.window import read_at

HOUR_MS = 3_600_000
COMPRESSED = 8
"""Code of a compression: 0 for none, else this bit and the type in SYSFLAG."""
_END_HEAD = 8

Keys = Callable[[Batch], npt.NDArray[np.int64]]
Name = Callable[[Batch, int, int], Value]
"""(batch, row, key) → the value of a key, called once, when the key is new."""


class PieceCounter:
    """Counts the records of one piece."""

    def __init__(self, piece: LogPiece, facts: StoreFacts) -> None:
        """Raise what PieceReader raises."""
        self._piece = piece
        self._reader = PieceReader(piece, Check(0))
        self._scales = Scales(facts, self._reader.scanner)
        self._described = np.zeros(0, KEYS_DTYPE)
        self._rows = np.zeros(0, TALLY_DTYPE)
        self._fresh = np.zeros(0, np.int64)
        self._counts = Counts()

    def counts(self, advance: Advance) -> Counts:
        """Read the piece. Raises StoreChangedError, UnreadableError."""
        reached = self._piece.start
        # A local name: with an attribute of the counter, its buffers would be in a cycle and remain until the next collection.
        sources = {name: _Source(keys, named) for name, (keys, named) in self._dimensions().items()}
        for batch in self._reader.batches(advance):
            self._add(batch, sources.values())
            last = batch.records[-1]
            reached = int(last["position"]) + int(last["size"])
        for name, source in sources.items():
            self._counts.dimensions[name] = source.sums()
        self._add_rest(reached)
        return self._counts

    def _dimensions(self) -> dict[str, tuple[Keys, Name]]:
        scanner = self._reader.scanner

        def queue_name(number: int) -> str:
            topic, queue_id = scanner.queue(number)
            return f"{topic}/{queue_id}"

        return {
            "topic": (lambda batch: batch.records["topic"], lambda batch, row, key: scanner.topic(key)),
            "queue": (lambda batch: batch.records["queue"], lambda batch, row, key: queue_name(key)),
            "tag": (lambda batch: self._described["tag"][: len(batch.records)], self._tag),
            "host": (lambda batch: self._described["host"][: len(batch.records)], _host),
            "day": (lambda batch: batch.records["store_timestamp"] // (24 * HOUR_MS), _number),
            "hour": (lambda batch: batch.records["store_timestamp"] // HOUR_MS, _number),
            "size": (lambda batch: np.frexp(batch.records["size"])[1] - 1, _number),
            "compression": (lambda batch: _compression(batch.records["sys_flag"]), _number),
            "weight": (self._scales.weigh, _number),
        }

    def _add(self, batch: Batch, sources: Iterable[_Source]) -> None:
        records = batch.records
        count = len(records)
        if count > len(self._rows):
            self._described = np.zeros(count, KEYS_DTYPE)
            self._rows = np.zeros(count, TALLY_DTYPE)
            self._fresh = np.zeros(count, np.int64)
        describe(batch.window.ctypes.data, batch.origin, records.ctypes.data, count, self._described.ctypes.data)
        rows = self._rows[:count]
        rows["messages"] = 1
        rows["bytes"] = records["size"]
        for source in sources:
            source.add(batch, rows, self._fresh)
        totals = self._counts.totals
        totals.messages += count
        totals.bytes += int(rows["bytes"].sum())
        times = records["store_timestamp"]
        if batch.faults & Fault.STORE_TIMESTAMP:
            times = times[(records["faults"] & Fault.STORE_TIMESTAMP) == 0]
        if len(times):
            totals.saw(int(times.min()), int(times.max()))

    def _tag(self, batch: Batch, row: int, key: int) -> str:
        if key == NO_TAG:
            return ""
        _, _, start, length = self._described[row].tolist()
        return decode_java_utf8(batch.window[start : start + length].tobytes())

    def _add_rest(self, reached: int) -> None:
        """Count what is no record: damaged ranges, headers of entries, and how the file ends."""
        file, totals = self._reader.file, self._counts.totals
        header = self._piece.lead
        sizes = Counter({Weight.ENTRY_HEADER: totals.messages * header})
        for damage in self._reader.damages:
            sizes[Weight.DAMAGED] += damage.end - damage.start
            reached = max(reached, damage.end)
        left = self._piece.end - reached
        if left > 0:
            head = read_at(file, reached - file.start, min(_END_HEAD, left))
            sizes[Weight.BLANK if _is_blank(head, entries=header > 0) else Weight.UNWRITTEN] += left
        for weight, size in sizes.items():
            if size:
                self._counts.of("weight").add(int(weight), 0, size)
        totals.damaged_ranges = len(self._reader.damages)
        totals.log_bytes = self._piece.size


class _Source:
    """A dimension of a piece: the source of keys, the messages that have them, and the values of keys."""

    def __init__(self, keys: Keys, name: Name) -> None:
        self._keys = keys
        self._name = name
        self._tally = Tally()
        self._values: dict[int, Value] = {}

    def add(self, batch: Batch, rows: npt.NDArray[np.void], fresh: npt.NDArray[np.int64]) -> None:
        """Count the records of a batch; `rows` hold their messages and bytes, and have room for their keys."""
        rows["key"] = self._keys(batch)
        for row in fresh[: self._tally.add(rows, fresh)].tolist():
            key = int(rows["key"][row])
            self._values[key] = self._name(batch, row, key)
        if len(self._values) > 2 * MOST_KEYS:
            self._values = {key: self._values[key] for key in self._tally.rows()["key"].tolist()}

    def sums(self) -> Sums:
        """Return the counts."""
        sums = Sums()
        for key, messages, size in self._tally.rows().tolist():
            sums.add(self._values[key], messages, size)
        sums.add_rest(*self._tally.rest)
        sums.exact = not sums.rest.values
        return sums


def _number(batch: Batch, row: int, key: int) -> int:
    return key


def _host(batch: Batch, row: int, key: int) -> str:
    record = batch.records[row]
    start = int(record["position"]) - batch.origin + BORN_HOST
    width = 16 if int(record["sys_flag"]) & BORN_HOST_V6 else 4
    return str(ipaddress.ip_address(batch.window[start : start + width].tobytes()))


def _compression(sys_flags: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Return 0 for a body as it was sent, else COMPRESSED and the compression type of SYSFLAG."""
    kinds = COMPRESSED | ((sys_flags & SysFlag.COMPRESSION_TYPE_MASK) >> 8)
    return np.where(sys_flags & SysFlag.COMPRESSED, kinds, 0).astype(np.int64)


def _is_blank(head: bytes, *, entries: bool) -> bool:
    """Return whether the bytes after the last record (or DLedger entry) begin what closes a file."""
    place, magic = (ENTRY_MAGIC, END_MAGIC & 0xFFFFFFFF) if entries else (MAGIC, BLANK_MAGIC)
    return head[place : place + 4] == magic.to_bytes(4, "big")
