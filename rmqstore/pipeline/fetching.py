"""Stores on file systems that pyarrow reads (s3, gs, hdfs and others): a temporary copy on the disk of the process that reads one.

Large files of the copy are empty at first, and ranges of them are fetched when they are read. Other processes would read zeros there: the
workers of Spark make copies of their own, and copies for child processes are made whole. Zeros take no space in a copy.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from fnmatch import fnmatchcase
from glob import has_magic
from pathlib import Path
from tempfile import mkdtemp
from threading import Lock
from typing import IO, TYPE_CHECKING

from rmqstore.errors import NotAStoreError, RmqstoreError, UnreadableError, UsageError
from rmqstore.pipeline.filesystems import opened, reading
from rmqstore.store.absent import fetched

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem

_QUERY = re.compile(r"\?[A-Za-z_.-]+=.*")
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
_MUCH = 1 << 30
"""Fetched bytes of a kept copy that are freed between tasks."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """A copy that `process` keeps, and its files of which ranges are fetched."""

    process: int
    directory: str
    later: Mapping[str, _Later]


_kept: dict[str, _Kept] = {}
_names: dict[str, str] = {}
"""URIs by the directories of all copies that were kept."""
_keeping = Lock()
_fetching = ExitStack()


def kept_copy(uri: str) -> Path:
    """Return the directory of a copy of a store that is kept until `remove_copies`, or the end of the process.

    Raises UsageError, NotAStoreError, UnreadableError.
    """
    with _keeping:
        if uri not in _kept:
            directory = os.path.realpath(mkdtemp(prefix="rmqstore-", dir=local_disk()))
            _kept[uri] = _Kept(os.getpid(), directory, {})
            _names[directory] = uri
            try:
                with reading(uri):
                    later = fetch(uri, Path(directory), by_range=True)
            except BaseException:
                shutil.rmtree(_kept.pop(uri).directory, ignore_errors=True)
                raise
            _fetching.enter_context(fetched(directory, later))
            _kept[uri] = _Kept(os.getpid(), directory, later)
        return Path(_kept[uri].directory)


def local_disk() -> str | None:
    """Return the directory that Spark removes when an executor ends, for tasks of an executor: their processes end without a call.

    None for the usual place of temporary files.
    """
    directory = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0]
    return directory if directory and Path(directory).is_dir() else None


@atexit.register
def remove_copies() -> None:
    """Remove the kept copies of this process; the next use of a URI lists what is there then."""
    with _keeping:
        _fetching.close()
        for kept in _kept.values():
            if kept.process == os.getpid():  # a child of that process knows them as well
                shutil.rmtree(kept.directory, ignore_errors=True)
        _kept.clear()


def make_room() -> None:
    """Forget what was fetched into kept copies if that is much; ranges are fetched again where they are read. No file may be mapped."""
    for kept in _kept.values():
        if sum(one.fetched for one in kept.later.values()) > _MUCH:
            for one in kept.later.values():
                one.forget()


def named(error: RmqstoreError) -> RmqstoreError:
    """Return an error whose texts name URIs, and not the copies of them."""
    for directory, uri in _names.items():
        if directory in error.message + error.hint:
            error = type(error)(error.message.replace(directory, uri), error.hint.replace(directory, uri))
    return error


def matching(uri: str) -> list[str]:
    """Return the URIs that one with wildcards (* ? [) matches, in alphabetical order; one without them as it is.

    Raises UsageError where nothing matches or the scheme is none that can be read, UnreadableError.
    """
    query = "".join(_QUERY.findall(uri))
    address = uri.removesuffix(query)
    scheme, _, rest = address.partition("://")
    if not has_magic(rest):
        return [uri]
    names = rest.split("/")
    fixed = next(number for number, name in enumerate(names) if has_magic(name))
    if fixed == 0:
        raise UsageError(f"{uri} has a wildcard in its bucket or host.", "Name the bucket; the names below it may have wildcards.")
    found = ["/".join(names[:fixed])]
    with reading(uri):
        for pattern in filter(None, names[fixed:]):
            listed = [(parent, _directories(f"{scheme}://{parent}{query}")) for parent in found]
            found = [f"{parent}/{name}" for parent, below in listed for name in below if name == pattern or fnmatchcase(name, pattern)]
    if not found:
        raise UsageError(f"No directory matches {uri}.", "Give the URIs of stores.")
    return [f"{scheme}://{one}{query}" for one in sorted(found)]


def _directories(uri: str) -> list[str]:
    """Return the names of the directories at a URI."""
    from pyarrow.fs import FileSelector, FileType

    system, base = opened(uri)
    return [info.base_name for info in system.get_file_info(FileSelector(base, allow_not_found=True)) if info.type == FileType.Directory]


def stored_bytes(uri: str) -> int:
    """Return the bytes of all files below a URI. Raises UsageError, NotAStoreError, UnreadableError."""
    with reading(uri):
        return sum(info.size or 0 for info in _listed(*opened(uri)))


def _listed(system: FileSystem, base: str) -> Sequence[FileInfo]:
    from pyarrow.fs import FileSelector, FileType

    if system.get_file_info(base).type != FileType.Directory:
        raise NotAStoreError(f"{base} is no directory.", "Give the root of a store: the directory that has commitlog in it.")
    found = [info for info in system.get_file_info(FileSelector(base, recursive=True)) if info.type == FileType.File]
    leaving = next((info.path for info in found if ".." in info.path.removeprefix(base).split("/")), None)
    if leaving is not None:
        raise NotAStoreError(f"{leaving} is the name of a file outside of the store.", "Remove it, or copy the store without it.")
    return found


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
        self.fetched = 0
        """Bytes of blocks that are here."""
        self._lock = Lock()

    def forget(self) -> None:
        """Free the space of what was fetched."""
        with self._lock:
            os.truncate(self._target, 0)
            os.truncate(self._target, self._size)
            _keep_time(self._target, self._mtime)
            self._here = bytearray(len(self._here))
            self.fetched = 0

    def fill(self, start: int, end: int) -> None:
        """Bring a range here, in blocks; see `rmqstore.store.absent`. Raises UnreadableError."""
        first, last = max(start, 0) // _RANGE, -(-min(end, self._size) // _RANGE)
        with self._lock:
            missing = self._here.find(0, first, last)
            if missing < 0:
                return
            with reading(self._uri), self._system.open_input_file(self._path) as source, self._target.open("r+b") as copy:
                while missing >= 0:
                    until = self._here.find(1, missing, min(last, missing + _MOST_AT_ONCE))
                    until = min(last, missing + _MOST_AT_ONCE) if until < 0 else until
                    begin = missing * _RANGE
                    data = source.read_at(min(until * _RANGE, self._size) - begin, begin)
                    if data.count(0) < len(data):
                        copy.seek(begin)
                        copy.write(data)
                    self._here[missing:until] = bytes([1]) * (until - missing)
                    self.fetched += (until - missing) * _RANGE
                    missing = self._here.find(0, until, last)
            _keep_time(self._target, self._mtime)


def fetch(uri: str, directory: Path, *, by_range: bool) -> dict[str, _Later]:
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
