"""Whether a start only appended to messages, queues and index: what is there stays, byte for byte, and new bytes go where zeros were."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

Files = Mapping[str, bytes]
"""Content by path."""

_LOG = "commitlog"
_INDEX = "index/"


def data_files(root: Path, directories: Iterable[str]) -> Files:
    """Every file below some directories of a store."""
    paths = (path for directory in directories for path in (root / directory).rglob("*"))
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths if path.is_file()}


def not_appended(before: Files, after: Files, index_items_at: int) -> Iterator[str]:
    """Changes between two moments that appending does not make. `index_items_at`: where items begin in an index file; what is in front of
    them, counts and heads of chains, changes with every item."""
    if all(after.get(path) == content for path, content in before.items() if path.startswith(_LOG)):
        yield from (f"{path} appears" for path in sorted(after.keys() - before.keys()))
        yield from (f"{path} changes" for path in sorted(before.keys() & after.keys()) if before[path] != after[path])
    for path, content in sorted(before.items()):
        fixed_from = index_items_at if path.startswith(_INDEX) else 0
        if path not in after:
            yield f"{path} is gone"
        elif len(after[path]) != len(content):
            yield f"{path} has {len(after[path])} bytes instead of {len(content)}"
        elif (at := _overwritten(content, after[path], fixed_from)) is not None:
            yield f"{path} is overwritten at {at}"


def _overwritten(before: bytes, after: bytes, fixed_from: int) -> int | None:
    """The first position from `fixed_from` on where a byte that was not zero is another one."""
    old, new = (np.frombuffer(content, np.uint8)[fixed_from:] for content in (before, after))
    (changed,) = np.nonzero((old != 0) & (old != new))
    return fixed_from + int(changed[0]) if changed.size else None
