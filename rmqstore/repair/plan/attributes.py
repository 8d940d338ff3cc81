"""Attributes that a new file or directory takes from those around it, so that the broker's user can work with it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path

from rmqstore.repair.files import beneath
from rmqstore.repair.plan.model import Attributes, Directory
from rmqstore.repair.plan.paths import Places
from rmqstore.store.parts import PartKind

MODE_OF_FILES = 0o777
"""Permission bits that a file of a store may have: none that gives the user who runs it the rights of its owner."""
_FILE_MODE = 0o644
_MODELS = (PartKind.CHECKPOINT, PartKind.LOCK, PartKind.ABORT)


def attributes_of(path: Path) -> Attributes:
    """Return mode, owner and mtime of the entry at `path`. Raises LinkError, OSError."""
    status = beneath.status(path)
    if status is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    return of_status(status)


def of_status(status: os.stat_result) -> Attributes:
    """Return mode, owner and mtime in a result of stat."""
    return Attributes(stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid, status.st_mtime_ns)


def of_new_file(model: Attributes) -> Attributes:
    """Return the attributes of a new file like `model`: no set-id bit, and no owner or group that this process cannot give."""
    return replace(model, mode=model.mode & MODE_OF_FILES, uid=_uid(model.uid), gid=_gid(model.gid))


def may_give(wanted: Attributes) -> bool:
    """Return whether this process can give a file this owner and this group."""
    return (_uid(wanted.uid), _gid(wanted.gid)) == (wanted.uid, wanted.gid)


def like_sibling(path: Path, root: Path) -> Attributes:
    """Return attributes for a new file at `path`: mode and owner of a sibling, else of a file of the root, else its directory's owner."""
    return Neighbours(root).like_sibling(path)


class Neighbours:
    """Attributes of many new files of a store that stays as it is meanwhile: each directory is looked at once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._siblings: dict[Path, list[tuple[Path, Attributes]]] = {}
        self._existing: dict[Path, Path] = {}

    def like_sibling(self, path: Path) -> Attributes:
        """Return the attributes that the function `like_sibling` does."""
        for model, attributes in (*self._siblings_of(path), *self._of_root):
            if model != path:
                return of_new_file(replace(attributes, mtime_ns=None))
        owner = attributes_of(self._existing_above(path))
        return of_new_file(Attributes(_FILE_MODE, owner.uid, owner.gid, None))

    def missing_directories(self, path: Path, places: Places) -> tuple[Directory, ...]:
        """Return the directories above `path` that do not exist, outermost first, with mode and owner of the one that does."""
        existing = self._existing_above(path)
        if existing == path.parent:
            return ()
        found = attributes_of(existing)
        model = replace(found, uid=_uid(found.uid), gid=_gid(found.gid), mtime_ns=None)
        missing = []
        directory = path.parent
        while directory != existing:
            missing.append(Directory(places.spell(directory), model))
            directory = directory.parent
        return tuple(reversed(missing))

    def _siblings_of(self, path: Path) -> list[tuple[Path, Attributes]]:
        """Return two regular files of the directory of `path`, or fewer: one may be `path` itself."""
        directory = path.parent
        known = self._siblings.get(directory)
        if known is None:
            listed = beneath.entries(directory) if self._existing_above(path) == directory else []
            known = self._siblings[directory] = list(islice(_regular((directory / name, status) for name, status in listed), 2))
        return known

    @cached_property
    def _of_root(self) -> list[tuple[Path, Attributes]]:
        return list(_regular((self._root / kind, beneath.status(self._root / kind)) for kind in _MODELS))

    def _existing_above(self, path: Path) -> Path:
        directory = path.parent
        known = self._existing.get(directory)
        if known is None:
            known = directory if beneath.is_directory(directory) else self._existing_above(directory)
            self._existing[directory] = known
        return known


def _regular(entries: Iterable[tuple[Path, os.stat_result | None]]) -> Iterator[tuple[Path, Attributes]]:
    return ((path, of_status(status)) for path, status in entries if status is not None and stat.S_ISREG(status.st_mode))


def _uid(wanted: int) -> int:
    return wanted if os.geteuid() == 0 else os.geteuid()


def _gid(wanted: int) -> int:
    return wanted if os.geteuid() == 0 or wanted in os.getgroups() else os.getegid()
