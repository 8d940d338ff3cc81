"""Stores on file systems that pyarrow reads (s3, gs, hdfs and others): a temporary copy on the disk of the process that reads one.

An object store has no mapped files, and a verification reads everything anyway. Zeros take no space in the copy.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from rmqstore.errors import NotAStoreError, RmqstoreError, UnreadableError, UsageError
from rmqstore.pipeline.job import StoreAt

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_BLOCK = 4 << 20


def is_remote(path: str) -> bool:
    """Return whether this is a URI and no path."""
    return _URI.match(path) is not None


@contextmanager
def at_hand(at: StoreAt) -> Iterator[StoreAt]:
    """Yield the store at a place where its files can be mapped. Raises UsageError, NotAStoreError, UnreadableError."""
    if not is_remote(at.path):
        yield at
        return
    with TemporaryDirectory(prefix="rmqstore-") as directory:
        with _reading(at.path):
            _fetch(at.path, Path(directory))
        try:
            yield replace(at, path=directory)
        except RmqstoreError as error:
            # Messages must not name the copy.
            raise type(error)(error.message.replace(directory, at.path), error.hint) from error


def stored_bytes(uri: str) -> int:
    """Return the bytes of all files below a URI. Raises as `at_hand`."""
    with _reading(uri):
        return sum(info.size or 0 for info in _listed(*_opened(uri)))


def log_size(at: StoreAt) -> int:
    """Return the bytes of a store's log, of a remote store's files; 0 if it cannot be opened; the reader reports why."""
    try:
        return stored_bytes(at.path) if is_remote(at.path) else at.open().message_log.length
    except RmqstoreError:
        return 0


@contextmanager
def _reading(uri: str) -> Iterator[None]:
    """Translate errors of pyarrow's file systems to one sentence."""
    try:
        yield
    except (OSError, ValueError, ImportError) as error:
        lines = str(error).strip().splitlines()
        cause = lines[0].rstrip(".") if lines else type(error).__name__
        raise UnreadableError(f"{uri} could not be read: {cause}.", "Check the URI, the credentials and the free space here.") from error


def _opened(uri: str) -> tuple[FileSystem, str]:
    from pyarrow import ArrowInvalid
    from pyarrow.fs import FileSystem

    try:
        opened: tuple[FileSystem, str] = FileSystem.from_uri(uri)
    except ArrowInvalid as error:
        raise UsageError(f"{uri} is no URI that can be read: {error}.", "Schemes are s3, gs, hdfs, abfs and file.") from error
    return opened


def _listed(system: FileSystem, base: str) -> Sequence[FileInfo]:
    from pyarrow.fs import FileSelector, FileType

    if system.get_file_info(base).type != FileType.Directory:
        raise NotAStoreError(f"{base} is no directory.", "Give the root of a store: the directory that has commitlog in it.")
    return [info for info in system.get_file_info(FileSelector(base, recursive=True)) if info.type == FileType.File]


def _fetch(uri: str, directory: Path) -> None:
    """Copy all files, with their times."""
    system, base = _opened(uri)
    listed = _listed(system, base)
    needed, free = sum(info.size or 0 for info in listed), shutil.disk_usage(directory).free
    if needed > free:
        raise UnreadableError(
            f"{uri} has {needed} bytes, and {directory.parent} has room for {free}.", "Set TMPDIR to a directory on a larger disk."
        )
    for info in listed:
        target = directory / info.path.removeprefix(base).lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        with system.open_input_stream(info.path) as source, target.open("wb") as copy:
            while block := source.read(_BLOCK):
                if block.count(0) == len(block):
                    copy.seek(len(block), os.SEEK_CUR)
                else:
                    copy.write(block)
            copy.truncate()
        if info.mtime_ns is not None:
            os.utime(target, ns=(info.mtime_ns, info.mtime_ns))
