"""Whether this process writes below a directory: what it opens for writing, renames, removes and makes there."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGING = frozenset(
    {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.link", "os.symlink"}
    | {"os.utime", "os.chmod", "os.chown", "os.setxattr", "os.removexattr"}
)

_watched: dict[str, list[str]] = {}
_installed: list[bool] = []


@contextmanager
def writes_below(root: Path) -> Iterator[list[str]]:
    """Collects what changes something below `root` while the block runs, in this process; other processes may write there."""
    if not _installed:  # such a hook stays until the process ends
        sys.addaudithook(_hear)
        _installed.append(True)
    found: list[str] = []
    _watched[str(root)] = found
    try:
        yield found
    finally:
        del _watched[str(root)]


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watched:
        return
    if event == "open":
        path, _, flags = arguments
        paths = [path] if flags & _WRITING else []
    elif event in _CHANGING:
        paths = [each for each in arguments if isinstance(each, (str, bytes, os.PathLike))]
    else:
        return
    for each in paths:
        if isinstance(each, (str, bytes, os.PathLike)):
            text = str(Path(os.fsdecode(each)).absolute())
            for root, found in _watched.items():
                if text == root or text.startswith(root + "/"):
                    found.append(f"{event} {text}")
