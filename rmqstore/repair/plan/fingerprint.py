"""Fingerprints, which show whether a store is still the one a plan was made for."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from rmqstore.repair.files import beneath
from rmqstore.repair.plan.model import FileStamp
from rmqstore.repair.plan.paths import TOOL_DIRECTORY, Places
from rmqstore.store.parts import PartKind
from rmqstore.store.window import descriptor_extents, read_descriptor

BLOCK = 1 << 16
LEFT_OUT = frozenset({TOOL_DIRECTORY, PartKind.LOCK.value})
"""Names that no fingerprint contains. The lock file says nothing about the data, and a broker that is refused may touch it."""
_ZEROS = bytes(BLOCK)


def take(places: Places) -> dict[str, FileStamp]:
    """Return length and modification time of everything in the store that is no directory, by the path that plans use. Reads no file.

    A symbolic link is one of these files; only the links that a setting names are followed. Raises UnreadableError, LinkError.
    """
    found: dict[str, FileStamp] = {}
    inside = len(f"{places.root}{os.sep}")
    linked = {str(path) for path in places.linked}
    # Plain strings: a store may have hundreds of thousands of files.
    for top in places.tops:
        start = 0 if top in places.outside else inside
        for path, status in beneath.walk(top, without=places.root / TOOL_DIRECTORY):
            name = path[start:]
            if not (stat.S_ISDIR(status.st_mode) or path in linked or name in LEFT_OUT):
                found[name] = FileStamp(status.st_size, status.st_mtime_ns)
    return found


def differences(before: Mapping[str, FileStamp], now: Mapping[str, FileStamp]) -> Iterator[str]:
    """Yield a sentence part for each file that changed between two fingerprints, by path."""
    for name in sorted(before.keys() | now.keys()):
        old, new = before.get(name), now.get(name)
        if old == new:
            continue
        if old is None:
            yield f"{name} is new"
        elif new is None:
            yield f"{name} is gone"
        elif old.size != new.size:
            yield f"{name} had {old.size} bytes and has {new.size}"
        else:
            yield f"{name} was written to"


def stamp(path: Path) -> FileStamp | None:
    """Return the stamp of one file, None if there is none. Raises LinkError, OSError."""
    status = beneath.status(path)
    return None if status is None else stamp_of(status)


def stamp_of(status: os.stat_result) -> FileStamp:
    """Return the stamp in a result of stat."""
    return FileStamp(status.st_size, status.st_mtime_ns)


def digest(path: Path, position: int, length: int) -> str:
    """Return a digest of the bytes [position, position + length) of a file: SHA-256 over every block that is not zero, with its number.

    Holes are not read, and have the same digest as zeros on the disk. Raises UnreadableError, StoreChangedError.
    """
    with beneath.reading(path) as descriptor:
        return descriptor_digest(descriptor, path, position, length)


def descriptor_digest(descriptor: int, path: Path, position: int, length: int) -> str:
    """Return the same digest of an open file."""
    pieces = descriptor_blocks(descriptor, path, position, length)
    return _digest(length, ((begin - position, read_descriptor(descriptor, path, begin, size)) for begin, size in pieces))


def digest_of(data: bytes) -> str:
    """Return the same digest of bytes in memory."""
    return _digest(len(data), ((begin, data[begin : begin + BLOCK]) for begin in range(0, len(data), BLOCK)))


def digest_of_zeros(length: int) -> str:
    """Return the same digest of `length` zeros."""
    return _digest(length, ())


def _digest(length: int, blocks: Iterable[tuple[int, bytes]]) -> str:
    result = hashlib.sha256(length.to_bytes(8, "big"))
    for begin, block in blocks:
        if block != _ZEROS[: len(block)]:
            result.update(begin.to_bytes(8, "big"))
            result.update(block)
    return result.hexdigest()


def blocks_with_data(path: Path, position: int, length: int) -> Iterator[tuple[int, int]]:
    """Yield (begin, bytes) of the pieces of at most BLOCK bytes, counted from `position`, that touch data and not only holes."""
    with beneath.reading(path) as descriptor:
        yield from descriptor_blocks(descriptor, path, position, length)


def descriptor_blocks(descriptor: int, path: Path, position: int, length: int) -> Iterator[tuple[int, int]]:
    """Yield the same of an open file."""
    end = position + length
    following = position
    for data_begin, data_end in descriptor_extents(descriptor, path, end):
        begin = max(position + (data_begin - position) // BLOCK * BLOCK, following)
        while begin < min(data_end, end):
            yield begin, min(BLOCK, end - begin)
            begin += BLOCK
        following = max(following, begin)
