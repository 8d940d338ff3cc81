"""Stores of another user, and what that user can do to them: links, forged journals and plans, special files."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rmqstore.repair.files.writer import Hook, Primitive
from tests.repair.every_action import SAMPLE
from tests.support import stores

KNOWN_USER = 65534
UNKNOWN_USER = 54321


@contextmanager
def reachable_directory() -> Iterator[Path]:
    """A directory that every user can enter, as those of pytest are not."""
    directory = Path(tempfile.mkdtemp(prefix="rmqstore-test-"))
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


def store_of(user: int, directory: Path) -> Path:
    """A sample store that belongs to a user with everything in it."""
    root = stores.fresh_store(SAMPLE, directory)
    give(root, user)
    return root


def give(root: Path, user: int) -> None:
    """`chown -hR user:user root`."""
    for path in (root, *root.rglob("*")):
        os.chown(path, user, user, follow_symlinks=False)


class Watching(Hook):
    """Remembers with whose rights every call was made."""

    def __init__(self) -> None:
        self.users: set[tuple[int, int, tuple[int, ...]]] = set()

    def before(self, primitive: Primitive, path: Path, size: int) -> int:
        self.users.add((os.geteuid(), os.getegid(), tuple(os.getgroups())))
        return size


class Exchanging(Hook):
    """Before one call, the directory in which it is made becomes a link to another directory: what a check before the call cannot see."""

    def __init__(self, at: int, root: Path, outside: Path) -> None:
        self.calls = 0
        self._at = at
        self._root = root
        self._outside = outside

    def before(self, primitive: Primitive, path: Path, size: int) -> int:
        inside = path.parent.is_relative_to(self._root) and path.parent.is_dir() and not path.parent.is_symlink()
        if self.calls == self._at and inside:
            path.parent.rename(path.parent.with_name(f"{path.parent.name}.away"))
            path.parent.symlink_to(self._outside)
        self.calls += 1
        return size


def contents(directory: Path) -> dict[str, tuple[Any, ...]]:
    """Everything in a directory: type, mode, owner, and bytes of files."""
    found = {}
    for path in sorted((directory, *directory.rglob("*"))):
        status = path.lstat()
        data = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() and not path.is_symlink() else None
        found[str(path)] = (status.st_mode, status.st_uid, status.st_gid, data)
    return found


def forge_plan(file: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Changes a plan, and gives it the digest that it then has, as a forger would."""
    plan = json.loads(file.read_bytes())
    change(plan)
    said = {name: value for name, value in plan.items() if name not in ("type", "format", "id")}
    plan["id"] = hashlib.sha256(json.dumps(said, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()[:16]
    file.write_text(json.dumps(plan))


def forge_journal(file: Path, change: Callable[[list[dict[str, Any]]], object]) -> None:
    """Changes the lines of a journal."""
    lines = [json.loads(line) for line in file.read_bytes().splitlines()]
    change(lines)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
