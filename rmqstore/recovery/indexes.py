"""The index service: files loaded, deleted after a crash, filled with items, rolled (fact sheet queues §6, commit log Q10).

Source: `IndexService`, `IndexFile`. Of the items only what shows in headers is kept: how many there are and which hash slots they use.
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
from rmqstore.recovery.blockers import BlockerCode, LoadStopped, Unknown
from rmqstore.recovery.changes import Changes
from rmqstore.recovery.checkpoint import Checkpoint
from rmqstore.recovery.java import parse_long
from rmqstore.store.mapped import list_directory
from rmqstore.store.window import read_at, read_whole
from rmqstore.versions import Profile

_HEADER = struct.Struct(struct_format(declared.HEADER))
_SLOT = np.dtype(">i4")


@dataclass(frozen=True, slots=True)
class IndexHeader:
    """One index file as it stands; `name` is None for a file that the broker names by its clock."""

    name: str | None
    begin_timestamp: int
    end_timestamp: int
    begin_phy_offset: int
    end_phy_offset: int
    hash_slot_count: int
    index_count: int


class IndexFile:
    """A file with its header in memory. `path` is None for a file that this start creates."""

    def __init__(self, path: Path | None, slots: int, items: int, header: tuple[int, ...] = (0, 0, 0, 0, 0, 1)) -> None:
        self.path = path
        self._slots = slots
        self._items = items
        self._used: npt.NDArray[np.int32] | None = None
        (
            self.begin_timestamp,
            self.end_timestamp,
            self.begin_phy_offset,
            self.end_phy_offset,
            self.hash_slot_count,
            self.index_count,
        ) = header
        self.index_count = self.index_count if self.index_count > 0 else 1
        self._loaded = header
        self.touched = False

    @property
    def full(self) -> bool:
        """Whether the next item has to go into another file."""
        return self.index_count >= self._items

    @property
    def room(self) -> int:
        """Items that still fit."""
        return max(0, self._items - self.index_count)

    def put(self, hashes: npt.NDArray[np.int64], physical_offsets: npt.NDArray[np.int64], store_timestamps: npt.NDArray[np.int64]) -> None:
        """Adds items, at most `room` of them, in the order given (queues §6.4)."""
        slots = hashes % self._slots
        numbers = np.arange(self.index_count, self.index_count + len(slots), dtype=np.int32)
        used = self._slot_table()
        # A slot counts as new where its chain is empty, or begins with a number that no item has yet.
        _, first = np.unique(slots, return_index=True)
        before = used[slots[first]]
        fresh = int(((before <= 0) | (before > numbers[first])).sum())
        used[slots] = numbers
        if self.index_count <= 1:
            self.begin_phy_offset = int(physical_offsets[0])
            self.begin_timestamp = int(store_timestamps[0])
        self.hash_slot_count = _to_int(self.hash_slot_count + fresh)
        self.index_count += len(slots)
        self.end_phy_offset = int(physical_offsets[-1])
        self.end_timestamp = int(store_timestamps[-1])
        self.touched = True

    def _slot_table(self) -> npt.NDArray[np.int32]:
        if self._used is None:
            if self.path is None:
                self._used = np.zeros(self._slots, np.int32)
            else:
                data = read_whole(self.path, declared.HEADER_SIZE + self._slots * declared.SLOT_SIZE)[declared.HEADER_SIZE :]
                self._used = np.frombuffer(data.ljust(self._slots * declared.SLOT_SIZE, b"\0"), _SLOT).astype(np.int32)
        return self._used

    def close_slots(self) -> None:
        """Forgets the slot table of a file that gets no more items."""
        self._used = None

    def header(self) -> IndexHeader:
        """The header as it stands in memory."""
        return IndexHeader(
            None if self.path is None else self.path.name,
            self.begin_timestamp,
            self.end_timestamp,
            self.begin_phy_offset,
            self.end_phy_offset,
            self.hash_slot_count,
            self.index_count,
        )

    def rewritten(self) -> bool:
        """Whether writing the header back changes the file."""
        fields = (
            self.begin_timestamp,
            self.end_timestamp,
            self.begin_phy_offset,
            self.end_phy_offset,
            self.hash_slot_count,
            self.index_count,
        )
        return self.touched or fields != self._loaded


class IndexService:
    """The list of index files, the last one being filled."""

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
        """Bytes that the broker maps of every file."""
        return declared.file_size(self._slots, self._items)

    def load(self, *, last_exit_ok: bool, index_msg_timestamp: int) -> None:
        """Loads the files by name; after a crash those newer than the checkpoint are deleted (queues §6.6). Raises LoadStopped."""
        if not self._directory.is_dir():
            return
        for entry in list_directory(self._directory):
            path = Path(entry.path)
            if parse_long(entry.name) is None:
                continue
            if entry.is_dir():
                raise LoadStopped(BlockerCode.INDEX, f"load file {entry.name} error: it is a directory", path)
            length = entry.stat().st_size
            if length < self.file_size:
                self._changes.modify(path)
            try:
                head = read_at(path, 0, min(length, _HEADER.size)).ljust(_HEADER.size, b"\0")
            except RmqstoreError as error:
                raise LoadStopped(BlockerCode.INDEX, f"load file {entry.name} error: {error}", path) from error
            file = IndexFile(path, self._slots, self._items, _HEADER.unpack(head))
            if not last_exit_ok and file.end_timestamp > index_msg_timestamp:
                self._changes.delete(path)
                self.deleted.append(file.header())
            else:
                self.files.append(file)

    def build(
        self,
        records: npt.NDArray[np.void],
        keys: npt.NDArray[np.void],
        checkpoint: Checkpoint,
    ) -> None:
        """Indexes records in log order: `keys` are rows of KEY_DTYPE in the same order, their `record` the row in `records`.

        A file is made at the first record at all, even when that has no keys (queues §6.5).
        """
        position = 0
        offsets = records["physical_offset"].astype(np.int64)
        while position < len(records):
            file = self._writable(checkpoint)
            behind = np.flatnonzero(offsets[position:] < file.end_phy_offset)
            if len(behind) and behind[0] == 0:
                position += 1
                continue
            position = self._build_run(
                file, records, keys, position, position + int(behind[0]) if len(behind) else len(records), checkpoint
            )

    def _build_run(
        self,
        file: IndexFile,
        records: npt.NDArray[np.void],
        keys: npt.NDArray[np.void],
        begin: int,
        end: int,
        checkpoint: Checkpoint,
    ) -> int:
        """Indexes records from `begin` on up to `end`, to a record behind its predecessor, or to a full file; returns where it stopped."""
        offsets = records["physical_offset"][begin:end].astype(np.int64)
        falling = np.flatnonzero(np.diff(offsets) < 0)
        if len(falling):
            end = begin + int(falling[0]) + 1
        low, high = np.searchsorted(keys["record"], [begin, end])
        if high - low > file.room:
            # The file gets full within this run: what fits, then by itself the record whose keys may straddle two files.
            end = int(keys["record"][low + file.room])
            if end == begin:
                self._build_one(file, records, keys, begin, checkpoint)
                return begin + 1
            high = np.searchsorted(keys["record"], end)
        if high > low:
            rows = keys["record"][low:high]
            file.put(keys["hash"][low:high].astype(np.int64), records["physical_offset"][rows], records["store_timestamp"][rows])
        return end

    def _build_one(
        self, file: IndexFile, records: npt.NDArray[np.void], keys: npt.NDArray[np.void], row: int, checkpoint: Checkpoint
    ) -> None:
        low, high = np.searchsorted(keys["record"], [row, row + 1])
        for key in range(low, high):
            if file.full:
                file = self._writable(checkpoint)
            file.put(
                keys["hash"][key : key + 1].astype(np.int64),
                records["physical_offset"][row : row + 1],
                records["store_timestamp"][row : row + 1],
            )

    def _writable(self, checkpoint: Checkpoint) -> IndexFile:
        last = self.files[-1] if self.files else None
        if last is not None and not last.full:
            return last
        if self._items <= 1:
            raise Unknown("index files with room for a single item are never written")
        header = [0, 0, 0, 0, 0, 1]
        if last is not None:
            last.close_slots()
            # A rolled file inherits where the full one ends.
            if last.end_phy_offset > 0:
                header[2] = header[3] = last.end_phy_offset
            if last.end_timestamp > 0:
                header[0] = header[1] = last.end_timestamp
                checkpoint.index_rolled(last.end_timestamp)
        if not self._directory.is_dir():
            self._changes.create_directory(self._directory)
        file = IndexFile(None, self._slots, self._items, tuple(header))
        self.files.append(file)
        return file

    def settle(self, *, flushed: bool) -> None:
        """Records which files end with other bytes; `flushed` says whether the stop wrote all headers."""
        for file in self.files:
            if file.path is not None and (file.rewritten() if flushed else file.touched):
                self._changes.modify(file.path)


def _to_int(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31
