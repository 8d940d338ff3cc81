"""The history of a store: its transactions, which of them are still in effect, and which can be undone now."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmqstore.errors import RefusedError, UnreadableError
from rmqstore.repair.files import beneath
from rmqstore.repair.plan.codec import plan_id
from rmqstore.repair.plan.paths import TOOL_DIRECTORY
from rmqstore.repair.transaction.folder import (
    DamagedError,
    State,
    Transaction,
    find,
    folder,
    is_transaction_name,
    last_stopped,
    resume_commands,
    see_history,
    transactions,
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One transaction. `undone_by` is the one that undid it, as long as that one is in effect; `kept` is bytes on the disk.

    Of a damaged one, or another entry in the folder of the transactions, `problem` says what is wrong with it.
    """

    transaction: Transaction
    state: State
    undone_by: str | None
    kept: int
    can_be_undone: bool
    problem: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the entry as the object that `--format json` prints."""
        plan = None if self.state in (State.INCOMPLETE, State.DAMAGED) else self.transaction.plan
        continued, undone = (None, None) if plan is None else resume_commands(self.transaction)
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
            "continue": continued if self.state is State.APPLYING and self.problem is None else None,
            "undo": undone if self.can_be_undone else None,
            "problem": self.problem,
        }


def history(root: Path) -> list[Entry]:
    """Return all entries of the folder of the transactions of the store at `root`, oldest first. Raises UnreadableError.

    If one is damaged, no undo is offered: what a damaged transaction did to the store is not known.
    """
    try:
        found = folder(root)
    except DamagedError as error:
        return [_damaged(Transaction(root, TOOL_DIRECTORY), error.problem)]
    every = [Transaction(root, name) for name, _ in found]
    states: dict[str, State] = {}
    problems: dict[str, str] = {}
    for one in every:
        try:
            states[one.id] = _state(one)
        except DamagedError as error:
            problems[one.id] = error.problem
        except UnreadableError as error:
            problems[one.id] = error.message.removesuffix(".")
    bad = next(filter(is_transaction_name, problems), None)
    sound = [one for one in every if one.id in states]
    chain = _Chain(sound, states)
    stopped = last_stopped(sound, states)
    allowed = [stopped] * (not chain.undoes_a_stopped_one(stopped)) if stopped is not None else chain.undoable
    waits = None if bad is None else f"it cannot be undone until {bad} is moved away"
    return [
        _damaged(one, problems[one.id])
        if one.id in problems
        else Entry(one, states[one.id], chain.undone_by.get(one.id), _kept_bytes(one.directory), bad is None and one in allowed, waits)
        for one in every
    ]


def _damaged(one: Transaction, problem: str) -> Entry:
    return Entry(one, State.DAMAGED, None, 0, False, problem)


def _state(one: Transaction) -> State:
    """Return the state of an entry of the folder. Raises DamagedError if it is no transaction that can be used."""
    if not is_transaction_name(one.id):
        raise DamagedError(one.directory, "it is not a transaction of rmqstore")
    return one.state


def to_undo(root: Path, name: str | None) -> Transaction:
    """Return the transaction to undo: the one called `name`, else the one that was stopped, else the last that is still in effect.

    Raises RefusedError if there is none, or if another one has to be undone first.
    """
    every = transactions(root)
    states = {one.id: one.state for one in every}
    stopped = last_stopped(every, states)
    if name is None:
        standing = [stopped] if stopped is not None else _Chain(every, states).standing
        if not standing:
            raise RefusedError(f"There is no transaction of {root} to undo.", see_history(root))
        return standing[-1]
    entries = {entry.transaction.id: entry for entry in history(root)}
    entry = entries[find(root, name).id]
    if not entry.can_be_undone:
        raise RefusedError(f"Transaction {entry.transaction.id} {_why_not(entry, stopped)}.", see_history(root))
    return entry.transaction


def begun(root: Path, name: str) -> Transaction | None:
    """Return the transaction that applies the plan called `name` (`codec.plan_id`): stopped in the middle, or done and not undone."""
    every = transactions(root)
    chain = _Chain(every, {one.id: one.state for one in every})
    alive = [one for one in chain.every if chain.states[one.id] in (State.APPLYING, State.APPLIED) and one.id not in chain.undone_by]
    return next((one for one in reversed(alive) if plan_id(one.plan) == name), None)


def _why_not(entry: Entry, stopped: Transaction | None) -> str:
    if entry.undone_by is not None:
        return f"was already undone by {entry.undone_by}"
    if stopped is not None and stopped != entry.transaction:
        return f"cannot be undone before {stopped.id}, which was stopped in the middle"
    if entry.state in (State.INCOMPLETE, State.PLANNED):
        return "changed nothing"
    return "cannot be undone: a later transaction, or one that it undid, prevents that"


class _Chain:
    """All transactions of a store, and which of them undo others.

    A transaction that was undone and then done again is represented by the undo that did so: that one keeps its files.
    """

    def __init__(self, every: list[Transaction], states: Mapping[str, State]) -> None:
        self.every = every
        self.states = states
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
        # An undo that replaces one that could not be finished contains only the rest.
        partial = {self._undoes[one.id] for one in changing} - {None}
        self.undoable = [
            one
            for one in untouched
            if one in (applied[-1], *self.standing[-1:]) and self._undoes[one.id] not in partial and not self.undoes_a_stopped_one(one)
        ]

    def undoes_a_stopped_one(self, one: Transaction) -> bool:
        """Return whether it undoes a transaction that was stopped in the middle, which is no state to return to."""
        target = self._undoes[one.id]
        return target is not None and self.states.get(target) is State.APPLYING

    def _in_state(self, state: State) -> list[Transaction]:
        return [one for one in self.every if self.states[one.id] is state]

    def _depth(self, name: str) -> int:
        depth = 0
        while (target := self._undoes.get(name)) is not None:
            name = target  # always an earlier one
            depth += 1
        return depth


def _kept_bytes(directory: Path) -> int:
    total = 0
    pending = [directory]
    while pending:
        here = pending.pop()
        for name, status in beneath.entries(here):
            if stat.S_ISDIR(status.st_mode):
                pending.append(here / name)
            else:
                total += status.st_blocks * 512
    return total
