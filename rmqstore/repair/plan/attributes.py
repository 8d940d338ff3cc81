"""Attributes that a new file or directory takes from those around it, so that the broker's user can work with it."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import replace
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
    siblings = [path.parent / name for name, status in beneath.entries(path.parent)] if beneath.is_directory(path.parent) else []
    for model in (*siblings, *(root / kind for kind in _MODELS)):
        status = beneath.status(model)
        if model != path and status is not None and stat.S_ISREG(status.st_mode):
            return of_new_file(replace(of_status(status), mtime_ns=None))
    owner = attributes_of(_existing(path.parent))
    return of_new_file(Attributes(_FILE_MODE, owner.uid, owner.gid, None))


def missing_directories(path: Path, places: Places) -> tuple[Directory, ...]:
    """Return the directories above `path` that do not exist, outermost first, with mode and owner of the one that does."""
    existing = _existing(path.parent)
    found = attributes_of(existing)
    model = replace(found, uid=_uid(found.uid), gid=_gid(found.gid), mtime_ns=None)
    missing = []
    directory = path.parent
    while directory != existing:
        missing.append(Directory(places.spell(directory), model))
        directory = directory.parent
    return tuple(reversed(missing))


def _existing(directory: Path) -> Path:
    while not beneath.is_directory(directory):
        directory = directory.parent
    return directory


def _uid(wanted: int) -> int:
    return wanted if os.geteuid() == 0 else os.geteuid()


def _gid(wanted: int) -> int:
    return wanted if os.geteuid() == 0 or wanted in os.getgroups() else os.getegid()
