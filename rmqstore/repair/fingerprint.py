"""Fingerprints: what tells that a store is still the one a plan was made for."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from rmqstore.repair.places import TOOL_DIRECTORY, Places
from rmqstore.repair.plan import FileStamp
from rmqstore.store.mapped import MappedFile, unreadable
from rmqstore.store.parts import PartKind
from rmqstore.store.window import data_extents, open_read_only, read_descriptor

BLOCK = 1 << 16
_ZEROS = bytes(BLOCK)


def take(places: Places) -> dict[str, FileStamp]:
    """Every file of the store with its length and modification time, whatever it is, by the path that plans use. Reads no file."""
    found: dict[str, FileStamp] = {}
    inside = len(f"{places.root}{os.sep}")
    for directory, start in ((places.root, inside), *((outside, 0) for outside in places.outside)):
        for entry in _entries(str(directory), top=directory == places.root):
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # taken away this moment: whoever compares will see that it is gone
            found[entry.path[start:]] = FileStamp(status.st_size, status.st_mtime_ns)
    return found


def differences(before: Mapping[str, FileStamp], now: Mapping[str, FileStamp]) -> Iterator[str]:
    """What changed between two fingerprints, a sentence part for each file, by path."""
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
    """The stamp of one file, None if there is none. Raises OSError."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return FileStamp(status.st_size, status.st_mtime_ns)


def digest(path: Path, position: int, length: int) -> str:
    """A digest of the bytes [position, position + length) of a file: SHA-256 over every block that is not zero, with its number.

    Holes are not read, and make no difference against zeros on the disk. Raises UnreadableError, StoreChangedError.
    """
    with open_read_only(path) as descriptor:
        pieces = blocks_with_data(path, position, length)
        return _digest(length, ((begin - position, read_descriptor(descriptor, path, begin, size)) for begin, size in pieces))


def digest_of(data: bytes) -> str:
    """The same digest of bytes in memory."""
    return _digest(len(data), ((begin, data[begin : begin + BLOCK]) for begin in range(0, len(data), BLOCK)))


def digest_of_zeros(length: int) -> str:
    """The same digest of `length` zeros."""
    return _digest(length, ())


def _digest(length: int, blocks: Iterable[tuple[int, bytes]]) -> str:
    result = hashlib.sha256(length.to_bytes(8, "big"))
    for begin, block in blocks:
        if block != _ZEROS[: len(block)]:
            result.update(begin.to_bytes(8, "big"))
            result.update(block)
    return result.hexdigest()


def blocks_with_data(path: Path, position: int, length: int) -> Iterator[tuple[int, int]]:
    """(begin, bytes) of the pieces of at most BLOCK bytes, counted from `position`, that lie in or touch data and not only holes."""
    end = position + length
    following = position
    for data_begin, data_end in data_extents(MappedFile(path, 0, end, 0)):
        begin = max(position + (data_begin - position) // BLOCK * BLOCK, following)
        while begin < min(data_end, end):
            yield begin, min(BLOCK, end - begin)
            begin += BLOCK
        following = max(following, begin)


def _entries(directory: str, *, top: bool = False) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as scan:
            entries = list(scan)
    except FileNotFoundError:
        return  # as a commit log directory that is configured and was never made
    except OSError as error:
        raise unreadable(Path(directory), error) from error
    for entry in entries:
        # The lock file says nothing about the data, and a broker that is refused may touch it.
        if top and (entry.name == TOOL_DIRECTORY or (entry.name == PartKind.LOCK.value and not entry.is_dir())):
            continue
        # Only the parts themselves may be links, to directories on other disks.
        if entry.is_dir(follow_symlinks=top):
            yield from _entries(entry.path)
        else:
            yield entry
