"""A reader of the commit log, one run of records at a time: compiled walker for valid records, the broker's own check for the rest.

A run ends where the walker finds no valid record, or where the release refuses one of valid structure. There the caller applies the
check. Nothing is resynchronised: a broker never looks beyond a bad record.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rmqstore.errors import StoreChangedError
from rmqstore.formats.layout import fixed_layout
from rmqstore.formats.message import MESSAGE_MAGIC_V2, RECORD_PREFIX
from rmqstore.formats.sysflag import SysFlag
from rmqstore.prediction.log.mappedfiles import SimulatedFile
from rmqstore.prediction.log.readahead import one_ahead
from rmqstore.prediction.log.record_check import Checked, RecordCheck, Request
from rmqstore.scan import sigbus
from rmqstore.scan.columns import RECORD_DTYPE, Check, Fault, Mark, Stop
from rmqstore.scan.keys import keys_of
from rmqstore.scan.walk import Batch, LogScanner
from rmqstore.store.mapped import MappedFile
from rmqstore.store.window import Window, map_window

_MAGIC = fixed_layout(RECORD_PREFIX)["magic_code"]
_LAST_BYTE_OF_V2 = MESSAGE_MAGIC_V2 & 0xFF
_IPV6 = int(SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6)
# What compiled code leaves to the reader of the properties. A topic with unexpected bytes may be malformed.
_SPECIAL_MARKS = Mark.INNER_BATCH | Mark.MULTI_DISPATCH | Mark.MALFORMED_TEXT
# Large runs: each run costs one step per queue in it.
_WINDOW = 32 << 20
_BATCH = 32768
_REQUEST_COLUMNS = ("physical_offset", "size", "queue_id", "queue_offset", "store_timestamp", "tags_code", "sys_flag")


@dataclass(frozen=True, slots=True)
class Records:
    """Valid records in a row. `records` and `keys` are the scan's columns; `requests` has those that were decoded one by one, by row."""

    records: npt.NDArray[np.void]
    keys: npt.NDArray[np.void]
    requests: dict[int, Request] = field(default_factory=dict)

    def first(self, count: int) -> Records:
        """Return the first records."""
        if count == len(self.records):
            return self
        keys = self.keys[: int(np.searchsorted(self.keys["record"], count))]
        return Records(self.records[:count], keys, {row: request for row, request in self.requests.items() if row < count})


class LogReader:
    """Reads log files as one caller of the check does. Queues have dense numbers over all files of one reader."""

    def __init__(self, check: RecordCheck, *, lead: int = 0) -> None:
        """`lead`: bytes before every record, those of the header of a DLedger entry."""
        self.check = check
        wanted = Check.KEYS
        if check.verifies_body_crc:
            wanted |= Check.BODY_CRC
        if check.verifies_property_crc:
            wanted |= Check.PROPERTY_CRC
        self._scanner = _RunScanner(checks=wanted, delays=check.delay_levels, lead=lead)

    def runs(self, file: SimulatedFile, position: int, end: int) -> Iterator[Records]:
        """Yield runs of records from byte `position` of the file; `end` is the end of the caller's buffer. Raises StoreChangedError."""
        replaced = sigbus.faults()
        batches = self._scanner.run(_mapped(file, end), position)
        for batch in one_ahead(batches) if end - position > _WINDOW else batches:
            records, keys = batch.records, batch.keys
            cut, requests = self._judge(batch)
            if cut < len(records):
                records, keys = records[:cut], keys[: int(np.searchsorted(keys["record"], cut))]
            if batch.marks & Mark.MALFORMED_TEXT or batch.faults & Fault.TOPIC:
                records, keys = _decoded(records, keys, requests)
            if len(records):
                yield Records(records, keys, requests)
            if cut < len(batch.records):
                break
        if sigbus.faults() != replaced:
            raise StoreChangedError(
                f"{file.path} became shorter while it was read", "Run the command again when nothing writes to the store."
            )

    def one(self, found: Checked) -> Records:
        """Return a record that the check accepted, as a run of one."""
        request = found.request
        assert request is not None, "only a record has a request"
        records = np.zeros(1, RECORD_DTYPE)
        for name in _REQUEST_COLUMNS:
            records[name] = getattr(request, name)
        records["queue"] = self._scanner.number_of(request.topic, request.queue_id)
        return Records(records, _keys_of(request, 0), {0: request})

    def queue_name(self, number: int) -> tuple[str, int]:
        """Return (topic as Java decodes it, queue id) of a number in the column `queue`."""
        return self._scanner.queue(number)

    def _judge(self, batch: Batch) -> tuple[int, dict[int, Request]]:
        """Return how many of the walker's records the release accepts before it refuses one, and those that had to be decoded for that."""
        cut = min((int(found.argmax()) for found in self._refused(batch) if found.any()), default=len(batch.records))
        requests: dict[int, Request] = {}
        for row in self._rows_to_decode(batch, cut):
            found = self.check.at(batch.window, int(batch.records["position"][row]) - batch.origin)
            if found.request is None:
                return row, requests
            requests[row] = found.request
        return cut, requests

    def _refused(self, batch: Batch) -> Iterator[npt.NDArray[np.bool_]]:
        """Yield which records fail a check of the release, for every check that one of them can fail."""
        records = batch.records
        if batch.faults & Fault.DELAY:
            yield (records["faults"] & Fault.DELAY) != 0
        if batch.faults & Fault.BODY_CRC and self.check.verifies_body_crc:
            yield ((records["faults"] & Fault.BODY_CRC) != 0) & (records["body_length"] > 0)
        if self.check.verifies_property_crc:
            yield ((records["faults"] & Fault.PROPERTY_CRC) != 0) | ((records["marks"] & Mark.PROPERTY_CRC) == 0)
        if not self.check.reads_ipv6:
            yield (records["sys_flag"] & _IPV6) != 0
        if not self.check.reads_v2:
            yield batch.window[records["position"] - batch.origin + _MAGIC.end - 1] == _LAST_BYTE_OF_V2

    def _rows_to_decode(self, batch: Batch, cut: int) -> list[int]:
        if self.check.decodes_all:
            return list(range(cut))
        if not (batch.marks & _SPECIAL_MARKS or batch.faults & Fault.TOPIC):
            return []
        records = batch.records[:cut]
        return [int(row) for row in np.flatnonzero((records["marks"] & _SPECIAL_MARKS) | (records["faults"] & Fault.TOPIC))]


class _RunScanner(LogScanner):
    """The scanner without its resync: only the run of valid records from one position. A batch stays valid while the next is read."""

    def __init__(self, *, checks: Check, delays: Sequence[int], lead: int) -> None:
        super().__init__(checks=checks, delays=delays, lead=lead, batch=_BATCH, buffers=2)

    def run(self, file: MappedFile, position: int) -> Generator[Batch, None, None]:
        """Yield batches from byte `position` of the file up to the first byte that begins no valid record."""
        window = _WINDOW
        while position < file.length:
            length = min(window, file.length - position)
            with map_window(file, position, length) as mapped:
                reached, reason, _ = yield from self._walk_window(file, position, mapped.array)
            if reason is not Stop.WINDOW_END:
                return
            window = _WINDOW if reached > position else window * 2
            position = reached


def open_window(file: SimulatedFile, end: int) -> Window:
    """Return the first `end` bytes of a file, mapped for the check. Raises UnreadableError, StoreChangedError."""
    return map_window(_mapped(file, file.length), 0, end)


def _mapped(file: SimulatedFile, length: int) -> MappedFile:
    return MappedFile(file.path, file.start, length, length)


def _keys_of(request: Request, row: int) -> npt.NDArray[np.void]:
    return keys_of(request.topic, request.properties, request.sys_flag, row)


def _decoded(
    records: npt.NDArray[np.void], keys: npt.NDArray[np.void], requests: dict[int, Request]
) -> tuple[npt.NDArray[np.void], npt.NDArray[np.void]]:
    """Return the columns with tags and keys of malformed text as Java reads them."""
    records = records.copy()
    malformed = ((records["marks"] & Mark.MALFORMED_TEXT) | (records["faults"] & Fault.TOPIC)) != 0
    rows = [row for row in requests if row < len(records) and malformed[row]]
    for row in rows:
        records["tags_code"][row] = requests[row].tags_code
    kept = keys[~np.isin(keys["record"], rows)]
    merged = np.concatenate([kept, *(_keys_of(requests[row], row) for row in rows)])
    return records, merged[np.argsort(merged["record"], kind="stable")]
