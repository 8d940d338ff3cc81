"""Copies of a store before it is changed: the commands that make them, and the space that they need."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

from rmqstore import shellwords
from rmqstore.store.access import log_directories
from rmqstore.store.root import Store


@dataclass(frozen=True, slots=True)
class Copy:
    """A directory to copy: the target, which does not exist yet, the allocated bytes, and the free bytes beside the directory.

    `free` is None where the file system does not say.
    """

    directory: Path
    target: Path
    size: int
    free: int | None

    @property
    def command(self) -> str:
        """Return the command that makes the copy, with holes, owners and times."""
        return shellwords.command("cp", "-a", "--sparse=always", self.directory, self.target)


def copies(store: Store) -> list[Copy]:
    """Return the copies that keep a whole store: its root, and the directories of the log and the targets of links outside of it."""
    tops: list[Path] = []
    for path in (store.root, *log_directories(store), *(link.target for link in store.part_links())):
        real = Path(os.path.realpath(path))
        if real.is_dir() and not any(real.is_relative_to(top) for top in tops):
            tops.append(real)
    return [Copy(top, _target(top), _allocated(top), _free(top.parent)) for top in tops]


def _target(directory: Path) -> Path:
    plain = directory.with_name(f"{directory.name}.copy")
    numbered = (directory.with_name(f"{plain.name}-{number}") for number in count(2))
    return next(path for path in chain((plain,), numbered) if not os.path.lexists(path))


def _allocated(directory: Path) -> int:
    """Return the bytes of all blocks below a directory, each file once; what cannot be listed counts as empty."""
    inodes: dict[tuple[int, int], int] = {}
    for status in _statuses(directory):
        inodes[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sum(inodes.values())


def _statuses(directory: Path) -> Iterator[os.stat_result]:
    for parent, _, names in os.walk(directory):
        for path in (parent, *(os.path.join(parent, name) for name in names)):  # noqa: PTH118  -- there can be millions
            try:
                yield os.lstat(path)
            except OSError:
                continue


def _free(directory: Path) -> int | None:
    try:
        return shutil.disk_usage(directory).free
    except OSError:
        return None
