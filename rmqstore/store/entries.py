"""Directory entries as brokers see them: the target of a link; a broken link, or one to itself, is neither file nor directory."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from rmqstore.store.absent import is_absent

_BLOCK = 512


class Status(NamedTuple):
    """The fields of `os.stat_result` that are used of entries; a store has hundreds of thousands of them in memory."""

    st_mode: int
    st_uid: int
    st_size: int
    st_blocks: int
    st_mtime_ns: int


class Entry:
    """One entry of a directory that was listed. Methods are those of `os.DirEntry`, which takes six times the memory."""

    __slots__ = ("_directory", "_status", "_type", "name")

    def __init__(self, directory: str, entry: os.DirEntry[str]) -> None:
        """Take the directory with a slash at its end, and the entry. Raises OSError if the system does not know its type."""
        self.name = sys.intern(entry.name)  # most files and directories of queues share their names
        self._directory = directory
        self._type = (
            stat.S_IFLNK
            if entry.is_symlink()
            else stat.S_IFDIR
            if entry.is_dir(follow_symlinks=False)
            else stat.S_IFREG * entry.is_file(follow_symlinks=False)
        )
        self._status: Status | None = None

    @property
    def path(self) -> str:
        """Return the path of the entry."""
        return self._directory + self.name

    def is_symlink(self) -> bool:
        """Return whether it is a symbolic link."""
        return self._type == stat.S_IFLNK

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether it is a directory, or a link to one."""
        return self._is(stat.S_IFDIR, follow_symlinks)

    def is_file(self) -> bool:
        """Return whether it is a regular file, or a link to one."""
        return self._is(stat.S_IFREG, follow_symlinks=True)

    def _is(self, wanted: int, follow_symlinks: bool) -> bool:
        if self._type != stat.S_IFLNK or not follow_symlinks:
            return self._type == wanted
        try:
            return stat.S_IFMT(self.stat().st_mode) == wanted
        except OSError:  # a broken link, or one to itself
            return False

    def stat(self, *, follow_symlinks: bool = True) -> Status:
        """Return the status from the system; that of an entry that is no link is asked for once. Raises OSError."""
        if self._status is not None:
            return self._status
        found = os.stat(self.path, follow_symlinks=follow_symlinks)  # noqa: PTH116  -- the path is a string
        blocks = -(-found.st_size // _BLOCK) if is_absent(self.path) else found.st_blocks
        status = Status(found.st_mode, found.st_uid, found.st_size, blocks, found.st_mtime_ns)
        if self._type != stat.S_IFLNK:
            self._status = status
        return status

    @property
    def length(self) -> int:
        """Return the length in bytes as Java does: 0 if there is no access."""
        try:
            return self.stat().st_size
        except OSError:
            return 0


def statuses(entries: Iterable[Entry], *, follow_symlinks: bool = True) -> Iterator[tuple[Entry, Status]]:
    """Yield entries with their status, without those that were removed or renamed since they were listed. Raises OSError."""
    for entry in entries:
        try:
            yield entry, entry.stat(follow_symlinks=follow_symlinks)
        except FileNotFoundError:
            continue


def exists(path: Path) -> bool:
    """Return whether a path leads to something that this user has access to."""
    try:
        return path.exists()
    except OSError:
        return False


def is_missing(path: Path) -> bool:
    """Return whether there is nothing at a path; False also without access to it."""
    try:
        return not path.exists()
    except OSError:
        return False
