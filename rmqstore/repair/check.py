"""A plan against its store: every path a place that may change, every range inside its file, every file of contents as announced."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from rmqstore.errors import RefusedError
from rmqstore.repair import fingerprint
from rmqstore.repair.places import Places
from rmqstore.repair.plan import Action, ActionKind, Contents, Plan
from rmqstore.repair.touched import conflict

_STAGED_NAME = re.compile(r"[0-9]{6}")
_KEPT_NAME = re.compile(r"(undo|quarantine)/[^\0]+")
_TRANSACTION_NAME = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9]{6}-[0-9a-f]{6}")


def check_plan(plan: Plan, places: Places) -> None:
    """Raises RefusedError unless every action is one that a planner of this tool could have made for this store."""
    if plan.undoes is not None and not _TRANSACTION_NAME.fullmatch(plan.undoes):
        raise _refused(f"{plan.undoes!r} is no transaction")
    for number, action in enumerate(plan.actions):
        problem = next(_problems(action, places, undo=plan.undoes is not None), None)
        if problem is not None:
            raise _refused(f"action {number + 1} ({action.kind} of {action.path!r}): {problem}")
    clash = conflict(plan.actions)
    if clash is not None:
        raise _refused(clash)


def check_contents(contents: Contents, path: Path) -> None:
    """Raises RefusedError unless the file `path` is as long as announced, and has the digest if one was announced."""
    if not path.is_file() or path.is_symlink():
        raise RefusedError(f"{path}, which holds contents of the plan, is missing.", "Make the plan again.")
    right = path.stat().st_size == contents.length
    if not right or (contents.digest is not None and fingerprint.digest(path, 0, contents.length) != contents.digest):
        raise RefusedError(f"{path}, which holds contents of the plan, was changed.", "Make the plan again.")


def _problems(action: Action, places: Places, *, undo: bool) -> Iterator[str]:
    places.path(action.path)
    size = action.expect.size
    if action.position < 0 or action.length < 0 or (size is not None and size < 0):
        yield "negative numbers"
    if action.in_place and (size is None or action.position + action.length > size):
        yield "it reaches beyond the end of the file"
    # To take an empty directory away is a quarantine of no file.
    of_directories = action.kind is ActionKind.QUARANTINE and bool(action.directories)
    if (action.kind is ActionKind.CREATE) != (size is None) and not of_directories:
        yield "what it expects does not fit what it does"
    if not action.in_place and action.position:
        yield "a whole file has no position"
    if action.in_place and action.expect.digest is None:
        yield "it does not say what it expects"
    yield from _problems_of_contents(action, undo=undo)
    attributes = [action.attributes, *(directory.attributes for directory in action.directories)]
    for one in attributes:
        if one is not None and not (0 <= one.mode <= 0o7777 and one.uid >= 0 and one.gid >= 0):
            yield "impossible attributes"
    if (action.attributes is None) == (action.kind in (ActionKind.CREATE, ActionKind.REPLACE)):
        if not (undo and action.kind is ActionKind.WRITE):
            yield "attributes are missing, or are not for it"
    if any(begin < 0 or end <= begin or size is None or not action.in_place for begin, end in action.holes):
        yield "impossible holes"
    path = PurePosixPath(action.path)
    above = [parent.as_posix() for parent in (path.parents[:1] if path.is_absolute() else path.parents)]
    if any(directory.path not in above or (directory.path == "." and directory.attributes is None) for directory in action.directories):
        yield "a directory that is not above the file"


def _problems_of_contents(action: Action, *, undo: bool) -> Iterator[str]:
    contents = action.contents
    if (contents is None) != (action.kind in (ActionKind.ZERO, ActionKind.QUARANTINE)):
        yield "contents are missing, or are not for it"
    if contents is None:
        return
    if contents.length != action.length or (contents.data is None) == (contents.file is None):
        yield "the length of its contents is another"
    if contents.data is not None and len(contents.data) != contents.length:
        yield "the length of its contents is another"
    if contents.file is not None:
        pattern = _KEPT_NAME if undo else _STAGED_NAME
        if not pattern.fullmatch(contents.file) or ".." in PurePosixPath(contents.file).parts:
            yield "its contents lie elsewhere"


def _refused(problem: str) -> RefusedError:
    return RefusedError(f"The plan cannot be applied: {problem}.", "Make a new plan.")
