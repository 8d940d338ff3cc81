"""Directory entries as brokers see them: the target of a link; a broken link, or one to itself, is neither file nor directory."""

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
        """Return whether it is a symbolic link."""
        return self._entry.is_symlink()

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether it is a directory, or a link to one."""
        try:
            return self._entry.is_dir(follow_symlinks=follow_symlinks)
        except OSError:
            return False

    def is_file(self) -> bool:
        """Return whether it is a regular file, or a link to one."""
        try:
            return self._entry.is_file()
        except OSError:
            return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return the status from the system. Raises OSError."""
        return self._entry.stat(follow_symlinks=follow_symlinks)

    @property
    def length(self) -> int:
        """Return the length in bytes as Java does: 0 if there is no access."""
        try:
            return self.stat().st_size
        except OSError:
            return 0


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
