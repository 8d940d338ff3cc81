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


@contextmanager
def fetched(files: Mapping[str, Absent]) -> Iterator[None]:
    """Fetch ranges of these files, by path, when this process reads them, until the end of the context."""
    _files.update(files)
    try:
        yield
    finally:
        for path in files:
            del _files[path]


def fill(path: Path | str, start: int, end: int) -> None:
    """Fetch a range of a file that was not fetched yet. Raises UnreadableError."""
    file = _files.get(str(path)) if _files else None
    if file is not None:
        file.fill(start, end)


def is_absent(path: Path | str) -> bool:
    """Return whether bytes of a file may not have been fetched."""
    return bool(_files) and str(path) in _files
