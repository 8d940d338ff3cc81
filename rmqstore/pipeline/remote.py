"""Stores on file systems that pyarrow reads (s3, gs, hdfs and others): a temporary copy on the disk of the process that reads one.

Large files of the copy are empty at first, and ranges of them are fetched when they are read. Other processes would read zeros
there, so copies for Spark and for child processes are made whole. Zeros take no space in a copy.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import IO, TYPE_CHECKING

from rmqstore.errors import NotAStoreError, RmqstoreError, UnreadableError, UsageError
from rmqstore.pipeline.job import StoreAt
from rmqstore.store.absent import Absent, fetched

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
_BLOCK = 4 << 20
_RANGE = 256 << 10
"""Bytes of a block that is fetched."""
_MOST_AT_ONCE = 32
"""Blocks of one request."""
_SMALL = 256 << 10
"""Bytes of a file up to which it is fetched whole."""
_LEDGER, _WHEEL = "dledger-", "timerwheel"
_RANGED = frozenset({"commitlog", "consumequeue", "consumequeue_ext", "batchconsumequeue", "index", "timerlog", _WHEEL})
"""Entries of a root with large files. Those named by numbers only this process reads; the others, databases, child processes do."""
_CONNECTIONS = 16


def is_remote(path: str) -> bool:
    """Return whether this is a URI and no path."""
    return _URI.match(path) is not None


@contextmanager
def at_hand(at: StoreAt, *, by_range: bool = False) -> Iterator[StoreAt]:
    """Yield the store at a place where its files can be mapped.

    `by_range`: large files are fetched as this process reads them; no other process can read them.
    Raises UsageError, NotAStoreError, UnreadableError.
    """
    if not is_remote(at.path):
        yield at
        return
    with TemporaryDirectory(prefix="rmqstore-") as made:
        directory = os.path.realpath(made)
        with _reading(at.path):
            later = _fetch(at.path, Path(directory), by_range=by_range)
        try:
            with fetched(directory, later):
                yield replace(at, path=directory)
        except RmqstoreError as error:
            # Messages must not name the copy.
            raise type(error)(error.message.replace(directory, at.path), error.hint) from error


def stored_bytes(uri: str) -> int:
    """Return the bytes of all files below a URI. Raises as `at_hand`."""
    with _reading(uri):
        return sum(info.size or 0 for info in _listed(*opened(uri)))


def log_size(at: StoreAt) -> int:
    """Return the bytes of a store's log, of a remote store's files; 0 if it cannot be opened; the reader reports why."""
    try:
        return stored_bytes(at.path) if is_remote(at.path) else at.open().message_log.length
    except RmqstoreError:
        return 0


def cause_of(error: Exception) -> str:
    """Return the first line of what a file system of pyarrow says, without a period."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


@contextmanager
def _reading(uri: str) -> Iterator[None]:
    """Translate errors of pyarrow's file systems to one sentence."""
    try:
        yield
    except (OSError, ValueError, ImportError) as error:
        raise UnreadableError(
            f"{uri} could not be read: {cause_of(error)}.", "Check the URI, the credentials and the free space here."
        ) from error


def opened(uri: str) -> tuple[FileSystem, str]:
    """Return the file system of a URI, and the path in it. Raises UsageError for another scheme, OSError, ValueError, ImportError."""
    from pyarrow import ArrowInvalid
    from pyarrow.fs import FileSystem

    try:
        scheme, _, rest = uri.partition("://")
        system, path = FileSystem.from_uri(f"{_SCHEMES.get(scheme.lower(), scheme)}://{rest}")
    except ArrowInvalid as error:
        raise UsageError(f"{uri} is no URI that can be read: {error}.", "Schemes are s3, s3a, gs, hdfs, abfs and file.") from error
    return system, path


def _listed(system: FileSystem, base: str) -> Sequence[FileInfo]:
    from pyarrow.fs import FileSelector, FileType

    if system.get_file_info(base).type != FileType.Directory:
        raise NotAStoreError(f"{base} is no directory.", "Give the root of a store: the directory that has commitlog in it.")
    return [info for info in system.get_file_info(FileSelector(base, recursive=True)) if info.type == FileType.File]


class _Later:
    """A file of a copy whose ranges are fetched when they are needed."""

    def __init__(self, uri: str, system: FileSystem, info: FileInfo, target: Path) -> None:
        self._uri = uri
        self._system = system
        self._path: str = info.path
        self._target = target
        self._size: int = info.size
        self._mtime: int | None = info.mtime_ns
        self._here = bytearray(-(-self._size // _RANGE))
        self._lock = Lock()

    def fill(self, start: int, end: int) -> None:
        """Bring a range here, in blocks; see `rmqstore.store.absent`. Raises UnreadableError."""
        first, last = max(start, 0) // _RANGE, -(-min(end, self._size) // _RANGE)
        with self._lock:
            missing = self._here.find(0, first, last)
            if missing < 0:
                return
            with _reading(self._uri), self._system.open_input_file(self._path) as source, self._target.open("r+b") as copy:
                while missing >= 0:
                    until = self._here.find(1, missing, min(last, missing + _MOST_AT_ONCE))
                    until = min(last, missing + _MOST_AT_ONCE) if until < 0 else until
                    begin = missing * _RANGE
                    data = source.read_at(min(until * _RANGE, self._size) - begin, begin)
                    if data.count(0) < len(data):
                        copy.seek(begin)
                        copy.write(data)
                    self._here[missing:until] = bytes([1]) * (until - missing)
                    missing = self._here.find(0, until, last)
            _keep_time(self._target, self._mtime)


def _fetch(uri: str, directory: Path, *, by_range: bool) -> dict[str, Absent]:
    """Copy files, with their times; return those of which ranges are copied later, by path."""
    system, base = opened(uri)
    listed = _listed(system, base)
    targets = {info.path: directory / info.path.removeprefix(base).lstrip("/") for info in listed}
    later = {info.path for info in listed if by_range and _is_ranged(targets[info.path].relative_to(directory), info.size or 0)}
    whole = [info for info in listed if info.path not in later]
    needed, free = sum(info.size or 0 for info in whole), shutil.disk_usage(directory).free
    if needed > free:
        raise UnreadableError(
            f"{uri} has {needed} bytes, and {directory.parent} has room for {free}.", "Set TMPDIR to a directory on a larger disk."
        )
    for parent in {target.parent for target in targets.values()}:
        parent.mkdir(parents=True, exist_ok=True)

    def copy(info: FileInfo) -> None:
        target = targets[info.path]
        with target.open("wb") as file:
            if info.path in later:
                file.truncate(info.size)
            else:
                _copy(system, info.path, file)
        _keep_time(target, info.mtime_ns)

    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        list(pool.map(copy, listed))
    return {str(targets[info.path]): _Later(uri, system, info, targets[info.path]) for info in listed if info.path in later}


def _is_ranged(path: Path, size: int) -> bool:
    """Return whether a file is worth to be fetched by range: a large one that only this process reads."""
    top = path.parts[0]
    return size > _SMALL and (top in _RANGED or top.startswith(_LEDGER)) and (path.name.isdigit() or path.name == _WHEEL)


def _copy(system: FileSystem, path: str, file: IO[bytes]) -> None:
    with system.open_input_stream(path) as source:
        while block := source.read(_BLOCK):
            if block.count(0) == len(block):
                file.seek(len(block), os.SEEK_CUR)
            else:
                file.write(block)
    file.truncate()


def _keep_time(path: Path, mtime: int | None) -> None:
    if mtime is not None:
        os.utime(path, ns=(mtime, mtime))
