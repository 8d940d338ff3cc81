"""Preparation before anything changes: every action finds what it expects, and everything needed to undo it is on the disk."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

from rmqstore.errors import RefusedError
from rmqstore.repair.files import beneath, copies, entries
from rmqstore.repair.files.hardlinks import is_linked, require_one_step
from rmqstore.repair.files.writer import Writer
from rmqstore.repair.plan import fingerprint
from rmqstore.repair.plan.attributes import attributes_of, of_status
from rmqstore.repair.plan.check import check_contents
from rmqstore.repair.plan.model import Action, ActionKind, Attributes, Directory, FileStamp
from rmqstore.repair.plan.owners import require_attributes
from rmqstore.repair.plan.paths import Devices, Places
from rmqstore.repair.plan.space import require_space
from rmqstore.repair.transaction.folder import Transaction
from rmqstore.repair.transaction.journal import Before, Journal
from rmqstore.repair.transaction.journal_check import undo_name
from rmqstore.store.parts import PartKind

_NEW_PLAN = "Verify the store again and make a new plan."


def prepare(transaction: Transaction, places: Places, writer: Writer) -> None:
    """Write the undo record of every action, and the journal that makes them valid. The store stays as it is.

    May be repeated after a stop in the middle. Raises RefusedError (the store is not what the plan was made for, or there is no space),
    OSError, UnreadableError.
    """
    plan = transaction.plan
    refuse_changes(plan.files, fingerprint.take(places))
    require_space(transaction, places)
    _empty(transaction.undo, writer)
    around = _Surroundings(places)
    sources: list[Path] = []
    with Journal.open(transaction.journal_path, writer, 0) as journal:
        for number, action in enumerate(plan.actions):
            _stage(transaction, number, action, writer)
            before = _before(transaction, number, action, around, writer)
            journal.before(before)
            sources += _settled_source(transaction, number, action, before, around, writer)
        writer.fsync_all(sources)
        for directory in (transaction.undo, transaction.staged, transaction.directory):
            if beneath.is_directory(directory):
                writer.fsync_directory(directory)
        journal.prepared()


def refuse_changes(before: Mapping[str, FileStamp], now: Mapping[str, FileStamp]) -> None:
    """Raise RefusedError if the files of a store are not those that a plan was made for."""
    changed = list(fingerprint.differences(before, now))
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise RefusedError(f"The store changed since the plan was made: {changed[0]}{more}.", _NEW_PLAN)


class _Surroundings:
    """Surroundings of the files of a plan, looked at once: the store stays as it is. `copied` are files that have a copy already."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.devices = Devices()
        self.copied: set[str] = set()
        self._directories: dict[str, Directory] = {}

    def directory(self, name: str) -> Directory:
        """Return a directory as it is. Raises LinkError."""
        known = self._directories.get(name)
        if known is None:
            path = self.places.directory(name)
            known = self._directories[name] = Directory(name, attributes_of(path) if beneath.is_directory(path) else None)
        return known


def _before(transaction: Transaction, number: int, action: Action, around: _Surroundings, writer: Writer) -> Before:
    path = entries.path_of(around.places, action)
    attributes, size = _found(path, action)
    if action.path == PartKind.LOCK and transaction.plan.undoes is None and beneath.is_file(path):
        raise RefusedError(f"The plan removes {path}, which brokers lock.", _NEW_PLAN)
    if (size, attributes and attributes.mtime_ns) != (action.expect.size, action.expect.mtime_ns):
        raise RefusedError(f"{action.path} changed since the plan was made.", _NEW_PLAN)
    require_attributes(transaction, number, action, path, attributes, around.devices)
    linked = action.in_place and action.path not in around.copied and is_linked(path)
    directories = _directories(action, around, linked=linked)
    if not action.in_place:
        digest = None if size is None or entries.is_special(path) else fingerprint.digest(path, 0, size)
        return Before(number, size, attributes, directories=directories, placed=_placed(transaction, number, action), digest=digest)
    name = undo_name(number)
    kept = transaction.directory / name
    copies.copy_range(writer, path, action.position, action.length, kept)
    if fingerprint.digest(kept, 0, action.length) != action.expect.digest:
        raise RefusedError(f"{action.path} changed since the plan was made, at byte {action.position}.", _NEW_PLAN)
    if linked:
        _copy(transaction, number, path, writer)
        around.copied.add(action.path)
    holes = tuple(copies.holes(path, action.position, action.length))
    return Before(number, size, attributes, name, holes, directories, linked=linked)


def _copy(transaction: Transaction, number: int, path: Path, writer: Writer) -> None:
    """Make a copy of a file that has other names, ready to replace it."""
    copy = transaction.copy_of(number)
    require_one_step(path, transaction.directory)
    if not beneath.is_directory(transaction.staged):
        writer.mkdir(transaction.staged)
    if beneath.exists(copy):
        writer.unlink(copy)
    with beneath.reading(path) as read:
        status = os.fstat(read)
        copies.copy_descriptor(writer, read, path, 0, status.st_size, copy, of_status(status))


def _settled_source(
    transaction: Transaction, number: int, action: Action, before: Before, around: _Surroundings, writer: Writer
) -> Iterator[Path]:
    """Give the file that an action will rename its attributes, and yield it; nothing if it will be copied, or is no regular file."""
    if action.in_place or action.contents is None or action.attributes is None:
        return
    source, target = transaction.source(number, action), entries.path_of(around.places, action)
    found = beneath.status(source)
    if found is not None and not entries.is_special_status(found) and found.st_dev == around.devices.of_directory(target.parent):
        with writer.hold(source) as descriptor:
            writer.set_attributes(descriptor, source, replace(action.attributes, mtime_ns=before.placed))
        yield source


def _placed(transaction: Transaction, number: int, action: Action) -> int | None:
    if action.attributes is None:
        return None
    if action.attributes.mtime_ns is not None:
        return action.attributes.mtime_ns
    return attributes_of(transaction.source(number, action)).mtime_ns


def _found(path: Path, action: Action) -> tuple[Attributes | None, int | None]:
    status = beneath.status(path)
    # An entry in the place of a new file is removed before; if it is not, the new file is not put there.
    if status is None or (action.kind is ActionKind.CREATE and not stat.S_ISREG(status.st_mode)):
        return None, None
    if stat.S_ISDIR(status.st_mode) or (action.in_place and not stat.S_ISREG(status.st_mode)):
        raise RefusedError(f"{path} is not a file.", "A repair changes files only.")
    return of_status(status), status.st_size


def _directories(action: Action, around: _Surroundings, *, linked: bool) -> tuple[Directory, ...]:
    """Return the directories whose names or times the action can change, as they are, outermost first."""
    if action.in_place and not linked and not action.directories:
        return ()
    named = [PurePosixPath(action.path).parent, *(PurePosixPath(directory.path) for directory in action.directories)]
    touched = {*named, *(path.parent for path in named if not path.is_absolute())}
    return tuple(around.directory(path.as_posix()) for path in sorted(touched, key=lambda path: len(path.parts)))


def _stage(transaction: Transaction, number: int, action: Action, writer: Writer) -> None:
    """Write contents in the plan itself to a file if they become a whole file; check those in a file."""
    contents = action.contents
    if contents is None:
        return
    source = transaction.source(number, action)
    if contents.data is not None and not action.in_place:
        if not beneath.is_directory(transaction.staged):
            writer.mkdir(transaction.staged)
        if beneath.exists(source):
            writer.unlink(source)
        with writer.create(source) as descriptor:
            writer.write(descriptor, source, 0, contents.data)
            writer.fsync(descriptor, source)
    elif contents.file is not None:
        check_contents(contents, source)


def _empty(directory: Path, writer: Writer) -> None:
    if beneath.is_directory(directory):
        for name, _ in beneath.entries(directory):
            writer.unlink(directory / name)
    else:
        writer.mkdir(directory)
