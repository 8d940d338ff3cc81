"""Transactions: the folders `<root>/.rmqstore/<id>/` in which a store keeps what was done to it, and everything needed to undo it.

plan.json      what was to be done
staged/        new files, until they take their places
journal.jsonl  what was there before, and how far it came
undo/          old bytes of ranges that were overwritten
quarantine/    files that left the store, under the paths they had
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cached_property
from pathlib import Path, PurePosixPath

from rmqstore.errors import RefusedError
from rmqstore.repair.files import beneath
from rmqstore.repair.files.writer import Writer
from rmqstore.repair.plan.attributes import attributes_of, of_new_file
from rmqstore.repair.plan.codec import read_plan
from rmqstore.repair.plan.model import Action, Contents, Plan
from rmqstore.repair.plan.paths import TOOL_DIRECTORY
from rmqstore.repair.transaction.journal import Story, read_journal
from rmqstore.repair.transaction.journal_check import problem_of_journal
from rmqstore.shellwords import command
from rmqstore.store import transactions as store_transactions

_TIME = "%Y%m%d-%H%M%S-%f"
_NAME = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9]{6}-[0-9a-f]{6}")
_OUTSIDE = "outside"
_MODE = 0o700
_WRITE_OF_OTHERS = 0o022


class State(StrEnum):
    """The progress of a transaction. Up to `PLANNED` nothing of the store was changed. Of a damaged one it is unknown."""

    DAMAGED = "damaged"
    INCOMPLETE = "incomplete"
    PLANNED = "planned"
    APPLYING = "applying"
    APPLIED = "applied"


class DamagedError(RefusedError):
    """A folder of `.rmqstore` is not as this program makes them. Nothing in it is used, and no command is given that would use it."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"{path} is not as rmqstore left it: {problem}.", "Move it out of the store if you know why, and keep it until then."
        )
        self.problem = problem


@dataclass(frozen=True)
class Transaction:
    """One folder. `plan`, `story` and `state` raise DamagedError if they cannot be understood."""

    root: Path
    id: str

    @cached_property
    def directory(self) -> Path:
        """The folder."""
        return self.root / TOOL_DIRECTORY / self.id

    @property
    def plan_path(self) -> Path:
        """The plan file, which exists once the contents are complete."""
        return self.directory / "plan.json"

    @property
    def journal_path(self) -> Path:
        """The journal."""
        return self.directory / "journal.jsonl"

    @cached_property
    def staged(self) -> Path:
        """The directory of the new files."""
        return self.directory / "staged"

    @property
    def undo(self) -> Path:
        """The directory of the old bytes."""
        return self.directory / "undo"

    @cached_property
    def quarantine(self) -> Path:
        """The directory of the files that left the store."""
        return self.directory / "quarantine"

    @cached_property
    def plan(self) -> Plan:
        """The plan of the transaction."""
        self._require_file(self.plan_path)
        try:
            plan = read_plan(self.plan_path)
        except RefusedError as error:
            raise DamagedError(self.directory, error.message.removesuffix(".")) from error
        if plan.undoes is not None and not (is_transaction_name(plan.undoes) and plan.undoes < self.id):
            raise DamagedError(self.directory, "its plan undoes something that is not an earlier transaction")
        return plan

    @property
    def story(self) -> Story:
        """The present contents of the journal."""
        plan = self.plan
        if not beneath.exists(self.journal_path):
            return Story()
        self._require_file(self.journal_path)
        try:
            story = read_journal(self.journal_path)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise DamagedError(self.directory, f"its journal is not valid: {error}") from error
        problem = problem_of_journal(plan, story)
        if problem is not None:
            raise DamagedError(self.directory, f"its journal does not match its plan: {problem}")
        return story

    @property
    def state(self) -> State:
        """The progress of the transaction."""
        _require_own(self.directory, self.root)
        if not beneath.exists(self.plan_path):
            if beneath.exists(self.journal_path):  # begun after the plan: the files it kept must not be taken for remains
                raise DamagedError(self.directory, "its plan is missing")
            return State.INCOMPLETE
        story = self.story
        return State.APPLIED if story.applied else State.APPLYING if story.prepared else State.PLANNED

    def _require_file(self, path: Path) -> None:
        _require_own(self.directory, self.root)
        if not beneath.is_file(path):
            raise DamagedError(self.directory, f"{path.name} is not a regular file")

    def source(self, number: int, action: Action) -> Path:
        """Return the file with the new bytes of an action; bytes in the plan itself are written to one when it is prepared."""
        assert action.contents is not None
        return self.staged / f"inline-{number:06d}" if action.contents.file is None else self.contents(action.contents)

    def copy_of(self, number: int) -> Path:
        """Return the copy of a file with several names that an action is going to change."""
        return self.staged / f"copy-{number:06d}"

    def contents(self, contents: Contents) -> Path:
        """Return the file that contents name. Those of an undo are kept by the transaction that it undoes."""
        assert contents.file is not None
        return self._contents / contents.file

    @cached_property
    def _contents(self) -> Path:
        undone = self.plan.undoes
        return self.staged if undone is None else Transaction(self.root, undone).directory

    def quarantined(self, action: Action) -> Path:
        """Return the path to which the file of an action is moved when it leaves the store."""
        return self.quarantine / quarantine_name(action.path)

    def discard(self, writer: Writer) -> None:
        """Remove the folder again, before anything was changed. Raises OSError."""
        _remove(self.directory, writer)
        if not beneath.entries(self.directory.parent):
            kept = attributes_of(self.root)
            writer.rmdir(self.directory.parent)
            writer.set_directory_attributes(self.root, kept)


def quarantine_name(path: str) -> str:
    """Return the path of a file below `quarantine/`."""
    pure = PurePosixPath(path)
    return PurePosixPath(_OUTSIDE, *pure.parts[1:]).as_posix() if pure.is_absolute() else path


def transactions(root: Path) -> list[Transaction]:
    """Return all transactions of the store at `root`, oldest first; entries with other names are left out. Raises DamagedError."""
    return [Transaction(root, name) for name, _ in folder(root) if is_transaction_name(name)]


def folder(root: Path) -> list[tuple[str, os.stat_result]]:
    """Return the entries of the folder of transactions, none without it. Raises DamagedError if it is no directory of the store's owner."""
    directory = root / TOOL_DIRECTORY
    if not beneath.exists(directory):
        return []
    _require_own(directory, root)
    return beneath.entries(directory)


def is_transaction_name(name: str) -> bool:
    """Return whether a transaction can have this name."""
    return _NAME.fullmatch(name) is not None


def _require_own(directory: Path, root: Path) -> None:
    """Raise DamagedError unless only the owner of the store can have made the contents of a folder."""
    status, owner = beneath.status(directory), attributes_of(root).uid
    if status is None or not stat.S_ISDIR(status.st_mode):
        raise DamagedError(directory, "it is not a directory")
    if status.st_uid not in (owner, os.geteuid()):
        raise DamagedError(directory, f"it belongs to user {status.st_uid}, and the store to user {owner}")
    if status.st_mode & _WRITE_OF_OTHERS:
        raise DamagedError(directory, "users other than its owner may write to it (`chmod go-w` changes that, if you trust them)")


def transaction_of(path: Path) -> Transaction | None:
    """Return the transaction whose own plan the file `path` is; None for any other plan file."""
    folder = path.absolute().parent
    if path.name == "plan.json" and folder.parent.name == TOOL_DIRECTORY:
        return Transaction(folder.parent.parent, folder.name)
    return None


def find(root: Path, name: str) -> Transaction:
    """Return the transaction called `name`, or the only one whose name begins with it. Raises RefusedError."""
    found = [one for one in transactions(root) if one.id.startswith(name)]
    if len(found) != 1:
        what = "no transaction" if not found else "more than one transaction"
        raise RefusedError(f"{root} has {what} {name}.", see_history(root))
    return found[0]


def begin(root: Path, writer: Writer) -> Transaction:
    """Make the folder of a new transaction, with the owner of the store; its name sorts after all others. Raises OSError."""
    directory = root / TOOL_DIRECTORY
    kept = attributes_of(root)
    made = []
    if not beneath.exists(directory):
        writer.mkdir(directory)
        writer.set_directory_attributes(root, kept)
        made.append(directory)
    transaction = Transaction(root, _new_id(root))
    writer.mkdir(transaction.directory)
    for new in (*made, transaction.directory):
        writer.set_directory_attributes(new, of_new_file(replace(kept, mode=_MODE, mtime_ns=None)))
        writer.fsync_directory(new.parent)
    return transaction


def unfinished(root: Path) -> Transaction | None:
    """Return the transaction that was stopped while it changed the store, and not continued, undone, or done by another undo since.

    If an undo was stopped, this is the undo and not the transaction that it undoes.
    """
    every = transactions(root)
    return last_stopped(every, {one.id: one.state for one in every})


def last_stopped(every: list[Transaction], states: Mapping[str, State]) -> Transaction | None:
    """Return the same of transactions whose states were determined already; `states` by their names."""
    taken_back = {one.plan.undoes for one in every if states[one.id] is State.APPLIED}
    stopped = [
        one
        for one in every
        if states[one.id] is State.APPLYING and one.id not in taken_back and (one.plan.undoes is None or one.plan.undoes not in taken_back)
    ]
    return stopped[-1] if stopped else None


def see_history(root: Path) -> str:
    """Return the hint to list all transactions of a store."""
    return f"See `{command('rmqstore', 'history', root)}`."


def refusal(stopped: Transaction) -> RefusedError:
    """Return the error that a transaction has to be finished or undone before anything else may change the store."""
    continued, undone = resume_commands(stopped)
    message = f"Transaction {stopped.id} ({stopped.plan.command}) of {stopped.root} was stopped in the middle."
    return RefusedError(message, f"Continue it with `{continued}`, or undo it with `{undone}`.")


def resume_commands(transaction: Transaction) -> tuple[str, str]:
    """Return the commands that continue a stopped transaction and that undo it."""
    return store_transactions.resume_commands(transaction.root, transaction.id, transaction.plan.undoes)


def remove_remains(root: Path, writer: Writer) -> None:
    """Remove folders of transactions that never changed anything. Raises OSError."""
    for one in _remains(root):
        one.discard(writer)


def _remains(root: Path) -> Iterator[Transaction]:
    for one in transactions(root):
        if one.state in (State.INCOMPLETE, State.PLANNED) and not beneath.exists(one.quarantine):
            yield one


def _remove(directory: Path, writer: Writer) -> None:
    for name, status in beneath.entries(directory):
        if stat.S_ISDIR(status.st_mode):
            _remove(directory / name, writer)
        else:
            writer.unlink(directory / name)
    writer.rmdir(directory)


def _new_id(root: Path) -> str:
    now = datetime.now(UTC)
    newest = max((one.id for one in transactions(root)), default=None)
    if newest is not None:
        try:
            now = max(now, datetime.strptime(newest.rpartition("-")[0], _TIME).replace(tzinfo=UTC) + timedelta(microseconds=1))
        except (ValueError, OverflowError) as error:
            raise DamagedError(root / TOOL_DIRECTORY / newest, "its name is not a time") from error
    return f"{now.strftime(_TIME)}-{secrets.token_hex(3)}"
