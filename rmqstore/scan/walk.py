"""A walk over one commit-log file in bounded windows: batches of record columns, damaged ranges, and how the file ends.

The walk does not stop at damage: it searches the next plausible record and continues. Memory is one window, one batch and the names of
topics and queues. All positions that leave this module are physical offsets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from rmqstore.errors import StoreChangedError
from rmqstore.formats.javahash import decode_java_utf8
from rmqstore.formats.properties import parse_properties
from rmqstore.scan import sigbus
from rmqstore.scan.columns import KEY_DTYPE, RECORD_DTYPE, Check, Fault, Mark, Oddity, Stop
from rmqstore.scan.kernels import registry
from rmqstore.scan.kernels.offsets import ENTRY_SIZE, QUEUE_ID, SIZE
from rmqstore.scan.kernels.raw import first_nonzero
from rmqstore.scan.kernels.record import resync, walk
from rmqstore.scan.names import QueueRegistry
from rmqstore.store.mapped import MappedFile
from rmqstore.store.window import Window, data_extents, map_window

WINDOW = 16 << 20
BATCH = 8192
KEYS_PER_RECORD = 4
MAX_RECORD_WINDOW = 256 << 20
_FEW = 1 << 20  # bytes

Windows = Callable[[MappedFile, int, int], Window]


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive records. The arrays are reused when `lasts` more batches were made: copy what must outlive that."""

    records: npt.NDArray[np.void]
    keys: npt.NDArray[np.void]
    window: npt.NDArray[np.uint8]
    origin: int  # physical offset of window[0]
    faults: Fault  # of any record
    marks: Mark  # of any record
    oddities: Oddity  # of any record
    lasts: int = 0

    def before(self, end: int) -> Batch:
        """Return the records that begin before a physical offset, with their keys."""
        count = int(np.searchsorted(self.records["position"], end))
        if count == len(self.records):
            return self
        return replace(self, records=self.records[:count], keys=self.keys[: int(np.searchsorted(self.keys["record"], count))])

    def record_bytes(self, row: int) -> bytes:
        """Return the stored bytes of one record."""
        start = int(self.records["position"][row]) - self.origin
        return self.window[start : start + int(self.records["size"][row])].tobytes()

    def properties_block(self, row: int) -> bytes:
        """Return the stored bytes of the properties of one record, which are at its end."""
        record = self.records[row]
        end = int(record["position"]) + int(record["size"]) - self.origin
        return self.window[end - int(record["properties_length"]) : end].tobytes()

    def properties(self, row: int) -> dict[str, str]:
        """Return the properties of one record as brokers read them."""
        return parse_properties(self.properties_block(row))


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes [start, end) that are no records. `resumed`: a plausible record (or the closing BLANK) begins at `end`.

    For a damage that nothing follows, `end` is the end of the last byte that is not zero.
    """

    start: int
    end: int
    reason: Stop
    resumed: bool
    claimed_size: int


@dataclass(frozen=True, slots=True)
class FileEnd:
    """The end of a file's records: BLANK, END_OF_DATA (zeros up to the end), TRUNCATED, or the reason of an unfollowed damage."""

    position: int
    reason: Stop


class LogScanner:
    """Scans commit-log files; topics and queues keep their dense numbers over all files of one scanner."""

    def __init__(
        self,
        *,
        checks: Check = Check(0),  # noqa: B008  -- a constant
        delays: Sequence[int] = (),
        lead: int = 0,
        windows: Windows = map_window,
        batch: int = 0,
        buffers: int = 1,
        displaced: bool = False,
    ) -> None:
        """`delays` = ms per delay level, level 1 first; `lead` = bytes before every record (a DLedger entry header) or 0;
        `windows` = the source of mapped bytes; `batch` = most records of a batch, 0 for the usual number; `buffers` = batches whose
        records and keys are there at a time, the last one included; `displaced` = continue after damage, and after a BLANK, at records of
        any PHYSICALOFFSET.
        """
        sigbus.install()
        self._names = QueueRegistry()
        self._checks = int(checks)
        self._delays = np.array([0, *delays], np.int64)
        self._lead = lead
        self._windows = windows
        self._displaced = displaced
        batch = batch or BATCH
        # Not cleared: files with few records, of which a log can have thousands, would pay for pages that they never use.
        self._records = np.empty(batch, RECORD_DTYPE)
        self._keys = np.empty(batch * KEYS_PER_RECORD + 8192, KEY_DTYPE)
        self._others = deque((np.empty_like(self._records), np.empty_like(self._keys)) for _ in range(buffers - 1))
        self._is_dropped = False
        self._topics: list[str] = []

    def drop(self) -> None:
        """Release the buffers of the last batch, which is not needed: it does not count among those that are there at a time."""
        self._is_dropped = True

    @property
    def queue_count(self) -> int:
        """Return the number of queues named so far."""
        return self._names.queue_count

    @property
    def topic_count(self) -> int:
        """Return the number of topics named so far."""
        return self._names.topic_count

    def topic(self, number: int) -> str:
        """Return the topic of a dense number."""
        while len(self._topics) <= number:
            self._topics.append(decode_java_utf8(self._names.topics[len(self._topics)]))
        return self._topics[number]

    def queue(self, number: int) -> tuple[str, int]:
        """Return (topic, queue id) of a dense number."""
        topic, queue_id = self._names.queues[number]
        return self.topic(topic), queue_id

    def number_of(self, topic: str, queue_id: int) -> int:
        """Return the dense number of a queue that no record header names."""
        return self._names.number(topic.encode("utf-8", "surrogateescape"), queue_id)

    def scan(self, file: MappedFile, *, start: int | None = None) -> Iterator[Batch | Damage | FileEnd]:
        """Yield all events of one file in offset order, the last one is always a FileEnd.

        `start` is a physical offset (a record boundary), default the start of the file. Raises StoreChangedError if the file shrinks
        while it is read, UnreadableError if it cannot be opened.
        """
        with _unchanged(file):
            yield from self._scan(file, (file.start if start is None else start) - file.start)

    def batches(self, file: MappedFile, *, start: int | None = None) -> Iterator[Batch]:
        """Yield the records of one file, otherwise as `scan`."""
        return (event for event in self.scan(file, start=start) if isinstance(event, Batch))

    def boundary(self, file: MappedFile, offset: int) -> int:
        """Return the physical offset of the first plausible record, or closing BLANK, at or after `offset`; the end of the file for none.

        Raises as `scan`.
        """
        with _unchanged(file):
            found, _ = self._resync(file, offset - file.start - 1)
        return file.end if found is None else file.start + found

    def _scan(self, file: MappedFile, at: int) -> Iterator[Batch | Damage | FileEnd]:
        window = WINDOW
        while True:
            length = min(window, file.length - at)
            if length <= 0:
                yield FileEnd(file.start + at, Stop.TRUNCATED)
                return
            with self._windows(file, at, length) as mapped:
                reached, reason, size = yield from self._walk_window(file, at, mapped.array)
            progressed = reached > at
            at = reached
            if reason is Stop.WINDOW_END:
                window = WINDOW if progressed else window * 2
                continue
            if reason is Stop.BLANK and size == file.length - at and not self._displaced:
                yield FileEnd(file.start + at, Stop.BLANK)
                return
            if reason in (Stop.END_OF_DATA, Stop.TRUNCATED) and self._last_nonzero(file, at) is None:
                yield FileEnd(file.start + at, reason)
                return
            found, closing = self._resync(file, at)
            if found is None:
                last = self._last_nonzero(file, at)
                end = at if last is None else last + 1
                yield Damage(file.start + at, file.start + end, reason, False, size)
                yield FileEnd(file.start + at, reason)
                return
            yield Damage(file.start + at, file.start + found, reason, True, size)
            at = found
            window = WINDOW
            if closing:
                yield FileEnd(file.start + at, Stop.BLANK)
                return

    def _walk_window(self, file: MappedFile, at: int, array: npt.NDArray[np.uint8]) -> Generator[Batch, None, tuple[int, Stop, int]]:
        """Yield the batches of one window; return (file position, Stop, TOTALSIZE at the stop)."""
        base = array.ctypes.data
        origin = file.start + at
        state = self._names.state
        position = count = keys = 0
        while True:
            position, count, keys, stop = walk(
                base,
                position,
                array.size,
                file.length - at,
                origin,
                self._lead,
                self._checks,
                self._delays.ctypes.data,
                self._delays.size - 1,
                state.ctypes.data,
                self._records.ctypes.data,
                count,
                self._records.size,
                self._keys.ctypes.data,
                keys,
                self._keys.size,
            )
            reason = Stop(stop)
            if reason is Stop.UNKNOWN_QUEUE:
                self._learn(array, position)
                continue
            if count:
                faults, marks, oddities = state[registry.FAULTS : registry.ODDITIES + 1].tolist()
                records, found = self._records[:count], self._keys[:keys]
                yield Batch(records, found, array, origin, Fault(faults), Mark(marks), Oddity(oddities), len(self._others))
                if not self._is_dropped:
                    self._others.append((self._records, self._keys))
                    self._records, self._keys = self._others.popleft()
                self._is_dropped = False
                state[registry.FAULTS : registry.ODDITIES + 1] = 0
            elif reason is Stop.KEYS_FULL:
                self._keys = np.empty(self._keys.size * 2, KEY_DTYPE)
            count = keys = 0
            if reason is not Stop.BATCH_FULL and reason is not Stop.KEYS_FULL:
                return at + position, reason, _int32(array, position + (ENTRY_SIZE if self._lead else SIZE))

    def _learn(self, array: npt.NDArray[np.uint8], position: int) -> None:
        """Add the queue of the record at `position` in the window, before which the walker stopped, to the names."""
        state = self._names.state
        start = int(state[registry.TOPIC_START])
        topic = array[start : start + int(state[registry.TOPIC_LENGTH])].tobytes()
        self._names.number(topic, _int32(array, position + self._lead + QUEUE_ID))

    def last_nonzero(self, file: MappedFile, offset: int) -> int | None:
        """Return the physical offset after the last byte at or after `offset` that is not zero, None for zeros only."""
        last = self._last_nonzero(file, offset - file.start)
        return None if last is None else file.start + last + 1

    def _resync(self, file: MappedFile, at: int) -> tuple[int | None, bool]:
        """Return (file position of the next plausible record, with its header, or closing BLANK after `at`; whether it is the BLANK)."""
        position = at + 1 + self._lead
        window = WINDOW
        while position < file.length:
            length = min(window, file.length - position)
            with self._windows(file, position, length) as mapped:
                array = mapped.array
                rest, origin = file.length - position, file.start + position
                found, stop = resync(array.ctypes.data, 0, array.size, rest, origin, int(self._displaced))
            reason = Stop(stop)
            if reason is Stop.NONE:
                return position + found - self._lead, False
            if reason is Stop.BLANK:
                return position + found, True
            if reason is Stop.TRUNCATED:
                return None, False
            if found == 0:
                # A record that claims more than the window: read all of it once, up to a size no broker writes, then step over it.
                if window < MAX_RECORD_WINDOW:
                    window *= 2
                else:
                    position += 1
                    window = WINDOW
            else:
                position += found
        return None, False

    def _last_nonzero(self, file: MappedFile, at: int) -> int | None:
        """Return the file position of the last byte at or after `at` that is not zero, None for zeros only. Holes are not read."""
        last = None
        # The search for holes may cost as much as the file is long, so it is not made for a few bytes.
        for start, end in data_extents(file) if file.length - at > _FEW else [(at, file.length)]:
            for begin in range(max(start, at), end, WINDOW):
                with self._windows(file, begin, min(WINDOW, end - begin)) as mapped:
                    array = mapped.array
                    if first_nonzero(array.ctypes.data, 0, array.size) < array.size:
                        last = begin + len(array.tobytes().rstrip(b"\0")) - 1
        return last


@contextmanager
def _unchanged(file: MappedFile) -> Iterator[None]:
    """Raise StoreChangedError if a file lost pages that were read."""
    replaced = sigbus.faults()
    yield
    if sigbus.faults() != replaced:
        raise StoreChangedError(f"{file.path} became shorter while it was read", "Run the command again when nothing writes to the store.")


def _int32(array: npt.NDArray[np.uint8], position: int) -> int:
    """Return the big-endian number at `position`, 0 if the array ends before."""
    data = array[position : position + 4].tobytes()
    return int.from_bytes(data, "big", signed=True) if len(data) == 4 else 0
