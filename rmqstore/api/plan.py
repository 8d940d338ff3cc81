"""Plans of repairs: made without a change, shown, applied, undone."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rmqstore.api.html import table
from rmqstore.kept import private_directory
from rmqstore.pipeline.job import StoreAt
from rmqstore.prediction.release import choose_release
from rmqstore.repair import procedure
from rmqstore.repair.derived.consumequeues import LostUnits
from rmqstore.repair.plan.model import Action, LostMessage
from rmqstore.repair.plan.model import Plan as PlanData
from rmqstore.repair.recover import Recovery, Strategy
from rmqstore.repair.sources.archive import source_at
from rmqstore.repair.transaction.folder import Transaction


class Plan:
    """The planned repair. Nothing is written before `apply`; the new contents of files are in a separate temporary directory."""

    def __init__(self, data: PlanData, file: Path, directory: Path) -> None:
        """`directory` holds the plan and is removed together with this object."""
        self._data = data
        self._file = file
        weakref.finalize(self, shutil.rmtree, directory, ignore_errors=True)

    @property
    def empty(self) -> bool:
        """Return whether there is nothing to do."""
        return self._data.empty

    @property
    def actions(self) -> tuple[Action, ...]:
        """Return the changes in the order in which they are made: kind, path, position and length in bytes, reason."""
        return self._data.actions

    @property
    def lost(self) -> tuple[LostMessage, ...]:
        """Return the messages that cannot be kept."""
        return self._data.lost

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what has to be known before the plan is applied."""
        return self._data.notes

    def apply(self) -> Applied:
        """Apply the plan and verify the store. Raises RefusedError if the store changed or is in use, WriteFailedError, OSError."""
        result = procedure.apply_file(self._file, procedure.Unattended(agrees=True))
        return Applied(Path(self._data.store), result.transaction, result.errors or {})

    def _repr_html_(self) -> str:
        title = f"Plan of {self._data.command}: {len(self.actions)} actions, {len(self.lost)} messages lost"
        rows = ((one.kind, one.path, one.position, one.length, one.reason) for one in self.actions)
        return table(title, ("action", "path", "position", "length", "reason"), rows)


@dataclass(frozen=True, slots=True)
class Applied:
    """A plan that was applied: its transaction (None: there was nothing to do) and how many errors of each code remain."""

    store: Path
    transaction: Transaction | None
    errors: Mapping[str, int]

    def undo(self) -> None:
        """Undo the plan, byte for byte. Raises RefusedError, WriteFailedError, OSError."""
        if self.transaction is not None:
            undo(self.store, self.transaction.id)


def plan_recover(at: StoreAt, release: str, strategy: str, lost_units: str, copies: tuple[Path, ...] = (), extend: bool = False) -> Plan:
    """Plan the repair that `rmqstore recover` makes. Raises RefusedError, UnreadableError, UsageError."""
    chosen = choose_release(at.open(), release).release
    directory = private_directory("rmqstore-plan-")
    kept_in = directory / "plan.json"
    try:
        with ExitStack() as stack:
            sources = tuple(source_at(path, stack) for path in copies)
            recovery = Recovery(chosen, Strategy(strategy), LostUnits(lost_units), sources, extend)
            request = procedure.RepairRequest("recover", chosen, at.open, recovery.plan)
            result = procedure.show(request, procedure.Unattended(agrees=True), kept_in)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    return Plan(result.plan, kept_in, directory)


def undo(root: Path, transaction: str | None) -> None:
    """Undo a transaction, or continue an undo that was stopped. Raises RefusedError, WriteFailedError, OSError."""
    procedure.undo(root, transaction, procedure.Unattended(agrees=True))
