"""Stores that stay in memory while something is measured.

Some systems give pages of files back as soon as nobody has used them for seconds. What is measured then is the disk, or a page cache that
was read in again in smaller pieces than it was written, which more than doubles what it costs to map a file.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self

import numpy as np

_MOST = 0.5
"""Share of the memory that is free: the rest is for what is measured."""


class ResidentFile:
    """A file mapped as a whole for as long as it is measured; `words` are its bytes as uint64, up to a multiple of eight."""

    def __init__(self, path: Path) -> None:
        self.path = path
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._mapping = mmap.mmap(descriptor, 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
        finally:
            os.close(descriptor)
        self.words = np.frombuffer(self._mapping, np.uint64, len(self._mapping) // 8)

    def lock(self) -> bool:
        """Keeps all pages in memory until the mapping ends, for every process; whether the system allows it."""
        libc = ctypes.CDLL(None)
        return bool(libc.mlock(ctypes.c_void_p(self.words.ctypes.data), ctypes.c_size_t(len(self._mapping))) == 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        del self.words
        self._mapping.close()


@contextmanager
def held(root: Path) -> Iterator[bool]:
    """Keeps all files below `root` in memory; the value says whether it could be done."""
    files = [path for path in root.rglob("*") if path.is_file() and path.stat().st_size >= mmap.PAGESIZE]
    if sum(path.stat().st_blocks * 512 for path in files) > _MOST * _available():
        yield False
        return
    with suppress(ValueError, OSError):
        most = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (most if os.geteuid() else resource.RLIM_INFINITY,) * 2)
    with ExitStack() as stack:
        yield not [path for path in files if not stack.enter_context(ResidentFile(path)).lock()]


def _available() -> int:
    """Bytes of memory that programs can still have."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
