"""Entries of a store that a repair moves as a whole: files, and whatever else took the place of one, which is never opened."""

from __future__ import annotations

import stat
from pathlib import Path

from rmqstore.repair.files import beneath
from rmqstore.repair.plan.model import Action
from rmqstore.repair.plan.paths import Places


def path_of(places: Places, action: Action) -> Path:
    """Return the path of an action: of one that moves a whole entry it may be a link, of one that changes bytes it may not.

    Raises RefusedError for what is no place to change, or lies beyond a symbolic link.
    """
    return places.path(action.path) if action.in_place else entry_path(places, action.path)


def entry_path(places: Places, name: str) -> Path:
    """Return the path that `name` means, which may be a link; what is above it may not. Raises RefusedError as `Places.path` does."""
    places.phase(name)
    path = places.root / name
    beneath.status(path)  # raises LinkError
    return path


def is_special(path: Path) -> bool:
    """Return whether there is a link, a named pipe, a socket or a device at `path` itself."""
    found = beneath.status(path)
    return found is not None and not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode))
