"""Undo: a plan that reverts a transaction, made from its journal and from what is on the disk now.

It is applied as any other plan, so it can be stopped, continued, and undone itself. The files that the transaction kept are its contents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from rmqstore.errors import RefusedError
from rmqstore.repair.files import beneath, copies, entries, hardlinks
from rmqstore.repair.plan import fingerprint
from rmqstore.repair.plan.attributes import attributes_of
from rmqstore.repair.plan.check import check_contents, check_transaction
from rmqstore.repair.plan.model import Action, ActionKind, Contents, Directory, Expected, FileStamp, Plan
from rmqstore.repair.plan.paths import Places
from rmqstore.repair.transaction.folder import DamagedError, Transaction
from rmqstore.repair.transaction.journal import Before, Story
from rmqstore.repair.transaction.prepare import refuse_changes

_MOST_NOTES = 20


def plan_undo(transaction: Transaction, places: Places, *, force: bool = False) -> Plan:
    """Return the plan that puts everything back. The lock of the store must be held.

    A finished transaction is undone only while the store is as it left it. Of one that was stopped, and with `force`,
    everything it did is undone, also if another process changed the store meanwhile; `notes` of the plan say what is in the way.
    Raises RefusedError, UnreadableError.
    """
    check_transaction(transaction, places)
    plan, story = transaction.plan, transaction.story
    files = fingerprint.take(places)
    strict = story.files is not None and not force
    if story.files is not None and strict:
        refuse_changes(story.files, files)
    actions: list[Action] = []
    notes: list[str] = []
    for number, action in reversed(list(enumerate(plan.actions))):
        inverse = _Inverse(transaction, places, action, story.before[number], story, strict=strict)
        actions.extend(inverse.actions())
        notes.extend(inverse.notes)
    notes.extend(hardlinks.notes(actions, places))
    if not strict:
        notes.extend(_left_by_others(plan, files))
    return replace(
        plan,
        command=_command(plan.command),
        undoes=transaction.id,
        actions=tuple(actions),
        lost=(),
        notes=tuple(notes),
        files=files,
    )


def _left_by_others(plan: Plan, files: Mapping[str, FileStamp]) -> Iterator[str]:
    """Yield changes by another process to files that the plan did not touch, which no undo can revert therefore."""
    touched = {action.path for action in plan.actions}
    before, now = ({name: stamp for name, stamp in each.items() if name not in touched} for each in (plan.files, files))
    changes = list(fingerprint.differences(before, now))
    yield from (f"{change}: another process did that, and it stays so." for change in changes[:_MOST_NOTES])
    if len(changes) > _MOST_NOTES:
        yield f"{len(changes) - _MOST_NOTES} more files that another process changed stay so."


def _command(command: str) -> str:
    verb, _, undone = command.partition(" ")
    return {"undo": f"redo {undone}", "redo": f"undo {undone}"}.get(verb, f"undo {command}")


class _Inverse:
    """The inverse of one action, at any point where it was stopped."""

    def __init__(self, transaction: Transaction, places: Places, action: Action, before: Before, story: Story, *, strict: bool) -> None:
        self.notes: list[str] = []
        self._transaction = transaction
        self._places = places
        self._action = action
        self._before = before
        self._strict = strict
        self._copying = before.action in story.copying
        self._path = entries.path_of(places, action)
        self._reason = f"undoes: {action.reason}"

    def actions(self) -> Iterator[Action]:
        """Yield one action, or none if everything is as it was."""
        if self._action.in_place:
            yield from self._bytes_back()
        elif self._action.kind is ActionKind.CREATE:
            yield from self._take_away()
        else:
            yield from self._file_back()

    def _bytes_back(self) -> Iterator[Action]:
        action, before, path = self._action, self._before, self._path
        assert before.undo is not None and before.attributes is not None
        if not beneath.is_file(path) or _expected(path).size != before.size:
            kept = self._transaction.directory / before.undo
            self.notes.append(f"{action.path} is no longer the same file; its bytes from {action.position} on stay in {kept}.")
            return
        digest = fingerprint.digest(path, action.position, action.length)
        if self._strict and digest != self._left():
            raise RefusedError(
                f"{action.path} changed since transaction {self._transaction.id}.", "The transaction can no longer be undone."
            )
        holes = tuple(copies.holes(path, action.position, action.length))
        old = Contents(action.length, file=before.undo, digest=action.expect.digest)
        self._check_kept(old, self._transaction.directory / before.undo)
        directories = self._directories()
        as_it_was = (digest, attributes_of(path), holes) == (old.digest, before.attributes, before.holes)
        if as_it_was and not any(self._differs(one) for one in directories):
            return
        yield Action(
            ActionKind.WRITE,
            action.path,
            action.position,
            action.length,
            self._reason,
            replace(_expected(path), digest=digest),
            action.code,
            old,
            before.attributes,
            before.holes,
            directories,
        )

    def _check_kept(self, contents: Contents, path: Path) -> None:
        """Raise DamagedError if a file of the transaction does not hold what it should."""
        try:
            check_contents(contents, path)
        except RefusedError as error:
            raise DamagedError(self._transaction.directory, error.message.removesuffix(".")) from error

    def _left(self) -> str:
        """Return the digest of the bytes that the action wrote."""
        action = self._action
        if action.contents is None:
            return fingerprint.digest_of_zeros(action.length)
        if action.contents.data is not None:
            return fingerprint.digest_of(action.contents.data)
        path = self._transaction.contents(action.contents)
        self._check_kept(action.contents, path)
        return fingerprint.digest(path, 0, action.length)

    def _take_away(self) -> Iterator[Action]:
        expect = _expected(self._path)
        directories = self._directories()
        if expect.size is not None or any(self._differs(one) for one in directories):
            yield self._whole(ActionKind.QUARANTINE, expect, None, directories)

    def _file_back(self) -> Iterator[Action]:
        action, before = self._action, self._before
        kept = self._transaction.quarantined(action)
        if before.attributes is None:  # there was no file, only directories
            if any(self._differs(one) for one in self._directories()):
                yield self._whole(ActionKind.QUARANTINE, _expected(self._path), None, self._directories())
            return
        expect = _expected(self._path)
        if not beneath.exists(kept):  # the transaction did not get so far
            if (expect.size, expect.mtime_ns) != (before.size, before.attributes.mtime_ns):
                self.notes.append(f"{action.path} was changed or removed by another process, and stays so.")
            return
        if self._still_there(kept):
            return
        if beneath.is_directory(kept) or fingerprint.stamp(kept) != FileStamp(before.size or 0, before.attributes.mtime_ns or 0):
            raise DamagedError(self._transaction.directory, f"its copy of {action.path} is another file")
        if before.digest is None and not entries.is_special(kept):
            raise DamagedError(self._transaction.directory, f"there is no digest of its copy of {action.path}")
        contents = Contents(before.size or 0, file=kept.relative_to(self._transaction.directory).as_posix(), digest=before.digest)
        self._check_kept(contents, kept)
        yield self._whole(ActionKind.CREATE if expect.size is None else ActionKind.REPLACE, expect, contents, self._directories())

    def _still_there(self, kept: Path) -> bool:
        """Return whether the file was copied to the quarantine on another file system, but not removed yet."""
        before, action = self._before, self._action
        if not beneath.exists(self._path) or copies.same_device(self._path, kept.parent):
            return False
        if action.kind is ActionKind.REPLACE:
            return not self._copying and beneath.exists(self._transaction.source(before.action, action))
        expect = _expected(self._path)
        return before.attributes is not None and (expect.size, expect.mtime_ns) == (before.size, before.attributes.mtime_ns)

    def _whole(self, kind: ActionKind, expect: Expected, contents: Contents | None, directories: tuple[Directory, ...]) -> Action:
        attributes = None if contents is None else self._before.attributes
        length = (expect.size or 0) if contents is None else contents.length
        action = self._action
        return Action(kind, action.path, 0, length, self._reason, expect, action.code, contents, attributes, directories=directories)

    def _directories(self) -> tuple[Directory, ...]:
        """Return the directories around the file as they were, without those that are and were missing."""
        return tuple(
            one for one in self._before.directories if one.attributes is not None or beneath.is_directory(self._places.directory(one.path))
        )

    def _differs(self, wanted: Directory) -> bool:
        path = self._places.directory(wanted.path)
        return wanted.attributes != (attributes_of(path) if beneath.is_directory(path) else None)


def _expected(path: Path) -> Expected:
    stamp = fingerprint.stamp(path)
    # A directory in the place of a file is removed by the actions that empty it.
    return Expected(None) if stamp is None or beneath.is_directory(path) else Expected(stamp.size, stamp.mtime_ns)
