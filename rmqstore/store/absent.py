"""Files of a copy whose bytes are fetched when they are read: what is absent here is not a hole.

The layer that reads files (`window.py`) requests ranges before it reads them; listings (`entries.py`) show such files as allocated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol


class Absent(Protocol):
    """One such file."""

    def fill(self, start: int, end: int) -> None:
        """Bring the bytes from `start` to before `end` into the file. Raises UnreadableError."""


_files: dict[str, Absent] = {}
_copies: set[str] = set()


@contextmanager
def fetched(copy: str, files: Mapping[str, Absent]) -> Iterator[None]:
    """Fetch ranges of these files of a copy, by path, when this process reads them, until the end of the context."""
    _copies.add(copy)
    _files.update(files)
    try:
        yield
    finally:
        _copies.remove(copy)
        for path in files:
            del _files[path]


def is_copy(root: Path) -> bool:
    """Return whether a store is a temporary copy: its disk, owners and processes are not those of the store."""
    return str(root) in _copies


def fill(path: Path | str, start: int, end: int) -> None:
    """Fetch a range of a file that was not fetched yet. Raises UnreadableError."""
    file = _files.get(str(path)) if _files else None
    if file is not None:
        file.fill(start, end)


def is_absent(path: Path | str) -> bool:
    """Return whether bytes of a file may not have been fetched."""
    return bool(_files) and str(path) in _files
