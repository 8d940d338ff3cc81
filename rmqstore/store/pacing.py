"""Slow reads for a machine that runs a broker: a limit of bytes a second, idle I/O priority, a page cache that stays as it was.

Everything that reads large parts of files calls `before`, which does nothing unless a command was started with a limit.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_IOPRIO_CALLS = {"x86_64": (251, 252), "aarch64": (30, 31)}
"""Numbers of the system calls ioprio_set and ioprio_get; on other machines the I/O priority stays."""
_THIS_THREAD = (1, 0)
_IDLE = 3 << 13


class Pace:
    """The limit of one command, for all of its threads."""

    def __init__(self, bytes_per_second: float) -> None:
        self._rate = bytes_per_second
        self._lock = threading.Lock()
        self._next = time.monotonic()
        self._found: dict[tuple[int, int], NDArray[np.uint8]] = {}

    def before(self, descriptor: int, length: int) -> None:
        """Wait until `length` bytes of an open file may be read."""
        self._note(descriptor)
        with self._lock:
            now = time.monotonic()
            begin = max(self._next, now)
            self._next = begin + length / self._rate
        time.sleep(begin - now)

    def after(self, descriptor: int, position: int, length: int) -> None:
        """Drop the pages of a range that was read from the page cache, unless they were there when the file was first read."""
        import numpy as np

        packed = self._found[_identity(descriptor)]
        first, end = position // mmap.PAGESIZE, -(-(position + length) // mmap.PAGESIZE)
        absent = ~np.unpackbits(packed[first // 8 : -(-end // 8)]).astype(bool)
        edges = np.flatnonzero(np.diff(absent, prepend=False, append=False)) + first // 8 * 8
        for begin, stop in edges.reshape(-1, 2).tolist():
            os.posix_fadvise(descriptor, begin * mmap.PAGESIZE, (stop - begin) * mmap.PAGESIZE, os.POSIX_FADV_DONTNEED)

    def _note(self, descriptor: int) -> None:
        """Note which pages of a file are in the page cache, at its first read. Pages that it gets later count as such."""
        identity = _identity(descriptor)
        with self._lock:
            if identity not in self._found:
                self._found[identity] = _resident(descriptor)


_current: Pace | None = None


def before(descriptor: int, position: int, length: int) -> Callable[[], None] | None:
    """Wait until a range of an open file may be read; return what to call after it was read, None without a limit."""
    pace = _current
    if pace is None:
        return None
    pace.before(descriptor, length)
    kept = os.dup(descriptor)

    def after() -> None:
        pace.after(kept, position, length)
        os.close(kept)

    return after


@contextmanager
def paced(bytes_per_second: float) -> Iterator[None]:
    """Read slowly until the end of the context, in this thread and those that it starts."""
    global _current  # noqa: PLW0603  -- one command runs at a time
    _current = Pace(bytes_per_second)
    try:
        with _idle():
            yield
    finally:
        _current = None


@contextmanager
def _idle() -> Iterator[None]:
    """Give this thread, and those that it starts, the I/O priority of one that waits for all others."""
    if platform.machine() not in _IOPRIO_CALLS:
        yield
        return
    change, ask = _IOPRIO_CALLS[platform.machine()]
    libc = ctypes.CDLL(None)
    before = libc.syscall(ask, *_THIS_THREAD)
    libc.syscall(change, *_THIS_THREAD, _IDLE)
    try:
        yield
    finally:
        libc.syscall(change, *_THIS_THREAD, before)


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _resident(descriptor: int) -> NDArray[np.uint8]:
    """Return a bit for each page of a file, 1 if it is in the page cache. Of files of others the system says that all are."""
    import numpy as np

    size = os.fstat(descriptor).st_size
    if not size:
        return np.empty(0, np.uint8)
    found = np.ones(-(-size // mmap.PAGESIZE), np.uint8)
    with mmap.mmap(descriptor, size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ) as mapping:
        array = np.frombuffer(mapping, np.uint8)
        ctypes.CDLL(None).mincore(ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(size), ctypes.c_void_p(found.ctypes.data))
        del array
    # Pages after the end in the last byte count as being there.
    bits = np.ones(-(-found.size // 8) * 8, np.uint8)
    bits[: found.size] = found & 1
    return np.packbits(bits)
