"""The mapped file queue as a running broker holds it: files with write positions in memory, loaded, cut, extended – and never written.

What the broker would write is an overlay over the bytes on disk, so later steps of the simulation read what the broker would read.
Source: `MappedFileQueue`, `DefaultMappedFile`; fact sheet commit log §4.2, §5.4, queues §2.7.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from operator import attrgetter
from pathlib import Path

from rmqstore.prediction.blockers import BlockerCode, LoadStopped, Unknown
from rmqstore.prediction.changes import Changes
from rmqstore.prediction.java import offset_name, parse_long, quotient, remainder
from rmqstore.store.entries import Entry
from rmqstore.store.mapped import MappedFile, list_directory, parse_offset_name
from rmqstore.store.obstacles import kind_of
from rmqstore.store.window import open_read_only, read_descriptor
from rmqstore.versions import Profile

_PIECE = 1 << 20


class SimulatedFile:
    """One mapped file: its bytes on disk, if any, and what the broker has written over them. `wrote` is its write position (bytes)."""

    __slots__ = ("_filled", "_filler", "_overlay", "_overlay_start", "first_in_queue", "length", "location", "on_disk", "start", "wrote")

    def __init__(self, location: str, start: int, length: int, *, on_disk: bool, wrote: int, first_in_queue: bool = False) -> None:
        self.location = location
        self.start = start
        self.length = length
        self.on_disk = on_disk
        self.wrote = wrote
        self.first_in_queue = first_in_queue
        self._overlay = bytearray()
        self._overlay_start = 0
        self._filler = b""
        self._filled = 0

    @property
    def path(self) -> Path:
        """Return the path of the file."""
        return Path(self.location)

    @property
    def end(self) -> int:
        """Return the offset after the last byte of the file."""
        return self.start + self.length

    @property
    def full(self) -> bool:
        """Return whether nothing can be appended."""
        return self.wrote == self.length

    def read(self, position: int, length: int) -> bytes:
        """Return `length` bytes from byte `position` of the file as the broker sees them; fewer at its end. Raises UnreadableError."""
        length = max(0, min(length, self.length - position))
        overlay_end = self._overlay_start + len(self._overlay)
        if self._overlay_start <= position and position + length <= overlay_end:
            return bytes(self._overlay[position - self._overlay_start : position - self._overlay_start + length])
        data = self._below(position, length)
        begin, end = max(position, self._overlay_start), min(position + length, overlay_end)
        if begin >= end:
            return data
        written = self._overlay[begin - self._overlay_start : end - self._overlay_start]
        return data[: begin - position] + written + data[end - position :]

    def append(self, data: bytes) -> None:
        """Write at the write position and advance it."""
        self.put(self.wrote, data)
        self.wrote += len(data)

    def fill(self, unit: bytes, count: int) -> None:
        """Write `unit` `count` times from the start of the file, which has no written bytes yet; takes no memory."""
        self._filler, self._filled = unit, len(unit) * count
        self.wrote = self._filled

    def put(self, position: int, data: bytes) -> None:
        """Write at `position`."""
        if not self._overlay:
            self._overlay_start = position
        elif position < self._overlay_start:
            self._overlay[:0] = self._below(position, self._overlay_start - position)
            self._overlay_start = position
        at = position - self._overlay_start
        if at > len(self._overlay):
            self._overlay += self._below(self._overlay_start + len(self._overlay), at - len(self._overlay))
        self._overlay[at : at + len(data)] = data

    def differs_from_disk(self, before: bool) -> bool:
        """Return whether the bytes differ from those of the file of that name `before`, which did or did not exist."""
        if not before:
            return False
        if self.on_disk and not self._filled:
            return self._differs(self._overlay_start, len(self._overlay))
        if self.path.stat().st_size != self.length:
            return True
        return any(self._differs(position, _PIECE) for position in range(0, self.length, _PIECE))

    def _differs(self, position: int, length: int) -> bool:
        length = min(length, self.length - position)
        return length > 0 and self._old(position, length) != self.read(position, length)

    def _below(self, position: int, length: int) -> bytes:
        """Return bytes below the overlay."""
        if position >= self._filled:
            return self._disk(position, length)
        inside = min(length, self._filled - position)
        first = position % len(self._filler)
        pattern = self._filler * (-(-(first + inside) // len(self._filler)))
        return pattern[first : first + inside] + self._disk(position + inside, length - inside)

    def _disk(self, position: int, length: int) -> bytes:
        return self._old(position, length) if self.on_disk and length > 0 else bytes(max(0, length))

    def _old(self, position: int, length: int) -> bytes:
        """Return bytes of the file of that name on disk, zeros after its end."""
        with open_read_only(self.location) as descriptor:
            there = max(0, min(length, os.fstat(descriptor).st_size - position))
            return read_descriptor(descriptor, self.location, position, there).ljust(length, b"\0")


class MappedFiles:
    """The files of one queue, in name order, and where the next one is created."""

    def __init__(self, directories: Iterable[Path | str], file_size: int, changes: Changes) -> None:
        self.directories = tuple(directories)
        self.file_size = file_size
        self.files: list[SimulatedFile] = []
        self.flushed_where = 0
        self.ignored: tuple[MappedFile, ...] = ()
        self._changes = changes

    def load(self, profile: Profile) -> None:
        """List the directories and map every file, as the broker does. Raises LoadStopped; files before the bad one stay loaded.

        `ignored`: files that are not mapped, and do not stop the load.
        """
        entries = sorted((entry for directory in self.directories for entry in list_directory(directory)), key=attrgetter("name"))
        for number, entry in enumerate(entries):
            length = entry.length
            if length != self.file_size and not profile.checks_file_length:
                self.ignored = tuple(_unmapped(entries[number:]))
                return
            if entry.is_dir():
                if profile.skips_directories:
                    continue
                raise _stopped(BlockerCode.DIRECTORY, "there is a directory among the files; its length does not match", entry)
            if length == 0:
                if profile.deletes_empty_last_file and number == len(entries) - 1:
                    self._changes.delete(Path(entry.path))
                    continue
                raise _stopped(BlockerCode.EMPTY_FILE, "0 length not matched message store config value, please check it manually", entry)
            if length != self.file_size:
                text = f"{length} length not matched message store config value, please check it manually"
                raise _stopped(BlockerCode.FILE_LENGTH, text, entry)
            start = parse_long(entry.name)
            if start is None:
                raise _stopped(BlockerCode.FILE_NAME, f"load exception: the name {entry.name!r} is no offset", entry)
            self.files.append(SimulatedFile(entry.path, start, self.file_size, on_disk=True, wrote=self.file_size))

    @property
    def min_offset(self) -> int:
        """Return the start of the first file, −1 without files."""
        return self.files[0].start if self.files else -1

    @property
    def max_offset(self) -> int:
        """Return the offset after the last written byte, 0 without files."""
        return self.files[-1].start + self.files[-1].wrote if self.files else 0

    @property
    def last(self) -> SimulatedFile | None:
        """Return the last file."""
        return self.files[-1] if self.files else None

    def find(self, offset: int) -> SimulatedFile | None:
        """Return the file that holds `offset`; at offset 0 the first file if none does (`findMappedFileByOffset`)."""
        if not self.files:
            return None
        first, last = self.files[0], self.files[-1]
        if first.start <= offset < last.start + self.file_size:
            index = quotient(offset, self.file_size) - quotient(first.start, self.file_size)
            if 0 <= index < len(self.files) and self.files[index].start <= offset < self.files[index].end:
                return self.files[index]
            for file in self.files:
                if file.start <= offset < file.end:
                    return file
        return first if offset == 0 else None

    def truncate_dirty(self, offset: int) -> None:
        """Set the positions of the file that holds `offset` and delete the files after it. No byte is written (commit log §5.4)."""
        kept = []
        for file in self.files:
            if file.start + self.file_size > offset:
                if offset < file.start:
                    self._changes.delete(file.path)
                    continue
                file.wrote = remainder(offset, self.file_size)
            kept.append(file)
        self.files = kept

    def delete(self, file: SimulatedFile) -> None:
        """Delete one file."""
        self._changes.delete(file.path)
        self.files.remove(file)

    def destroy(self) -> None:
        """Delete all files and then the directory if it is empty."""
        for file in self.files:
            self._changes.delete(file.path)
        self.files = []
        self.flushed_where = 0
        for directory in self.directories:
            self._changes.remove_directory_if_empty(Path(directory))

    def last_for_append(self, start_offset: int) -> SimulatedFile:
        """Return the file for the next bytes; create it if there is none or the last one is full. `start_offset` names the very first."""
        last = self.last
        if last is None:
            return self._create(start_offset - remainder(start_offset, self.file_size), first=True)
        if last.full:
            return self._create(last.start + self.file_size, first=False)
        return last

    def _create(self, start: int, *, first: bool) -> SimulatedFile:
        path = Path(self.directories[0], offset_name(start))
        # A file that exists but was not loaded is opened unchanged; its bytes stay until they are overwritten.
        left_over = self._changes.exists(path)
        if left_over and path.exists() and not path.is_file():
            raise Unknown(f"the broker needs the file {path.name} in {path.parent}, and there is a {kind_of(path)} of that name")
        if not left_over:
            self._changes.create(path)
        file = SimulatedFile(str(path), start, self.file_size, on_disk=left_over, wrote=0, first_in_queue=first)
        self.files.append(file)
        return file

    def settle(self) -> None:
        """Record which files end with other bytes."""
        for file in self.files:
            if file.differs_from_disk(file.on_disk or file.path.is_file()):
                self._changes.modify(file.path)


def _stopped(code: BlockerCode, text: str, entry: Entry) -> LoadStopped:
    return LoadStopped(code, text, Path(entry.path))


def _unmapped(entries: Iterable[Entry]) -> Iterator[MappedFile]:
    for entry in entries:
        start = parse_offset_name(entry.name)
        if start is not None and not entry.is_dir():
            yield MappedFile(Path(entry.path), start, entry.length, entry.length)
