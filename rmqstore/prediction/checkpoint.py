"""The checkpoint as a broker loads it, advances it and writes it back (fact sheet commit log §4.5, newer releases §6)."""

from __future__ import annotations

from pathlib import Path

from rmqstore.errors import RmqstoreError
from rmqstore.formats import checkpoint as declared
from rmqstore.formats.layout import fixed_layout
from rmqstore.prediction.blockers import BlockerCode, LoadStopped
from rmqstore.prediction.changes import Changes
from rmqstore.prediction.java import to_long
from rmqstore.store.window import read_whole
from rmqstore.versions import Profile

FIELDS = tuple(name for name in fixed_layout(declared.CHECKPOINT) if name != "reserved")
"""The longs at 0, 8, …, 40 in the order of the file."""
_MOVING = ("logics_msg_timestamp", "confirm_phy_offset")
"""Longs that advance while recovery dispatches."""


class Checkpoint:
    """The longs in memory and in the file. Fields that a release does not know keep their bytes in the file."""

    def __init__(self, path: Path, profile: Profile, *, removed: bool) -> None:
        self._path = path
        self._profile = profile
        self._found = None if removed else read_longs(path)
        self._file = list(self._found or (0,) * len(FIELDS))
        self._removed = removed
        self._extended = False
        self._flushed_beside = False
        self.values = dict.fromkeys(FIELDS, 0)
        self.waiting_logics: tuple[int, int] | None = None
        self.loaded = False

    def load(self, changes: Changes) -> None:
        """Open the file; create it, or extend it to 4096 bytes, if necessary. Raises LoadStopped if it cannot be opened."""
        if not self._removed and self._path.exists():
            if self._found is None:
                raise LoadStopped(BlockerCode.CHECKPOINT, "load exception: checkpoint cannot be opened", self._path)
            self._extended = self._path.stat().st_size < declared.FILE_SIZE
        else:
            changes.create(self._path)
        self.loaded = True
        for name in FIELDS[: self._profile.checkpoint_longs]:
            self.values[name] = self._file[FIELDS.index(name)]

    def appended(self, store_timestamp: int, physical_offset: int, *, slave: bool) -> None:
        """Advance @8, on a slave @0 as well, for a message that a queue took; from 5.5.0 on after the next full flush of the queues."""
        if slave and self._profile.slave_moves_physic:
            self.values["physic_msg_timestamp"] = store_timestamp
        if self._profile.logics_at_flush:
            self.waiting_logics = (store_timestamp, physical_offset)
        else:
            self.values["logics_msg_timestamp"] = store_timestamp

    def queues_flushed(self) -> None:
        """Record a full flush of the queues, such as the first round after a start."""
        if self.waiting_logics is not None:
            self.values["logics_msg_timestamp"], self.values["logics_physical_offset"] = self.waiting_logics
            self.waiting_logics = None

    def index_rolled(self, end_timestamp: int) -> None:
        """Advance @16 for a full index file; another thread flushes the checkpoint while dispatch continues."""
        self.values["index_msg_timestamp"] = end_timestamp
        self._file[FIELDS.index("index_msg_timestamp")] = end_timestamp
        self._flushed_beside = True

    def flush(self) -> None:
        """Write the longs that this release knows into the file."""
        self._flushed_beside = False
        for number, name in enumerate(FIELDS[: self._profile.checkpoint_longs]):
            self._file[number] = self.values[name]

    @property
    def min_timestamp(self) -> int:
        """Return T: messages stored up to it (ms) are certainly in the queues (`getMinTimestamp`)."""
        return max(0, to_long(min(self.values["physic_msg_timestamp"], self.values["logics_msg_timestamp"]) - declared.RECOVERY_MARGIN))

    @property
    def min_timestamp_index(self) -> int:
        """Return T limited to what full index files hold (`getMinTimestampIndex`)."""
        return min(self.min_timestamp, self.values["index_msg_timestamp"])

    def in_file(self) -> tuple[int | None, ...] | None:
        """Return the six longs in the file, None without a file; a long that depends on the moment of a flush is None."""
        if not self.loaded and self._found is None:
            return None
        if not self._flushed_beside:
            return tuple(self._file)
        return tuple(None if name in _MOVING else value for name, value in zip(FIELDS, self._file, strict=True))

    def settle(self, changes: Changes) -> None:
        """Record whether the file ends with other bytes."""
        if self._found is not None and (self._extended or self._flushed_beside or tuple(self._file) != self._found):
            changes.modify(self._path)


def read_longs(path: Path) -> tuple[int, ...] | None:
    """Return the six longs of the file, None if there is no readable file."""
    try:
        if not path.is_file():
            return None
        parsed = declared.parse_checkpoint(read_whole(path, declared.FILE_SIZE))
    except RmqstoreError:
        return None
    return tuple(int(parsed[name]) for name in FIELDS)
