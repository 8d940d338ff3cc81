"""Entries of directories as brokers see them: what a link leads to; one that leads nowhere, or to itself, is neither file nor directory."""

from __future__ import annotations

import os
from pathlib import Path


class Entry:
    """One entry of a directory that was listed. Methods are those of `os.DirEntry`, which raises for a link to itself."""

    __slots__ = ("_entry", "name", "path")

    def __init__(self, entry: os.DirEntry[str]) -> None:
        self.name = entry.name
        self.path = entry.path
        self._entry = entry

    def is_symlink(self) -> bool:
        """Whether it is a symbolic link."""
        return self._entry.is_symlink()

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a directory, or a link to one."""
        try:
            return self._entry.is_dir(follow_symlinks=follow_symlinks)
        except OSError:
            return False

    def is_file(self) -> bool:
        """Whether it is a regular file, or a link to one."""
        try:
            return self._entry.is_file()
        except OSError:
            return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return what the system knows of it. Raises OSError."""
        return self._entry.stat(follow_symlinks=follow_symlinks)

    @property
    def length(self) -> int:
        """Its length in bytes as Java says it: 0 where nothing can be looked at."""
        try:
            return self.stat().st_size
        except OSError:
            return 0


def exists(path: Path) -> bool:
    """Return whether a path leads to something that this user may look at."""
    try:
        return path.exists()
    except OSError:
        return False


def is_missing(path: Path) -> bool:
    """Return whether there is nothing at a path; False also where that cannot be looked at."""
    try:
        return not path.exists()
    except OSError:
        return False
