"""Output that is complete or absent: written beside its place, brought to the disk, then renamed."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rmqstore.errors import RmqstoreError


class NotWrittenError(RmqstoreError):
    """Output could not be written: a disk is full or failed, or write permission is missing."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError of this block into a NotWrittenError that names `path`."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NotWrittenError(f"The disk of {path} is full.", "Make space there and run the command again.") from error
        what = f"{path} could not be written: {error.strerror or error}."
        raise NotWrittenError(what, "Check the path, its permissions and its disk, and run the command again.") from error


def write_whole(path: Path, data: bytes) -> None:
    """Create or replace a file as a whole. Raises NotWrittenError; then nothing has changed."""
    attempt = path.with_name(f".{path.name}.{os.getpid()}.part")
    with writing(path):
        try:
            with attempt.open("wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            publish(attempt, path)
        except BaseException:
            with suppress(OSError):
                attempt.unlink()
            raise


def publish(attempt: Path, path: Path) -> None:
    """Rename a file that is on the disk to its place and sync it. Both are on one file system. Raises OSError."""
    attempt.replace(path)
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
