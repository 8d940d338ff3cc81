"""The state of a directory tree, down to bytes, modes, owners and times, whatever kinds of files are in it."""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path
from typing import Any

State = dict[str, tuple[Any, ...]]
_OWN = ".rmqstore"


def state_of(root: Path) -> State:
    """Every path below `root` but the directory of transactions, with what `lstat` and its bytes tell of it."""
    found: State = {}
    for path in sorted(root.iterdir()):
        if path.name != _OWN:
            _enter(path, root, found)
    return found


def _enter(path: Path, root: Path, found: State) -> None:
    status = path.lstat()
    kind, content = stat.S_IFMT(status.st_mode), ""
    if stat.S_ISREG(kind):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
    elif stat.S_ISLNK(kind):
        content = str(path.readlink())
    size = None if stat.S_ISDIR(kind) else status.st_size
    mode = stat.S_IMODE(status.st_mode)
    found[path.relative_to(root).as_posix()] = (
        stat.filemode(status.st_mode)[0],
        mode,
        status.st_uid,
        status.st_gid,
        status.st_mtime_ns,
        size,
        content,
    )
    if stat.S_ISDIR(kind):
        for below in sorted(path.iterdir()):
            _enter(below, root, found)


_FIELDS = ("kind", "mode", "owner", "group", "mtime", "size", "content")


def differences(before: State, after: State) -> list[str]:
    """What is different, one line for each path."""
    lines = [f"{path} is gone" for path in sorted(before.keys() - after.keys())]
    lines += [f"{path} appears" for path in sorted(after.keys() - before.keys())]
    for path in sorted(before.keys() & after.keys()):
        changed = [name for name, old, new in zip(_FIELDS, before[path], after[path], strict=True) if old != new]
        if changed:
            lines.append(f"{path} has another {', '.join(changed)}")
    return lines
