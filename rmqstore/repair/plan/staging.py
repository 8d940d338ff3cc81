"""The staging area, which holds new files, complete and on the disk, before any of them is moved to its place in the store.

Files of a plan that is only shown are complete as well, but are not forced to the disk.
"""

from __future__ import annotations

import errno
import mmap
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import TYPE_CHECKING

from rmqstore.repair.files import beneath
from rmqstore.repair.files.writer import Writer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_NO_ROOM = 16 * mmap.PAGESIZE
"""Free bytes: a system with fewer of them may refuse a page already."""


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A complete file of the staging area: `name` in it, `length` in bytes."""

    path: Path
    name: str
    length: int


@dataclass(frozen=True, slots=True)
class _Open:
    path: Path
    length: int
    descriptor: int
    mapping: mmap.mmap
    faults: int


class Staging:
    """A directory of staged files, made when the first one is. `open`, `write` and `close` are a sink for rebuilt files."""

    def __init__(self, directory: Path, writer: Writer | None = None, *, forced: bool = True) -> None:
        """Take the directory for the files. `forced`: a file that is closed is on the disk."""
        self.directory = directory
        self.forced = forced
        self._writer = writer or Writer()
        self._open: dict[str, _Open] = {}
        self._created: dict[str, StagedFile] = {}
        self._unforced: list[Path] = []
        self._count = 0

    @classmethod
    @contextmanager
    def temporary(cls, *, forced: bool = False) -> Iterator[Staging]:
        """Make a staging area outside of the store that is removed afterwards, for plans that are only shown, or kept in a file."""
        with TemporaryDirectory(prefix="rmqstore-") as directory:
            staging = cls(Path(directory), forced=forced)
            try:
                yield staging
            finally:
                staging.discard_open()

    def open(self, relative_path: str, length: int) -> NDArray[np.uint8]:
        """Return zeros to write to: a new file of `length` bytes (at least 1), sparse and mapped. Several may be open, one of each name.

        Raises OSError, ValueError (a name that is open already).
        """
        if relative_path in self._open:
            raise ValueError(f"{relative_path} is being staged already")
        path = self._next_path()
        with self._writer.create(path) as descriptor:
            self._writer.truncate(descriptor, path, length)
            return self._map(relative_path, path, length, descriptor)

    def create(self, relative_path: str, length: int) -> None:
        """Make a file of `length` zeros that is not kept open, so there may be any number. Raises OSError."""
        path = self._next_path()
        with self._writer.create(path) as descriptor:
            self._writer.truncate(descriptor, path, length)
        self._created[relative_path] = StagedFile(path, path.name, length)

    def discard(self, relative_path: str) -> None:
        """Remove a file that was created and is not complete. Raises OSError."""
        self._writer.unlink(self._created.pop(relative_path).path)

    def read(self, relative_path: str, position: int, length: int) -> bytes:
        """Return bytes of a file that was created and is not complete. Raises OSError."""
        path = self._created[relative_path].path
        with beneath.regular_file(path, os.O_RDONLY) as descriptor:
            return os.pread(descriptor, length, position)

    def reopen(self, relative_path: str, staged: StagedFile) -> NDArray[np.uint8]:
        """Return the bytes of a staged file, to continue writing to them. Raises OSError, ValueError (a name that is open already)."""
        if relative_path in self._open:
            raise ValueError(f"{relative_path} is being staged already")
        with self._writer.change(staged.path) as descriptor:
            return self._map(relative_path, staged.path, staged.length, descriptor)

    def _map(self, relative_path: str, path: Path, length: int, descriptor: int) -> NDArray[np.uint8]:
        import numpy as np

        from rmqstore.scan import sigbus

        sigbus.install()  # a full disk under a mapping raises a signal
        mapping = mmap.mmap(descriptor, length)
        # Single pages, as they are touched. Otherwise the system reads ahead into the holes of new files, and clears pages that are not
        # used; large pages have to be found first, which takes longer where memory is full of other files or comes from a host.
        mapping.madvise(mmap.MADV_RANDOM)
        self._open[relative_path] = _Open(path, length, os.dup(descriptor), mapping, sigbus.faults())
        return np.frombuffer(mapping, dtype=np.uint8)

    def write(self, relative_path: str, position: int, data: NDArray[np.uint8]) -> None:
        """Write bytes to a file that is not complete, at a sixth of the cost of touching its pages one by one. Raises OSError."""
        created = self._created.get(relative_path)
        if created is None:
            staged = self._open[relative_path]
            self._writer.write(staged.descriptor, staged.path, position, data.data)
        else:
            with self._writer.change(created.path) as descriptor:
                self._writer.write(descriptor, created.path, position, data.data)

    def close(self, relative_path: str) -> StagedFile:
        """Complete a file. A created one is on the disk after `sync`. Raises OSError (among others if the disk became full)."""
        from rmqstore.scan import sigbus

        created = self._created.pop(relative_path, None)
        if created is not None:
            self._unforced.append(created.path)
            return created

        staged = self._open.pop(relative_path)
        try:
            if self.forced:
                staged.mapping.flush()
            if sigbus.faults() != staged.faults:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(staged.path))
            if self.forced:
                self._writer.fsync(staged.descriptor, staged.path)
        finally:
            _release(staged)
        return StagedFile(staged.path, staged.path.name, staged.length)

    def add(self, data: bytes, length: int | None = None) -> StagedFile:
        """Stage a file with these bytes, and zeros up to `length` if it is given. Raises OSError."""
        length = len(data) if length is None else length
        path = self._next_path()
        with self._writer.create(path) as descriptor:
            self._writer.write(descriptor, path, 0, data)
            if length > len(data):
                self._writer.truncate(descriptor, path, length)
            if self.forced:
                self._writer.fsync(descriptor, path)
        return StagedFile(path, path.name, length)

    @contextmanager
    def attempts(self) -> Iterator[Path]:
        """Make a directory in which other processes make staging areas of their own; files not adopted are removed afterwards."""
        if not beneath.is_directory(self.directory):
            self._writer.mkdir(self.directory)
        directory = Path(mkdtemp(prefix="attempts-", dir=self.directory))
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    @classmethod
    def attempt(cls, directory: Path, *, forced: bool) -> Staging:
        """Make a staging area of one attempt in a directory of `attempts`; `forced` as the area that the directory belongs to."""
        return cls(Path(mkdtemp(dir=directory)), forced=forced)

    def adopt(self, staged: StagedFile) -> StagedFile:
        """Move a file that an attempt completed into this area. Raises OSError."""
        path = self._next_path()
        self._writer.rename(staged.path, path)
        return StagedFile(path, path.name, staged.length)

    @property
    def is_full(self) -> bool:
        """Whether the disk has no free space."""
        disk = os.statvfs(self.directory)
        return disk.f_bavail * disk.f_frsize < _NO_ROOM

    def sync(self) -> None:
        """Force the names of all staged files to the disk, and the bytes of those that were created without being open. Raises OSError."""
        if not self.forced or not beneath.is_directory(self.directory):
            return
        self._writer.fsync_all(self._unforced)
        self._unforced.clear()
        self._writer.fsync_directory(self.directory)

    def discard_open(self) -> None:
        """Discard files that were never completed, as after an error."""
        for staged in self._open.values():
            _release(staged)
        self._open.clear()
        self._created.clear()

    def _next_path(self) -> Path:
        if not self._count and not beneath.is_directory(self.directory):
            self._writer.mkdir(self.directory)
        self._count += 1
        return self.directory / f"{self._count:06d}"


def _release(staged: _Open) -> None:
    # A reference to the array keeps the memory mapped until it is dropped.
    with suppress(BufferError):
        staged.mapping.close()
    os.close(staged.descriptor)
