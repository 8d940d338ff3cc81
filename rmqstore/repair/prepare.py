"""Before anything changes: every action finds what it expects, and everything needed to take it back is on the disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from rmqstore.errors import RefusedError
from rmqstore.repair import copies, fingerprint
from rmqstore.repair.check import check_contents, check_plan
from rmqstore.repair.journal import Before, Journal
from rmqstore.repair.likeness import attributes_of
from rmqstore.repair.places import Places
from rmqstore.repair.plan import Action, ActionKind, Attributes, Directory, FileStamp
from rmqstore.repair.space import demand_space
from rmqstore.repair.transaction import Transaction
from rmqstore.repair.writer import Writer
from rmqstore.store.mapped import list_directory

_NEW_PLAN = "Look at the store again and make a new plan."


def prepare(transaction: Transaction, places: Places, writer: Writer) -> None:
    """Writes the undo record of every action, and the journal that makes them count. The store stays as it is.

    May be done again after a stop in the middle. Raises RefusedError (the store is not what the plan was made for, or there is no space),
    OSError, UnreadableError.
    """
    plan = transaction.plan
    check_plan(plan, places)
    refuse_changes(plan.files, fingerprint.take(places))
    demand_space(transaction, places)
    _empty(transaction.undo, writer)
    with Journal.open(transaction.journal_path, writer, fresh=True) as journal:
        for number, action in enumerate(plan.actions):
            _stage(transaction, number, action, writer)
            journal.before(_before(transaction, number, action, places, writer))
        for directory in (transaction.undo, transaction.staged, transaction.directory):
            if directory.is_dir():
                writer.fsync_directory(directory)
        journal.prepared()


def refuse_changes(before: Mapping[str, FileStamp], now: Mapping[str, FileStamp]) -> None:
    """Raises RefusedError when the files of a store are not those that a plan was made for."""
    changed = list(fingerprint.differences(before, now))
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise RefusedError(f"The store changed since it was planned for: {changed[0]}{more}.", _NEW_PLAN)


def _before(transaction: Transaction, number: int, action: Action, places: Places, writer: Writer) -> Before:
    path = places.path(action.path)
    attributes, size = _found(path, action)
    if (size, attributes and attributes.mtime_ns) != (action.expect.size, action.expect.mtime_ns):
        raise RefusedError(f"{action.path} changed since it was planned for.", _NEW_PLAN)
    directories = _directories(action, places)
    if not action.in_place:
        return Before(number, size, attributes, directories=directories, placed=_placed(transaction, number, action))
    name = f"{transaction.undo.name}/{number:06d}"
    kept = transaction.directory / name
    copies.copy_range(writer, path, action.position, action.length, kept)
    if fingerprint.digest(kept, 0, action.length) != action.expect.digest:
        raise RefusedError(f"{action.path} changed since it was planned for, at byte {action.position}.", _NEW_PLAN)
    return Before(number, size, attributes, name, tuple(copies.holes(path, action.position, action.length)), directories)


def _placed(transaction: Transaction, number: int, action: Action) -> int | None:
    if action.attributes is None:
        return None
    if action.attributes.mtime_ns is not None:
        return action.attributes.mtime_ns
    return transaction.source(number, action).stat().st_mtime_ns


def _found(path: Path, action: Action) -> tuple[Attributes | None, int | None]:
    # A directory in the place of a new file goes before; if it does not, the new file is not put there.
    if not path.exists() or (path.is_dir() and action.kind is ActionKind.CREATE):
        return None, None
    if not path.is_file():
        raise RefusedError(f"{path} is not a file.", "A repair changes files only.")
    return attributes_of(path), path.stat().st_size


def _directories(action: Action, places: Places) -> tuple[Directory, ...]:
    """The directories whose names or times the action can change, as they are, outermost first."""
    if action.in_place:
        return ()
    named = [PurePosixPath(action.path).parent, *(PurePosixPath(directory.path) for directory in action.directories)]
    touched = {*named, *(path.parent for path in named if not path.is_absolute())}
    result = []
    for path in sorted(touched, key=lambda path: len(path.parts)):
        directory = places.directory(path.as_posix())
        result.append(Directory(path.as_posix(), attributes_of(directory) if directory.is_dir() else None))
    return tuple(result)


def _stage(transaction: Transaction, number: int, action: Action, writer: Writer) -> None:
    """Contents that the plan itself holds become a file too where they take a place of their own."""
    contents = action.contents
    if contents is None:
        return
    source = transaction.source(number, action)
    if contents.data is not None and not action.in_place:
        if not transaction.staged.is_dir():
            writer.mkdir(transaction.staged)
        if source.exists():
            writer.unlink(source)
        with writer.create(source) as descriptor:
            writer.write(descriptor, source, 0, contents.data)
            writer.fsync(descriptor, source)
    elif contents.file is not None:
        check_contents(contents, source)


def _empty(directory: Path, writer: Writer) -> None:
    if directory.is_dir():
        for entry in list_directory(directory):
            writer.unlink(Path(entry.path))
    else:
        writer.mkdir(directory)
