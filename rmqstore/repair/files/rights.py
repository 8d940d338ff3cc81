"""The rights with which a store is changed: started as root on a store of another user, those of that user and no more.

With them, such a store cannot make the tool do anything that the owner of the store could not do alone. A store whose root directory
belongs to root is trusted, and changed with the rights that the command was started with. The rights are those of the whole process (the C
library changes them for all threads), so there is one set of them at a time.

Files of the operator (plans, broker.conf) and of this program are still opened with the rights of the user who started it, by the thread
that does so and no other: Linux has a user of each thread for access to files only (setfsuid).
"""

from __future__ import annotations

import ctypes
import os
import pwd
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rmqstore.errors import RefusedError
from rmqstore.repair.files import beneath
from rmqstore.repair.files.loading import importing_with, load_packages
from rmqstore.repair.plan.paths import Places

_PACKAGES = ("store", "scan", "catalogue", "verify", "prediction", "rebuild", "render", "repair")
"""Packages of this project that writing commands use; some of their modules are loaded late."""


@dataclass(frozen=True, slots=True)
class _Owner:
    uid: int
    gid: int
    groups: list[int]


class _Rights:
    """The rights of the owner of a store that are in force, if any."""

    owner: _Owner | None = None


@contextmanager
def of_owner(places: Places) -> Iterator[None]:
    """Work with the rights of the owner of the root of a store, where root started this process and the store is not root's.

    Its directories must be pinned. Raises RefusedError: the owner cannot reach the store or this program, or files in it belong to others.
    """
    status = beneath.status(places.root)
    if status is None or os.geteuid() != 0 or status.st_uid == 0:
        yield
        return
    load_packages(_PACKAGES)
    owner = _rights_of(status)
    started_with = os.getegid(), os.getgroups()
    try:
        os.setgroups(owner.groups)
    except PermissionError as error:
        message = (
            f"{places.root} belongs to user {owner.uid}, whose permissions this process cannot take (a container without CAP_SETGID?)."
        )
        raise RefusedError(message, "Run this as that user.") from error
    try:
        os.setegid(owner.gid)
        os.seteuid(owner.uid)
        _Rights.owner = owner
        with importing_with(of_starter):
            _refuse_unreachable(places.root, status)
            _refuse_others(places, status)
            yield
    finally:
        _Rights.owner = None
        os.seteuid(0)
        os.setegid(started_with[0])
        os.setgroups(started_with[1])


@contextmanager
def of_starter() -> Iterator[None]:
    """Open files with the rights that the command was started with, in this thread; never for a path that the store decides."""
    owner = _Rights.owner
    if owner is None:
        yield
        return
    libc = ctypes.CDLL(None)
    libc.setfsuid(0)
    try:
        yield
    finally:
        libc.setfsuid(owner.uid)


@contextmanager
def to_see_processes() -> Iterator[None]:
    """Work with the rights that the command was started with, for a moment in which no other thread does anything."""
    owner = _Rights.owner
    if owner is None:
        yield
        return
    os.seteuid(0)
    try:
        yield
    finally:
        os.seteuid(owner.uid)


def are_reduced_for(root: Path) -> bool:
    """Return whether a store at `root` is changed with the rights of its owner, not with those of this process. Raises OSError."""
    return os.geteuid() == 0 and root.stat().st_uid != 0


def _rights_of(status: os.stat_result) -> _Owner:
    """Return the rights of the user who owns a directory. Only if the system does not know the user, the group is that of the directory."""
    try:
        user = pwd.getpwuid(status.st_uid)
    except KeyError:
        return _Owner(status.st_uid, status.st_gid, [status.st_gid])
    return _Owner(user.pw_uid, user.pw_gid, os.getgrouplist(user.pw_name, user.pw_gid))


def _refuse_unreachable(root: Path, pinned: os.stat_result) -> None:
    hint = "Move the store to where its owner can reach it, or work on a copy that belongs to root."
    try:
        found = root.stat()
    except PermissionError as error:
        raise RefusedError(f"{root} belongs to user {pinned.st_uid}, who cannot enter a directory above it.", hint) from error
    if (found.st_dev, found.st_ino) != (pinned.st_dev, pinned.st_ino):
        raise RefusedError(f"{root} is another directory than a moment ago.", "Find the process that moves it, then try again.")


def _refuse_others(places: Places, pinned: os.stat_result) -> None:
    """Raise RefusedError for files of others: the owner may not change them, and should perhaps not get them (hard links from outside)."""
    found = [(path, status) for path, status in _everything(places) if status.st_uid != pinned.st_uid]
    if not found:
        return
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    hint = f"If they are files of this store, give them to its owner with `chown -hR {pinned.st_uid} {shlex.quote(str(places.root))}`."
    if any(status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode) for _, status in found):
        hint = "Some have another name (a hard link), perhaps outside of the store: see what they are, and move them out of it."
    if any(stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode) for _, status in found):
        hint = "Some are devices, which their owner can read and write directly: see what they are, and remove them from the store."
    raise RefusedError(f"{found[0][0]}{more} do not belong to user {pinned.st_uid}, who owns the store and cannot change them.", hint)


def _everything(places: Places) -> Iterator[tuple[Path, os.stat_result]]:
    for top in places.tops:
        status = beneath.status(top)
        if status is not None:
            yield top, status
        for path, found in beneath.walk(top):
            yield Path(path), found
