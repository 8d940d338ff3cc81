"""The one write layer: every call that changes something on a disk, each announced to a hook, so that tests can make any of them fail.

Nothing else in the project opens a file of a store for writing. Every call is made in a directory that `beneath` opened without following
a symbolic link, and does not follow one itself. A failed fsync is an error like any other and is never tried again: after it, it is
not known what reached the disk.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from rmqstore.repair.files import beneath
from rmqstore.repair.plan.model import Attributes

_KEEP_SIZE_PUNCH_HOLE = 0x01 | 0x02
_FICLONE = 0x40049409
_NO_CLONE = frozenset({errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.EPERM, errno.ETXTBSY})

_MOST_PER_CALL = 512 << 10
"""Bytes of one write: from 2 MiB on, a write on ext4 takes four times as long for the same bytes."""
_MOST_SINGLE = 256
"""Files and directories that are forced to the disk one by one."""

Result = TypeVar("Result")


class Primitive(StrEnum):
    """One kind of call that changes a disk."""

    CREATE = "create"
    WRITE = "write"
    TRUNCATE = "truncate"
    PUNCH = "punch"
    CHMOD = "chmod"
    CHOWN = "chown"
    UTIME = "utime"
    FSYNC = "fsync"
    RENAME = "rename"
    UNLINK = "unlink"
    MKDIR = "mkdir"
    RMDIR = "rmdir"


class Hook:
    """A hook called before and after every primitive, by which tests kill the process, raise errors and write short."""

    def before(self, primitive: Primitive, path: Path, size: int) -> int:
        """Return how many of `size` bytes to write now (at least one); only used by a write. May raise OSError."""
        return size

    def after(self, primitive: Primitive, path: Path) -> None:
        """Note that the call succeeded."""


class Writer:
    """All primitives. Every method raises OSError with the path in it."""

    def __init__(self, hook: Hook | None = None) -> None:
        self._hook = hook or Hook()

    @contextmanager
    def create(self, path: Path, mode: int = 0o600) -> Iterator[int]:
        """Create a file and yield its descriptor for reading and writing; the name must be free."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = self._in(Primitive.CREATE, path, lambda here, name: os.open(name, flags, mode, dir_fd=here))
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def change(self, path: Path) -> Iterator[int]:
        """Yield a descriptor of an existing file for reading and writing."""
        with beneath.regular_file(path, os.O_RDWR) as descriptor:
            yield descriptor

    @contextmanager
    def hold(self, path: Path) -> Iterator[int]:
        """Yield a descriptor of an existing file whose bytes stay: for its attributes and for fsync."""
        with beneath.regular_file(path, os.O_RDONLY) as descriptor:
            yield descriptor

    def write(self, descriptor: int, path: Path, position: int, data: bytes | memoryview) -> None:
        """Write all of `data` at a position, in several calls where it is large or the system takes less."""
        rest = memoryview(data)
        while rest:
            size = self._before(Primitive.WRITE, path, min(len(rest), _MOST_PER_CALL))
            with _named(path):
                count = os.pwrite(descriptor, rest[:size], position)
            self._hook.after(Primitive.WRITE, path)
            rest = rest[count:]
            position += count

    def clone(self, descriptor: int, path: Path, source: int) -> bool:
        """Let a new file share all blocks of an open one; return whether the file system can."""
        try:
            self._do(Primitive.WRITE, path, lambda: fcntl.ioctl(descriptor, _FICLONE, source))
        except OSError as error:
            if error.errno not in _NO_CLONE:
                raise
            return False
        return True

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name."""
        self._in(Primitive.CREATE, target, lambda here, name: os.link(source, name, dst_dir_fd=here, follow_symlinks=False))

    def truncate(self, descriptor: int, path: Path, length: int) -> None:
        """Set the length of a file that is being made."""
        self._do(Primitive.TRUNCATE, path, lambda: os.ftruncate(descriptor, length))

    def punch(self, descriptor: int, path: Path, begin: int, end: int) -> None:
        """Turn a range into a hole; the length of the file stays."""
        self._do(Primitive.PUNCH, path, lambda: _punch(descriptor, begin, end))

    def set_attributes(self, descriptor: int, path: Path, wanted: Attributes) -> None:
        """Set owner, permission bits and modification time of an open file or directory, as far as they differ; the access time stays."""
        status = os.fstat(descriptor)
        if (status.st_uid, status.st_gid) != (wanted.uid, wanted.gid):
            self._do(Primitive.CHOWN, path, lambda: os.fchown(descriptor, wanted.uid, wanted.gid))
            status = os.fstat(descriptor)  # a change of the owner clears the set-id bits
        if status.st_mode & 0o7777 != wanted.mode:
            self._do(Primitive.CHMOD, path, lambda: os.fchmod(descriptor, wanted.mode))
        mtime = wanted.mtime_ns
        if mtime is not None and mtime != status.st_mtime_ns:
            self._do(Primitive.UTIME, path, lambda: os.utime(descriptor, ns=(status.st_atime_ns, mtime)))

    def set_directory_attributes(self, path: Path, wanted: Attributes) -> None:
        """Set the same of a directory by its path."""
        with beneath.directory(path) as descriptor:
            self.set_attributes(descriptor, path, wanted)

    def fsync(self, descriptor: int, path: Path) -> None:
        """Force everything of an open file to the disk."""
        self._do(Primitive.FSYNC, path, lambda: os.fsync(descriptor))

    def fsync_directory(self, path: Path) -> None:
        """Force the names in a directory to the disk."""
        with beneath.directory(path) as descriptor:
            self.fsync(descriptor, path)

    def fsync_all(self, paths: Sequence[Path]) -> None:
        """Force files and directories to the disk: one by one, or, which is faster for many, each file system as a whole."""
        if len(paths) <= _MOST_SINGLE:
            for path in paths:
                with beneath.entry(path) as descriptor:
                    self.fsync(descriptor, path)
            return
        synced: set[int] = set()
        for path in paths:
            with beneath.entry(path) as descriptor:
                device = os.fstat(descriptor).st_dev
                if device not in synced:
                    self._do(Primitive.FSYNC, path, lambda: _sync_file_system(descriptor))
                    synced.add(device)

    def rename(self, source: Path, target: Path) -> None:
        """Rename an entry on the same file system."""
        with beneath.parent(source) as (there, old):
            self._in(Primitive.RENAME, target, lambda here, name: os.rename(old, name, src_dir_fd=there, dst_dir_fd=here))

    def unlink(self, path: Path) -> None:
        """Remove a name."""
        self._in(Primitive.UNLINK, path, lambda here, name: os.unlink(name, dir_fd=here))

    def mkdir(self, path: Path, mode: int = 0o700) -> None:
        """Make a directory."""
        self._in(Primitive.MKDIR, path, lambda here, name: os.mkdir(name, mode, dir_fd=here))

    def rmdir(self, path: Path) -> None:
        """Remove an empty directory."""
        self._in(Primitive.RMDIR, path, lambda here, name: os.rmdir(name, dir_fd=here))

    def _in(self, primitive: Primitive, path: Path, call: Callable[[int, str], Result]) -> Result:
        """Make a call on a name in the directory that holds it."""
        with beneath.parent(path) as (here, name):
            return self._do(primitive, path, lambda: call(here, name))

    def _do(self, primitive: Primitive, path: Path, call: Callable[[], Result]) -> Result:
        self._before(primitive, path, 0)
        with _named(path):
            result = call()
        self._hook.after(primitive, path)
        return result

    def _before(self, primitive: Primitive, path: Path, size: int) -> int:
        with _named(path):
            return self._hook.before(primitive, path, size)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Add the path to errors of calls on a descriptor, which do not have it."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def _sync_file_system(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syncfs(descriptor) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _punch(descriptor: int, begin: int, end: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    if libc.fallocate(descriptor, _KEEP_SIZE_PUNCH_HOLE, begin, end - begin) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
