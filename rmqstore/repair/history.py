"""History: what was done to a store, what of it still stands, and which transaction can be taken back now."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmqstore.errors import RefusedError
from rmqstore.repair.codec import plan_id
from rmqstore.repair.transaction import State, Transaction, find, transactions, unfinished, ways_out
from rmqstore.store.mapped import list_directory


@dataclass(frozen=True, slots=True)
class Entry:
    """One transaction. `undone_by` is the one that took it back, as long as that one stands; `kept` is bytes on the disk."""

    transaction: Transaction
    state: State
    undone_by: str | None
    kept: int
    can_be_undone: bool

    def as_json(self) -> dict[str, Any]:
        """The entry as the object that `--format json` prints."""
        plan = None if self.state is State.INCOMPLETE else self.transaction.plan
        continued, undone = ways_out(self.transaction)
        return {
            "type": "transaction",
            "id": self.transaction.id,
            "state": "undone" if self.undone_by else str(self.state),
            "command": None if plan is None else plan.command,
            "actions": 0 if plan is None else len(plan.actions),
            "lost": 0 if plan is None else len(plan.lost),
            "kept_bytes": self.kept,
            "undoes": None if plan is None else plan.undoes,
            "undone_by": self.undone_by,
            "continue": continued if self.state is State.APPLYING else None,
            "undo": undone if self.can_be_undone else None,
        }


def history(root: Path) -> list[Entry]:
    """All transactions of the store at `root`, oldest first. Raises RefusedError (a folder that makes no sense), UnreadableError."""
    chain = _Chain(root)
    stopped = unfinished(root)
    allowed = chain.undoable if stopped is None else [stopped] * (not chain.undoes_a_stopped_one(stopped))
    return [
        Entry(one, chain.states[one.id], chain.undone_by.get(one.id), _kept_bytes(one.directory), one in allowed) for one in chain.every
    ]


def to_undo(root: Path, name: str | None) -> Transaction:
    """The transaction that `undo` is about: the one called `name`, else the one that was stopped, else the last that still stands.

    Raises RefusedError where there is none, or where another one has to be taken back first.
    """
    stopped = unfinished(root)
    if name is None:
        standing = [stopped] if stopped is not None else _Chain(root).standing
        if not standing:
            raise RefusedError(f"Nothing was done to {root} that could be taken back.", f"See `rmqstore history {root}`.")
        return standing[-1]
    entries = {entry.transaction.id: entry for entry in history(root)}
    entry = entries[find(root, name).id]
    if not entry.can_be_undone:
        raise RefusedError(f"Transaction {entry.transaction.id} {_why_not(entry, stopped)}.", f"See `rmqstore history {root}`.")
    return entry.transaction


def begun(root: Path, name: str) -> Transaction | None:
    """The transaction that applies the plan called `name` (`codec.plan_id`): stopped in the middle, or done and not taken back."""
    chain = _Chain(root)
    alive = [one for one in chain.every if chain.states[one.id] in (State.APPLYING, State.APPLIED) and one.id not in chain.undone_by]
    return next((one for one in reversed(alive) if plan_id(one.plan) == name), None)


def _why_not(entry: Entry, stopped: Transaction | None) -> str:
    if entry.undone_by is not None:
        return f"was taken back by {entry.undone_by} already"
    if stopped is not None and stopped != entry.transaction:
        return f"cannot be taken back before {stopped.id}, which was stopped in the middle"
    if entry.state in (State.INCOMPLETE, State.PLANNED):
        return "changed nothing"
    return "cannot be taken back: later ones, or one that it took back itself, are in the way"


class _Chain:
    """All transactions of a store, and how they take each other back.

    What was taken back and then brought back again is represented by the undo that did so: that one keeps its files.
    """

    def __init__(self, root: Path) -> None:
        self.every = transactions(root)
        self.states = {one.id: one.state for one in self.every}
        self._undoes = {one.id: one.plan.undoes for one in self.every if self.states[one.id] is not State.INCOMPLETE}
        applied = self._in_state(State.APPLIED)
        changing = self._in_state(State.APPLYING)
        touched = {self._undoes[one.id] for one in (*applied, *changing)}
        self.undone_by: dict[str, str] = {}
        for one in reversed(applied):
            target = self._undoes[one.id]
            if target is not None and one.id not in self.undone_by:
                self.undone_by[target] = one.id
        untouched = [one for one in applied if one.id not in touched]
        self.standing = [one for one in untouched if self._depth(one.id) % 2 == 0]
        # An undo that stands in for one that could not be finished holds only the rest.
        partial = {self._undoes[one.id] for one in changing} - {None}
        self.undoable = [
            one
            for one in untouched
            if one in (applied[-1], *self.standing[-1:]) and self._undoes[one.id] not in partial and not self.undoes_a_stopped_one(one)
        ]

    def undoes_a_stopped_one(self, one: Transaction) -> bool:
        """Whether it takes back a transaction that was stopped in the middle; a middle is no state to go back to."""
        target = self._undoes[one.id]
        return target is not None and self.states[target] is State.APPLYING

    def _in_state(self, state: State) -> list[Transaction]:
        return [one for one in self.every if self.states[one.id] is state]

    def _depth(self, name: str) -> int:
        target = self._undoes.get(name)
        return 0 if target is None else 1 + self._depth(target)


def _kept_bytes(directory: Path) -> int:
    total = 0
    for entry in list_directory(directory):
        if entry.is_dir(follow_symlinks=False):
            total += _kept_bytes(Path(entry.path))
        else:
            total += entry.stat(follow_symlinks=False).st_blocks * 512
    return total
