"""Walking a commit log file one object at a time, across damage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rmqstore.dump.resync import next_record
from rmqstore.formats.layout import fixed_layout
from rmqstore.formats.record import BLANK, BLANK_MAGIC, Record, RecordError, StopReason, decode_record
from rmqstore.reading.zeros import end_of_nonzero, first_nonzero
from rmqstore.store.mapped import MappedFile
from rmqstore.store.window import map_window, open_read_only, read_descriptor

_CHUNK = 256 * 1024
# Records up to this size are read into memory before anything about them is known; larger ones are read through a mapping.
_LARGE = 8 << 20
_HEAD = 128
_TOTAL_SIZE = fixed_layout(BLANK)["total_size"]

MakeMessage = Callable[[Record, int], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Step:
    """The content at one position of a file: an object or nothing, and where the next one begins (the file's length: nowhere).

    `unwritten`: from this position in the file on there are only zeros; they are damage only if data follow in a later file.
    """

    value: dict[str, Any] | None
    next: int
    unwritten: int | None = None


class FileSteps:
    """One file of a commit log, opened for reading in pieces. Positions are bytes in the file."""

    def __init__(self, file: MappedFile, name: str, descriptor: int, make_message: MakeMessage) -> None:
        self._file = file
        self._name = name
        self._descriptor = descriptor
        self._make_message = make_message
        self._chunk = b""
        self._chunk_start = 0

    def step(self, position: int) -> Step:
        """Return the content at `position`. Raises UnreadableError, StoreChangedError."""
        try:
            record = self._record(position)
        except RecordError as error:
            return self._not_a_record(position, error)
        return Step(self._make_message(record, self._file.start + position), position + record.size)

    def is_sound(self, position: int) -> bool:
        """Return whether a record without faults is at `position`, or the BLANK that ends the file. Raises UnreadableError."""
        try:
            record = self._record(position)
        except RecordError as error:
            return error.reason is StopReason.BLANK and "faults" not in self._blank(position)
        return "faults" not in self._make_message(record, self._file.start + position)

    def _record(self, position: int) -> Record:
        left = self._file.length - position
        head = self._read(position, min(left, _HEAD))
        size = int.from_bytes(head[: _TOTAL_SIZE.width], "big", signed=True)
        if not len(head) < size <= left:
            return _decode_head(head, size, left)
        if size <= _LARGE:
            return decode_record(self._read(position, size))
        with map_window(self._file, position, size) as window:
            view = window.array.data
            try:
                return decode_record(view)
            finally:
                view.release()

    def _not_a_record(self, position: int, error: RecordError) -> Step:
        file = self._file
        blank = self._blank(position) if error.reason is StopReason.BLANK else None
        if blank is not None and "faults" not in blank:
            return Step(blank, file.length)
        if blank is None and first_nonzero(file, position) == file.length:
            return Step(None, file.length, position)
        following = next_record(file, position + 1)
        if following is not None:
            return Step(self._damage(position, following, error), following)
        if blank is not None:
            return Step(blank, file.length)
        end = end_of_nonzero(file, position)
        return Step(self._damage(position, end, error), file.length, end if end < file.length else None)

    def _blank(self, position: int) -> dict[str, Any]:
        """Return a BLANK, with a fault if it does not reach the end of the file: if records follow, it is damage."""
        size = int.from_bytes(self._read(position, _TOTAL_SIZE.width), "big", signed=True)
        faults = {} if size == self._file.length - position else {"faults": ["size"]}
        return {"type": "blank", "physical_offset": self._file.start + position, "size": size, "magic": BLANK_MAGIC} | faults

    def _damage(self, position: int, end: int, error: RecordError) -> dict[str, Any]:
        return damage(self._file.start + position, end - position, str(error.reason), error.detail, self._name)

    def _read(self, position: int, length: int) -> bytes:
        begin = position - self._chunk_start
        if not 0 <= begin <= len(self._chunk) - length:
            wanted = min(max(_CHUNK, length), self._file.length - position)
            self._chunk = read_descriptor(self._descriptor, self._file.path, position, wanted)
            self._chunk_start = position
            begin = 0
        return self._chunk[begin : begin + length]


def _decode_head(head: bytes, size: int, left: int) -> Record:
    try:
        return decode_record(head)
    except RecordError as error:
        if error.reason is StopReason.SIZE_BEYOND_FILE:
            # The decoder got only the head, so it reports a wrong number of bytes.
            raise RecordError(error.reason, f"TOTALSIZE is {size}, {left} bytes are left") from None
        raise


def damage(offset: int, length: int, reason: str, message: str, name: str) -> dict[str, Any]:
    """Return the object for `length` bytes of a log that hold no record."""
    return {"type": "damage", "physical_offset": offset, "length": length, "reason": reason, "message": message, "file": name}


@contextmanager
def file_steps(file: MappedFile, name: str, make_message: MakeMessage) -> Iterator[FileSteps]:
    """Open one file for stepping. Raises UnreadableError."""
    with open_read_only(file.path) as descriptor:
        yield FileSteps(file, name, descriptor, make_message)
