"""Copies that keep holes: old bytes into the undo folder, staged contents, and files that move to another file system."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from rmqstore.repair.files import beneath
from rmqstore.repair.files.writer import Writer
from rmqstore.repair.plan.fingerprint import descriptor_blocks
from rmqstore.repair.plan.model import Attributes
from rmqstore.store.window import descriptor_extents, read_descriptor

_BLOCK = 4096


def copy_range(writer: Writer, source: Path, position: int, length: int, target: Path, attributes: Attributes | None = None) -> None:
    """Copy the bytes [position, position + length) of `source` to the new file `target`, on the disk when this returns.

    Raises OSError, UnreadableError, StoreChangedError.
    """
    with beneath.reading(source) as read:
        copy_descriptor(writer, read, source, position, length, target, attributes)


def copy_descriptor(
    writer: Writer, read: int, source: Path, position: int, length: int, target: Path, attributes: Attributes | None = None
) -> None:
    """Copy bytes of an open file as `copy_range` does."""
    with writer.create(target) as descriptor:
        writer.truncate(descriptor, target, length)
        for begin, size in descriptor_blocks(read, source, position, length):
            writer.write(descriptor, target, begin - position, read_descriptor(read, source, begin, size))
        if attributes is not None:
            writer.set_attributes(descriptor, target, attributes)
        writer.fsync(descriptor, target)


def move(writer: Writer, source: Path, target: Path, attributes: Attributes) -> None:
    """Move a file; to another file system by a copy that gets its name when it is complete.

    Moving again after an interruption completes it. Raises OSError, UnreadableError, StoreChangedError.
    """
    if same_device(source, target.parent):
        writer.rename(source, target)
        return
    part = target.with_name(f"{target.name}.part")
    if beneath.exists(part):
        writer.unlink(part)
    with beneath.reading(source) as read:
        copy_descriptor(writer, read, source, 0, os.fstat(read).st_size, part, attributes)
    writer.rename(part, target)
    writer.fsync_directory(target.parent)
    writer.unlink(source)


def same_device(path: Path, directory: Path) -> bool:
    """Return whether a file and a directory are on one file system. Raises LinkError, OSError."""
    found, there = beneath.status(path), beneath.status(directory)
    return found is not None and there is not None and found.st_dev == there.st_dev


def holes(path: Path, position: int, length: int) -> Iterator[tuple[int, int]]:
    """Yield holes [begin, end) of a file that touch the range, cut to whole blocks around it. Raises LinkError, UnreadableError."""
    with beneath.reading(path) as descriptor:
        size = os.fstat(descriptor).st_size
        begin = position // _BLOCK * _BLOCK
        end = min(-(-(position + length) // _BLOCK) * _BLOCK, size)
        for data_begin, data_end in descriptor_extents(descriptor, path, size):
            if data_begin > begin:
                yield begin, min(data_begin, end)
            begin = max(begin, data_end)
            if begin >= end:
                return
    yield begin, end
