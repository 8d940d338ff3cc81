"""Recognition of the root of a store, and the error for a directory that is none."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from rmqstore.errors import GoneError, NotAStoreError
from rmqstore.formats import checkpoint
from rmqstore.shellwords import quoted
from rmqstore.store.entries import Entry
from rmqstore.store.mapped import list_directory, unreadable
from rmqstore.store.parts import PartKind, part_kind

INDEX_NAME_LENGTH = 17

# A directory with one of these is a root; the other names are common words and need content.
_TELLING = frozenset(
    {
        *(PartKind.COMMITLOG, PartKind.DLEDGER, PartKind.CONSUMEQUEUE, PartKind.CONSUMEQUEUE_EXT, PartKind.BATCHCONSUMEQUEUE),
        *(PartKind.CONSUMEQUEUE_ROCKSDB, PartKind.ROCKSDBSTORE, PartKind.TIMERWHEEL, PartKind.TIMERLOG, PartKind.TIERED_INDEX),
        *(PartKind.EPOCH, PartKind.BROKER_IDENTITY),
    }
)


def tells_a_root(entry: Entry) -> bool:
    """Return whether a directory with this entry is the root of a store."""
    kind = part_kind(entry.name)
    if kind is PartKind.INDEX and entry.is_dir():
        return any(is_index_name(file.name) for file in list_directory(Path(entry.path)))
    if kind is PartKind.CHECKPOINT and entry.is_file():
        return entry.length == checkpoint.FILE_SIZE
    return kind in _TELLING


def is_index_name(name: str) -> bool:
    """Return whether a file name is the 17 digits of an index file (yyyyMMddHHmmssSSS)."""
    return len(name) == INDEX_NAME_LENGTH and name.isascii() and name.isdigit()


def require_directory(root: Path) -> None:
    """Raise UnreadableError if there is nothing at `root`, NotAStoreError if it is no directory."""
    try:
        root.stat()
    except FileNotFoundError as error:
        close = _similar_directory(root)
        hint = "Check the path." if close is None else f"Did you mean {close}?"
        raise GoneError(f"{root}: no such directory.", hint) from error
    except OSError as error:
        raise unreadable(root, error) from error
    if not root.is_dir():
        kind = "a file" if root.is_file() else "neither a file nor a directory"
        hint = "Give the broker's storePathRootDir; for a single file there is `rmqstore dump FILE`."
        raise NotAStoreError(f"{root} is {kind}, not a store.", hint)


def _similar_directory(path: Path) -> Path | None:
    """Return the directory with the most similar path, where the first missing name of a path is mistyped; None without one."""
    from difflib import get_close_matches

    missing = next(part for part in (path, *path.parents) if part.parent.exists())
    try:
        names = [child.name for child in missing.parent.iterdir()]
    except OSError:
        return None
    for name in get_close_matches(missing.name, names, n=3, cutoff=0.7):
        found = missing.parent / name / path.relative_to(missing)
        if found.is_dir():
            return found
    return None


def not_a_store(root: Path, entries: Sequence[Entry]) -> NotAStoreError:
    """Return the error for a directory with these entries, among them nothing of a store."""
    if not entries:
        return NotAStoreError(f"{root} is empty.", "Give the broker's storePathRootDir (default ~/store).")
    for child in entries:
        if child.is_dir() and os.access(child.path, os.R_OK | os.X_OK) and any(map(tells_a_root, list_directory(Path(child.path)))):
            return NotAStoreError(f"{root} is not a store, but {child.name} in it looks like one.", f"Give {quoted(child.path)}.")
    return NotAStoreError(
        f"{root} is not a store: it contains no commitlog, consumequeue, index or other part of one.",
        "Give the broker's storePathRootDir, or with --broker-conf the broker.conf that names the commit log directories.",
    )
