"""Faults in the write layer: a process that dies, a disk that fails or is full, writes that are short. Each at a chosen call."""

from __future__ import annotations

import errno
import os
from collections import Counter
from pathlib import Path

from rmqstore.repair.files.writer import Hook, Primitive


class Killed(BaseException):
    """The process died here: no handler of the program sees it, and nothing it does afterwards reaches the disk."""


class Counting(Hook):
    """Counts the calls, and lets them be."""

    def __init__(self) -> None:
        self.calls = 0
        self.kinds: Counter[Primitive] = Counter()

    def before(self, primitive: Primitive, path: Path, size: int) -> int:
        self.calls += 1
        self.kinds[primitive] += 1
        return size


class KillAt(Counting):
    """Dies before call number `at`, counted from 0. A write that it dies in has written its first half."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self._at = at
        self._halved = False

    def before(self, primitive: Primitive, path: Path, size: int) -> int:
        if self.calls >= self._at:
            if primitive is Primitive.WRITE and size > 1 and not self._halved:
                self._halved = True
                return size // 2
            raise Killed
        return super().before(primitive, path, size)


class ExitAt(KillAt):
    """The same with a real end of the process."""

    def before(self, primitive: Primitive, path: Path, size: int) -> int:
        try:
            return super().before(primitive, path, size)
        except Killed:
            os._exit(9)


class FailAt(Counting):
    """Fails at call number `at` with an error of the system, once, or for ever after. A write that fails has written its first half."""

    def __init__(self, at: int, error: int, *, for_ever: bool = False) -> None:
        super().__init__()
        self._at = at
        self._error = error
        self._for_ever = for_ever
        self.failed = False

    def before(self, primitive: Primitive, path: Path, size: int) -> int:
        if self.calls == self._at and primitive is Primitive.WRITE and size > 1:
            self._at += 1
            super().before(primitive, path, size)
            return size // 2
        if self.calls == self._at or (self._for_ever and self.failed and primitive is not Primitive.UNLINK):
            self.failed = True
            super().before(primitive, path, size)
            raise OSError(self._error, os.strerror(self._error))
        return super().before(primitive, path, size)


class ShortWrites(Hook):
    """Every write writes at most `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def before(self, primitive: Primitive, path: Path, size: int) -> int:
        return min(size, self._limit)


NO_SPACE = errno.ENOSPC
IO_ERROR = errno.EIO
