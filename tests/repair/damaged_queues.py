"""A store whose derived files are damaged and mended, through the same procedure that the commands call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rmqstore.formats.checkpoint import CHECKPOINT
from rmqstore.formats.layout import fixed_layout
from rmqstore.repair import procedure
from rmqstore.repair.derived.agreement import plan_derived, plan_rebuilt_checkpoint, plan_rebuilt_index, plan_rebuilt_queues
from rmqstore.repair.derived.consumequeues import QueueWish
from rmqstore.repair.derived.judgement import judge, present_log
from rmqstore.repair.derived.requests import Planning
from rmqstore.repair.log.future import FutureLog
from rmqstore.repair.plan.model import Plan
from rmqstore.repair.procedure import RepairRequest, Result
from rmqstore.store.root import Store
from rmqstore.versions import Profile, profile_of
from tests.repair.every_action import Yes
from tests.support import stores

_CONFIRM = fixed_layout(CHECKPOINT)["confirm_phy_offset"]
PARTS = ("consumequeue", "consumequeue_ext", "batchconsumequeue", "index", "checkpoint")


@dataclass(frozen=True)
class Mending:
    """A store at `root`, opened with the settings it was written with, for a release."""

    root: Path
    settings: dict[str, str]
    release: str

    @classmethod
    def of_sample(cls, name: str, tmp_path: Path) -> Mending:
        """An own copy of a sample store."""
        root = stores.fresh_store(name, tmp_path)
        return cls(root, stores.case(name).settings(root), stores.case(name).release)

    def open(self) -> Store:
        return Store.open(self.root, settings=self.settings)

    @property
    def profile(self) -> Profile:
        return profile_of(self.release)

    @property
    def contents(self) -> dict[str, bytes]:
        """The bytes of all derived files, but for the confirm offset of the checkpoint: what changes anyway is written as a start would."""
        found = {
            path.relative_to(self.root).as_posix(): path.read_bytes()
            for part in PARTS
            for path in [self.root / part, *sorted((self.root / part).rglob("*"))]
            if path.is_file()
        }
        if "checkpoint" in found:
            before, behind = found["checkpoint"][: _CONFIRM.offset], found["checkpoint"][_CONFIRM.end :]
            found["checkpoint"] = before + bytes(_CONFIRM.width) + behind
        return found

    def mend(self, log: Callable[[Store], FutureLog] | None = None, *, keeps_abort: bool = False) -> Result:
        """What `recover` does about everything derived, for the log as it is or the one that `log` gives."""

        def plan(planning: Planning, store: Store) -> None:
            future = present_log(store, judge(store).log) if log is None else log(store)
            plan_derived(planning, store, future, complete=not keeps_abort)

        return self._carry_out(plan)

    def rebuild_queues(self, wish: QueueWish | None = None) -> Result:
        def plan(planning: Planning, store: Store) -> None:
            plan_rebuilt_queues(planning, store, wish or QueueWish(rebuild=True))

        return self._carry_out(plan)

    def rebuild_index(self, *, everything: bool = False) -> Result:
        def plan(planning: Planning, store: Store) -> None:
            plan_rebuilt_index(planning, store, everything=everything)

        return self._carry_out(plan)

    def rebuild_checkpoint(self) -> Result:
        def plan(planning: Planning, store: Store) -> None:
            plan_rebuilt_checkpoint(planning, store)

        return self._carry_out(plan)

    def _carry_out(self, planner: procedure.Planner) -> Result:
        return procedure.execute(RepairRequest("test", self.release, self.open, planner), Yes())


def described(plan: Plan) -> list[tuple[str, str]]:
    """Kind and path of every action."""
    return [(str(action.kind), action.path) for action in plan.actions]
