"""Free space that a plan needs on every file system, checked before anything is written."""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from pathlib import Path

from rmqstore.errors import RefusedError
from rmqstore.repair.files import beneath, entries, hardlinks
from rmqstore.repair.files.copies import holes
from rmqstore.repair.plan.fingerprint import blocks_with_data
from rmqstore.repair.plan.model import ActionKind
from rmqstore.repair.plan.paths import Devices, Places
from rmqstore.repair.transaction.folder import Transaction

_MARGIN = 1 << 20
_JOURNAL_LINE = 2048


def require_space(transaction: Transaction, places: Places) -> None:
    """Raise RefusedError if a file system has not the space for undo records, quarantine and new bytes of a transaction."""
    for directory, needed in needs(transaction, places).items():
        available = _available(directory)
        if available < needed:
            message = f"{directory} has {available} bytes of free space, but {needed} are needed."
            raise RefusedError(message, "Free space there, on this file system; nothing was changed.")


def needs(transaction: Transaction, places: Places) -> dict[Path, int]:
    """Return the bytes that applying a plan takes at most, by a directory of each file system."""
    home = transaction.directory
    devices = Devices()
    here = devices.of(home)
    directories = {here: home}
    needed: defaultdict[int, int] = defaultdict(int)
    copied: set[Path] = set()
    for number, action in enumerate(transaction.plan.actions):
        path = entries.path_of(places, action)
        there = devices.of(path)
        directories.setdefault(there, path.parent)
        needed[here] += _JOURNAL_LINE
        if action.in_place:
            if path not in copied and hardlinks.is_linked(path):
                copied.add(path)
                needed[here] += _allocated(path, action.length)
            needed[here] += sum(size for _, size in blocks_with_data(path, action.position, action.length))
        if action.kind is ActionKind.WRITE:
            needed[there] += sum(end - begin for begin, end in holes(path, action.position, action.length))
        elif there != here:
            if action.contents is not None and not action.in_place:
                needed[there] += _allocated(transaction.source(number, action), action.length)
            if action.expect.size is not None:
                needed[here] += _allocated(path, action.length)
    return {directories[one]: count + _MARGIN for one, count in needed.items()}


def _allocated(path: Path, length: int) -> int:
    status = beneath.status(path)
    return status.st_blocks * 512 if status is not None and stat.S_ISREG(status.st_mode) else length


def _available(directory: Path) -> int:
    while not beneath.is_directory(directory):
        directory = directory.parent
    status = os.statvfs(directory)
    return status.f_bavail * status.f_frsize
