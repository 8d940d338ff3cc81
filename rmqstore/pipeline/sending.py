"""Files that are written to file systems of pyarrow (s3, gs, hdfs and others), complete or not at all.

Object stores show an object when it is complete. In other file systems a file is written under another name first, and renamed.
"""

from __future__ import annotations

import posixpath
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from rmqstore.pipeline.filesystems import FAILURES, cause_of, opened
from rmqstore.pipeline.publish import NotWrittenError

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_WHOLE_OBJECTS = frozenset({"s3", "gcs", "abfs"})
_BLOCK = 4 << 20


def has_directories(system: FileSystem) -> bool:
    """Return whether a file system has directories, and not only objects with names."""
    return system.type_name not in _WHOLE_OBJECTS


def upload(directory: Path, names: Sequence[str], out: str) -> None:
    """Copy complete files of a directory, by their paths in it, to their places below a URI. Raises NotWrittenError, UsageError."""
    with transferring(out):
        system, base = opened(out)
        for name in names:
            send(directory / name, system, f"{base}/{name}")


def send(file: Path, system: FileSystem, path: str) -> None:
    """Copy a complete file to a path of a file system. Raises OSError."""
    with file.open("rb") as source, writing_object(system, path) as stream:
        shutil.copyfileobj(source, stream, _BLOCK)


@contextmanager
def writing_object(system: FileSystem, path: str) -> Iterator[BinaryIO]:
    """Yield a stream whose bytes are at `path` when the block ends without an error."""
    if not has_directories(system):
        with system.open_output_stream(path) as stream:
            yield stream
        return
    system.create_dir(posixpath.dirname(path), recursive=True)
    attempt = f"{posixpath.dirname(path)}/.{posixpath.basename(path)}.{uuid.uuid4().hex}"
    with system.open_output_stream(attempt) as stream:
        yield stream
    system.move(attempt, path)


@contextmanager
def transferring(uri: str) -> Iterator[None]:
    """Translate errors of file systems to one sentence."""
    try:
        yield
    except FAILURES as error:
        raise NotWrittenError(
            f"{uri} could not be written: {cause_of(error)}.", "Check the URI and the credentials, and run the command again."
        ) from error
