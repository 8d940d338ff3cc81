"""Check of a plan against its store: every path may change, every range is inside its file, every file of contents as announced."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from rmqstore.errors import RefusedError
from rmqstore.repair.files import beneath, entries
from rmqstore.repair.plan import fingerprint
from rmqstore.repair.plan.attributes import MODE_OF_FILES
from rmqstore.repair.plan.model import Action, ActionKind, Contents, Plan
from rmqstore.repair.plan.overlaps import conflict
from rmqstore.repair.plan.paths import Places
from rmqstore.repair.transaction.folder import DamagedError, State, Transaction, is_transaction_name, quarantine_name
from rmqstore.repair.transaction.journal_check import MODE_OF_DIRECTORIES, directories_above, problems_of_attributes

_STAGED_NAME = re.compile(r"[0-9]{6}")
_UNDO_NAME = re.compile(r"undo/[0-9]{6,}")
_MOVED_NAME = re.compile(r"quarantine/[^\0]+")


def check_plan(plan: Plan, places: Places) -> None:
    """Raise RefusedError unless every action is one that a planner of this tool could have made for this store."""
    if plan.undoes is not None and not is_transaction_name(plan.undoes):
        raise _refused(f"{plan.undoes!r} is not a transaction")
    for action in plan.actions:
        if not action.in_place:
            beneath.leaves(places.at(action.path))
    for number, action in enumerate(plan.actions):
        problem = next(_problems(action, places, undo=plan.undoes is not None), None)
        if problem is not None:
            raise _refused(f"action {number + 1} ({action.kind} of {action.path!r}): {problem}")
    clash = conflict(plan.actions)
    if clash is not None:
        raise _refused(clash)


def check_transaction(transaction: Transaction, places: Places) -> None:
    """Raise DamagedError unless plan and journal of a transaction are such as this program makes for this store."""
    plan = transaction.plan
    try:
        check_plan(plan, places)
    except RefusedError as error:
        raise DamagedError(transaction.directory, error.message.removesuffix(".")) from error
    states = [transaction.state]
    if plan.undoes is not None:
        states.append(Transaction(transaction.root, plan.undoes).state)
    if State.INCOMPLETE in states:
        raise DamagedError(transaction.directory, "it undoes a transaction that does not exist")


def check_kept(transaction: Transaction) -> None:
    """Raise DamagedError unless the old bytes and the contents of a continued transaction are those that were put there."""
    story = transaction.story
    for number, action in enumerate(transaction.plan.actions):
        undo = story.before[number].undo
        try:
            if undo is not None:
                check_contents(Contents(action.length, digest=action.expect.digest), transaction.directory / undo)
            if not action.in_place:
                beneath.status(transaction.quarantined(action))  # raises LinkError
            if action.contents is not None and (action.in_place or beneath.exists(transaction.source(number, action))):
                _check_new(transaction, number, action)
        except RefusedError as error:
            raise DamagedError(transaction.directory, error.message.removesuffix(".")) from error


def _check_new(transaction: Transaction, number: int, action: Action) -> None:
    contents = action.contents
    assert contents is not None
    if contents.data is None:
        check_contents(contents, transaction.contents(contents))
    elif not action.in_place:
        check_contents(Contents(contents.length, digest=fingerprint.digest_of(contents.data)), transaction.source(number, action))


def check_contents(contents: Contents, path: Path) -> None:
    """Raise RefusedError unless the file `path` is as long as announced, and has the digest if one was announced."""
    if _MOVED_NAME.fullmatch(contents.file or "") and entries.is_special(path):
        return  # it was moved without being opened, and is moved back likewise
    require_file(path)
    with beneath.reading(path) as descriptor:
        require_contents(contents, descriptor, path)


def require_file(path: Path) -> None:
    """Raise RefusedError unless there is a file with contents."""
    if not beneath.is_file(path):
        raise RefusedError(f"{path}, which holds contents of the plan, is missing.", "Make a new plan.")


def require_contents(contents: Contents, descriptor: int, path: Path) -> None:
    """Check an open file as `check_contents` does."""
    right = os.fstat(descriptor).st_size == contents.length
    if not right or contents.digest not in (None, fingerprint.descriptor_digest(descriptor, path, 0, contents.length)):
        raise RefusedError(f"{path}, which holds contents of the plan, was changed.", "Make a new plan.")


def _problems(action: Action, places: Places, *, undo: bool) -> Iterator[str]:
    beneath.status(entries.path_of(places, action))  # raises LinkError
    size = action.expect.size
    if action.position < 0 or action.length < 0 or (size is not None and size < 0):
        yield "negative numbers"
    if action.in_place and (size is None or action.position + action.length > size):
        yield "it reaches beyond the end of the file"
    # The removal of an empty directory is a quarantine of no file.
    of_directories = action.kind is ActionKind.QUARANTINE and bool(action.directories)
    if (action.kind is ActionKind.CREATE) != (size is None) and not of_directories:
        yield "what it expects does not match what it does"
    if not action.in_place and action.position:
        yield "a whole file has no position"
    if action.in_place and action.expect.digest is None:
        yield "it does not say what it expects"
    yield from _problems_of_contents(action, undo=undo)
    if action.attributes is not None:
        yield from problems_of_attributes(action.attributes, MODE_OF_FILES)
    for directory in action.directories:
        if directory.attributes is not None:
            yield from problems_of_attributes(directory.attributes, MODE_OF_DIRECTORIES)
    if (action.attributes is None) == (action.kind in (ActionKind.CREATE, ActionKind.REPLACE)):
        if not (undo and action.kind is ActionKind.WRITE):
            yield "attributes are missing, or do not belong to it"
    if any(begin < 0 or end <= begin or size is None or not action.in_place for begin, end in action.holes):
        yield "impossible holes"
    if any(directory.path == "." and directory.attributes is None for directory in action.directories):
        yield "it removes the root of the store"
    if not {directory.path for directory in action.directories} <= set(directories_above(action)):
        yield "a directory that is not above the file"


def _problems_of_contents(action: Action, *, undo: bool) -> Iterator[str]:
    contents = action.contents
    if (contents is None) != (action.kind in (ActionKind.ZERO, ActionKind.QUARANTINE)):
        yield "contents are missing, or do not belong to it"
    if contents is None:
        return
    if contents.length != action.length or (contents.data is None) == (contents.file is None):
        yield "the length of its contents is wrong"
    if contents.data is not None and len(contents.data) != contents.length:
        yield "the length of its contents is wrong"
    if contents.file is not None:
        kept = _UNDO_NAME.fullmatch(contents.file) if action.in_place else contents.file == f"quarantine/{quarantine_name(action.path)}"
        if not (kept if undo else _STAGED_NAME.fullmatch(contents.file)):
            yield "its contents are not a file of the transaction"
        if undo and action.in_place and contents.digest is None:
            yield "it does not say what its contents are"


def _refused(problem: str) -> RefusedError:
    return RefusedError(f"The plan cannot be applied: {problem}.", "Make a new plan.")
