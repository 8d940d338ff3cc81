"""Transactions: the folders `<root>/.rmqstore/<id>/` in which a store keeps what was done to it, and everything needed to take it back.

plan.json      what was to be done
staged/        new files, until they take their places
journal.jsonl  what was there before, and how far it came
undo/          old bytes of ranges that were overwritten
quarantine/    files that left the store, under the paths they had
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cached_property
from pathlib import Path, PurePosixPath

from rmqstore.errors import RefusedError, RmqstoreError, UnreadableError
from rmqstore.repair.codec import read_plan
from rmqstore.repair.journal import Story, read_journal
from rmqstore.repair.likeness import attributes_of
from rmqstore.repair.places import TOOL_DIRECTORY
from rmqstore.repair.plan import Action, Contents, Plan
from rmqstore.repair.writer import Writer
from rmqstore.store.mapped import list_directory

_TIME = "%Y%m%d-%H%M%S-%f"
_OUTSIDE = "outside"


class State(StrEnum):
    """How far a transaction came. Up to `PLANNED` nothing of the store was changed."""

    INCOMPLETE = "incomplete"
    PLANNED = "planned"
    APPLYING = "applying"
    APPLIED = "applied"


@dataclass(frozen=True)
class Transaction:
    """One folder. `plan` and `story` raise RefusedError when they cannot be made sense of."""

    root: Path
    id: str

    @property
    def directory(self) -> Path:
        """The folder."""
        return self.root / TOOL_DIRECTORY / self.id

    @property
    def plan_path(self) -> Path:
        """The plan; there once the contents are complete."""
        return self.directory / "plan.json"

    @property
    def journal_path(self) -> Path:
        """The journal."""
        return self.directory / "journal.jsonl"

    @property
    def staged(self) -> Path:
        """The directory of the new files."""
        return self.directory / "staged"

    @property
    def undo(self) -> Path:
        """The directory of the old bytes."""
        return self.directory / "undo"

    @property
    def quarantine(self) -> Path:
        """The directory of the files that left the store."""
        return self.directory / "quarantine"

    @cached_property
    def plan(self) -> Plan:
        """The plan of the transaction."""
        return read_plan(self.plan_path)

    @property
    def story(self) -> Story:
        """What the journal tells now."""
        try:
            return read_journal(self.journal_path)
        except (ValueError, KeyError, TypeError) as error:
            raise RefusedError(f"{self.journal_path} cannot be understood: {error}.", "It was changed by something else.") from error

    @property
    def state(self) -> State:
        """How far it came."""
        if not self.plan_path.is_file():
            return State.INCOMPLETE
        story = self.story
        return State.APPLIED if story.applied else State.APPLYING if story.prepared else State.PLANNED

    def source(self, number: int, action: Action) -> Path:
        """The file with the new bytes of an action; what the plan itself holds is written to one when it is prepared."""
        assert action.contents is not None
        return self.staged / f"inline-{number:06d}" if action.contents.file is None else self.contents(action.contents)

    def contents(self, contents: Contents) -> Path:
        """The file that contents name. Those of an undo are what the transaction keeps that it takes back."""
        assert contents.file is not None
        undone = self.plan.undoes
        base = self.staged if undone is None else Transaction(self.root, undone).directory
        return base / contents.file

    def quarantined(self, action: Action) -> Path:
        """Where the file of an action goes when it leaves the store."""
        return self.quarantine / quarantine_name(action.path)

    def discard(self, writer: Writer) -> None:
        """Takes the folder away again, before anything was changed. Raises OSError."""
        for directory in (self.staged, self.undo, self.directory):
            if directory.is_dir():
                for entry in list_directory(directory):
                    if not entry.is_dir(follow_symlinks=False):
                        writer.unlink(Path(entry.path))
                writer.rmdir(directory)
        if not list_directory(self.directory.parent):
            kept = attributes_of(self.root)
            writer.rmdir(self.directory.parent)
            writer.set_directory_attributes(self.root, kept)


def quarantine_name(path: str) -> str:
    """The path of a file below `quarantine/`."""
    pure = PurePosixPath(path)
    return PurePosixPath(_OUTSIDE, *pure.parts[1:]).as_posix() if pure.is_absolute() else path


def transactions(root: Path) -> list[Transaction]:
    """All transactions of the store at `root`, oldest first."""
    directory = root / TOOL_DIRECTORY
    return [Transaction(root, entry.name) for entry in list_directory(directory) if entry.is_dir(follow_symlinks=False)]


def transaction_of(path: Path) -> Transaction | None:
    """The transaction whose own plan the file `path` is; None for a plan file elsewhere."""
    folder = path.absolute().parent
    if path.name == "plan.json" and folder.parent.name == TOOL_DIRECTORY:
        return Transaction(folder.parent.parent, folder.name)
    return None


def find(root: Path, name: str) -> Transaction:
    """The transaction called `name`, or the only one whose name begins so. Raises RefusedError."""
    found = [one for one in transactions(root) if one.id.startswith(name)]
    if len(found) != 1:
        what = "no transaction" if not found else "more than one transaction"
        raise RefusedError(f"{root} has {what} {name}.", f"See `rmqstore history {root}`.")
    return found[0]


def begin(root: Path, writer: Writer) -> Transaction:
    """The folder of a new transaction, with the owner of the store; its name sorts behind all others. Raises OSError."""
    directory = root / TOOL_DIRECTORY
    kept = attributes_of(root)
    if not os.path.lexists(directory):
        writer.mkdir(directory)
        writer.set_directory_attributes(root, kept)
    transaction = Transaction(root, _new_id(root))
    writer.mkdir(transaction.directory)
    for made in (directory, transaction.directory):
        writer.set_directory_attributes(made, replace(kept, mtime_ns=None))
        writer.fsync_directory(made.parent)
    return transaction


def unfinished(root: Path) -> Transaction | None:
    """The transaction that was stopped while it changed the store, and neither continued, nor taken back, nor done by another undo since.

    Where an undo was stopped, it is the undo and not what it takes back.
    """
    every = transactions(root)
    states = {one.id: one.state for one in every}
    taken_back = {one.plan.undoes for one in every if states[one.id] is State.APPLIED}
    stopped = [
        one
        for one in every
        if states[one.id] is State.APPLYING and one.id not in taken_back and (one.plan.undoes is None or one.plan.undoes not in taken_back)
    ]
    return stopped[-1] if stopped else None


def refuse_unfinished(root: Path) -> None:
    """Raises RefusedError when a transaction has to be finished or taken back before anything else may change the store."""
    stopped = unfinished(root)
    if stopped is not None:
        continued, undone = ways_out(stopped)
        message = f"Transaction {stopped.id} ({stopped.plan.command}) of {root} was stopped in the middle."
        raise RefusedError(message, f"Continue it with `{continued}`, or take it back with `{undone}`.")


def ways_out(transaction: Transaction) -> tuple[str, str]:
    """The commands that continue a stopped transaction and that take it back."""
    undo = f"rmqstore undo {transaction.root}"
    continued = f"rmqstore apply {transaction.plan_path}" if transaction.plan.undoes is None else undo
    return continued, f"{undo} {transaction.id}"


def remove_remains(root: Path, writer: Writer) -> None:
    """Takes away folders of transactions that never came to change anything. Raises OSError."""
    for one in _remains(root):
        one.discard(writer)


def _remains(root: Path) -> Iterator[Transaction]:
    for one in transactions(root):
        try:
            untouched = one.state in (State.INCOMPLETE, State.PLANNED)
        except (RefusedError, UnreadableError):
            continue
        if untouched and not one.quarantine.exists():
            yield one


def _new_id(root: Path) -> str:
    now = datetime.now(UTC)
    names = [one.id for one in transactions(root)]
    if names:
        try:
            newest = datetime.strptime(max(names).rpartition("-")[0], _TIME).replace(tzinfo=UTC)
        except ValueError as error:
            raise RmqstoreError(f"{max(names)} in {root / TOOL_DIRECTORY} is no transaction.", "Move it away.") from error
        now = max(now, newest + timedelta(microseconds=1))
    return f"{now.strftime(_TIME)}-{secrets.token_hex(3)}"
