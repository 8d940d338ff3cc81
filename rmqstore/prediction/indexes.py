"""The index service: files loaded, deleted after a crash, filled with entries, rolled (fact sheet queues §6, commit log Q10).

Source: `IndexService`, `IndexFile`. Of the entries only what shows in headers is kept: their number and the hash slots they use.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rmqstore.errors import RmqstoreError
from rmqstore.formats import index as declared
from rmqstore.formats.layout import struct_format
from rmqstore.prediction.blockers import BlockerCode, LoadStopped, Unknown
from rmqstore.prediction.changes import Changes
from rmqstore.prediction.checkpoint import Checkpoint
from rmqstore.prediction.java import parse_long
from rmqstore.prediction.queues.kernels_dispatch import HEADER_DTYPE, put_keys
from rmqstore.store.mapped import list_directory
from rmqstore.store.window import read_whole
from rmqstore.versions import Profile

_HEADER = struct.Struct(struct_format(declared.HEADER))
_NEW = (0, 0, 0, 0, 0, 1)

Slots = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class IndexHeader:
    """The header of one index file; `name` is None for a file that the broker names by its clock."""

    name: str | None
    begin_timestamp: int
    end_timestamp: int
    begin_phy_offset: int
    end_phy_offset: int
    hash_slot_count: int
    index_count: int


class IndexFile:
    """A file with its header in memory. `path` is None for a file that this start creates."""

    def __init__(self, path: Path | None, slots: int, items: int, header: tuple[int, ...] = _NEW) -> None:
        self.path = path
        self._slot_count = slots
        self._items = items
        self._found = header
        self._header = np.array([(*header[:-1], max(header[-1], 1))], HEADER_DTYPE)
        self._slots: tuple[Slots, Slots] | None = None

    @property
    def full(self) -> bool:
        """Return whether the next entry has to go into another file."""
        return bool(self._header["index_count"][0] >= self._items)

    @property
    def touched(self) -> bool:
        """Return whether this start added entries."""
        return bool(self._header["index_count"][0] != max(self._found[-1], 1))

    @property
    def rewritten(self) -> bool:
        """Return whether writing the header back changes the file."""
        return self._fields() != self._found

    def put(self, records: npt.NDArray[np.void], row: int, keys: npt.NDArray[np.void], key: int, profile: Profile) -> tuple[int, int]:
        """Index records from `row` on until the file is full (queues §6.4); `key` is the first key that is not done.

        Returns row and key at which the next file continues.
        """
        before, touched = self._slots = self._slots or self._read_slots()
        used, number = int(self._header["hash_slot_count"][0]), int(self._header["index_count"][0])
        row, key = put_keys(
            records.ctypes.data,
            row,
            len(records),
            keys.ctypes.data,
            key,
            len(keys),
            int(profile.indexes_tags),
            self._header.ctypes.data,
            self._items,
            self._slot_count,
            touched.ctypes.data,
            before.ctypes.data if before.size else 0,
        )
        if not profile.counts_used_slots:
            self._header["hash_slot_count"] = used + int(self._header["index_count"][0]) - number
        return row, key

    def _read_slots(self) -> tuple[Slots, Slots]:
        """Return the hash slots in the file, no bytes if this start creates it; and a bit for each slot that got an entry."""
        length = self._slot_count * declared.SLOT_SIZE
        stored = b""
        if self.path is not None:
            stored = read_whole(self.path, declared.HEADER_SIZE + length)[declared.HEADER_SIZE :].ljust(length, b"\0")
        return np.frombuffer(stored, np.uint8), np.zeros(-(-self._slot_count // 8), np.uint8)

    def close_slots(self) -> None:
        """Release the slots of a file that gets no more entries."""
        self._slots = None

    def header(self) -> IndexHeader:
        """Return the header in memory."""
        begin_timestamp, end_timestamp, begin_phy_offset, end_phy_offset, slot_count, index_count = self._fields()
        name = None if self.path is None else self.path.name
        return IndexHeader(name, begin_timestamp, end_timestamp, begin_phy_offset, end_phy_offset, _to_int(slot_count), index_count)

    def _fields(self) -> tuple[int, ...]:
        return tuple(int(value) for value in self._header[0])


class IndexService:
    """The list of index files; the last one is being filled."""

    def __init__(self, directory: Path, profile: Profile, slots: int, items: int, changes: Changes) -> None:
        self._directory = directory
        self._profile = profile
        self._slots = slots
        self._items = items
        self._changes = changes
        self.files: list[IndexFile] = []
        self.deleted: list[IndexHeader] = []

    @property
    def file_size(self) -> int:
        """Return the number of bytes that the broker maps of every file."""
        return declared.file_size(self._slots, self._items)

    def load(self, *, last_exit_ok: bool, index_msg_timestamp: int) -> None:
        """Load the files by name; after a crash those newer than the checkpoint are deleted (queues §6.6). Raises LoadStopped."""
        if not self._directory.is_dir():
            return
        for entry in list_directory(self._directory):
            path = Path(entry.path)
            if parse_long(entry.name) is None:
                continue
            if entry.is_dir():
                raise LoadStopped(BlockerCode.INDEX, f"load file {entry.name} error: it is a directory", path)
            try:
                head = read_whole(path, _HEADER.size).ljust(_HEADER.size, b"\0")
            except RmqstoreError as error:
                raise LoadStopped(BlockerCode.INDEX, f"load file {entry.name} error: {error}", path) from error
            if entry.stat().st_size < self.file_size:
                self._changes.modify(path)
            file = IndexFile(path, self._slots, self._items, _HEADER.unpack(head))
            if not last_exit_ok and file.header().end_timestamp > index_msg_timestamp:
                self._changes.delete(path)
                self.deleted.append(file.header())
            else:
                self.files.append(file)

    def build(self, records: npt.NDArray[np.void], keys: npt.NDArray[np.void], checkpoint: Checkpoint) -> None:
        """Index records in log order: `keys` are rows of KEY_DTYPE in the same order, their `record` the row in `records`.

        The first record creates a file, even if it has no keys (queues §6.5).
        """
        row = key = 0
        while row < len(records):
            row, key = self._writable(checkpoint).put(records, row, keys, key, self._profile)

    def _writable(self, checkpoint: Checkpoint) -> IndexFile:
        last = self.files[-1] if self.files else None
        if last is not None and not last.full:
            return last
        if self._items <= 1:
            raise Unknown("index files with room for a single entry are never written")
        header = list(_NEW)
        if last is not None:
            last.close_slots()
            full = last.header()
            # A rolled file starts with the end of the full one.
            if full.end_phy_offset > 0:
                header[2] = header[3] = full.end_phy_offset
            if full.end_timestamp > 0:
                header[0] = header[1] = full.end_timestamp
                checkpoint.index_rolled(full.end_timestamp)
        if not self._directory.is_dir():
            self._changes.create_directory(self._directory)
        file = IndexFile(None, self._slots, self._items, tuple(header))
        self.files.append(file)
        return file

    def settle(self, *, flushed: bool) -> None:
        """Record which files end with other bytes; `flushed`: the stop wrote all headers."""
        for file in self.files:
            if file.path is not None and (file.rewritten if flushed else file.touched):
                self._changes.modify(file.path)


def _to_int(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31
