"""Entries of a store that a repair moves as a whole: files, and any other entry in the place of one, which is never opened."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from rmqstore.repair.files import beneath
from rmqstore.repair.plan.model import Action
from rmqstore.repair.plan.paths import Places


def path_of(places: Places, action: Action) -> Path:
    """Return the path of an action: if it moves a whole entry, this may be a link; if it changes bytes, it may not.

    Raises RefusedError for a path that may not change, and, of an action that changes bytes, for one below a symbolic link.
    """
    return places.path(action.path) if action.in_place else entry_path(places, action.path)


def entry_path(places: Places, name: str) -> Path:
    """Return the path that `name` means, which may be a link. Raises RefusedError for a path that may not change.

    A link above it is not looked for: each access below `beneath` refuses that.
    """
    places.phase(name)
    return places.at(name)


def is_special(path: Path) -> bool:
    """Return whether there is a link, a named pipe, a socket or a device at `path` itself."""
    found = beneath.status(path)
    return found is not None and is_special_status(found)


def is_special_status(found: os.stat_result) -> bool:
    """Return whether a result of lstat is that of a link, a named pipe, a socket or a device."""
    return not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode))
