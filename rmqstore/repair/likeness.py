"""Likeness: what a new file or directory takes from those around it, so that the broker's user can work with it."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

from rmqstore.repair.places import Places
from rmqstore.repair.plan import Attributes, Directory
from rmqstore.store.mapped import list_directory
from rmqstore.store.parts import PartKind

_FILE_MODE = 0o644
_MODELS = (PartKind.CHECKPOINT, PartKind.LOCK, PartKind.ABORT)


def attributes_of(path: Path) -> Attributes:
    """Mode, owner and mtime of what is at `path`. Raises OSError."""
    return of_status(path.lstat())


def of_status(status: os.stat_result) -> Attributes:
    """The same of a result of stat."""
    return Attributes(stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid, status.st_mtime_ns)


def like_sibling(path: Path, root: Path) -> Attributes:
    """What a new file at `path` gets: mode and owner of a file beside it, else of a file of the root, else its directory's owner."""
    siblings = (Path(entry.path) for entry in list_directory(path.parent)) if path.parent.is_dir() else iter(())
    for model in (*siblings, *(root / kind for kind in _MODELS)):
        if model != path and model.is_file() and not model.is_symlink():
            return replace(attributes_of(model), mtime_ns=None)
    owner = _existing(path.parent).stat()
    return Attributes(_FILE_MODE, owner.st_uid, owner.st_gid, None)


def missing_directories(path: Path, places: Places) -> tuple[Directory, ...]:
    """The directories above `path` that do not exist, outermost first, with mode and owner of the one that does."""
    existing = _existing(path.parent)
    model = replace(of_status(existing.stat()), mtime_ns=None)
    missing = []
    directory = path.parent
    while directory != existing:
        missing.append(Directory(places.spell(directory), model))
        directory = directory.parent
    return tuple(reversed(missing))


def _existing(directory: Path) -> Path:
    while not directory.is_dir():
        directory = directory.parent
    return directory
