"""Checks that no other user could have replaced a directory or written into it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_MOST_LINKS = 40


def make_private(directory: Path) -> str | None:
    """Create a directory and its missing parents for this user alone; return as `problem_of`. Raises OSError.

    If the path to it is not safe nothing is created: another user could redirect it to any place.
    """
    missing, present = [], directory
    while not os.path.lexists(present):
        missing.append(present)
        present = present.parent
    if missing:
        problem = _problem_on_way(present)
        if problem is not None:
            return problem
        for path in reversed(missing):
            path.mkdir(mode=0o700, exist_ok=True)
    return problem_of(directory)


def problem_of(directory: Path) -> str | None:
    """Return why another user may have written the content of a directory, None if no other user can. Raises OSError.

    It has to be a directory of the effective user that no other user may write to. On the path to it, everything has to belong to this user
    or to root, and directories that others may write to need the sticky bit.
    """
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode):
        return f"{directory} is not a directory"
    if status.st_uid != os.geteuid():
        return f"{directory} belongs to user {status.st_uid}"
    if status.st_mode & _OTHERS_WRITE:
        return f"other users may write to {directory}"
    return _problem_on_way(directory)


def _problem_on_way(directory: Path) -> str | None:
    for path in _way_to(directory):
        status = path.lstat()
        if status.st_uid not in (0, os.geteuid()):
            return f"{path} belongs to user {status.st_uid}"
        if stat.S_ISDIR(status.st_mode) and status.st_mode & _OTHERS_WRITE and not status.st_mode & stat.S_ISVTX:
            return f"other users may write to {path}"
    return None


def _way_to(path: Path) -> Iterator[Path]:
    """Yield every directory and link on the way to an absolute path, and the path itself."""
    left = list(reversed(path.parts))
    at, links = Path(left.pop()), 0
    yield at
    while left:
        name = left.pop()
        if name == "..":
            at = at.parent
            continue
        below = at / name
        yield below
        if not below.is_symlink():
            at = below
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        target = below.readlink()
        left += reversed(target.parts[1:] if target.is_absolute() else target.parts)
        at = Path("/") if target.is_absolute() else at
