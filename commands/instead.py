"""The plan of `recover` beside the prediction of a start: what the command would do instead of the broker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rmqstore.commands.writing import RepairRunner, listed_plan
from rmqstore.errors import RmqstoreError
from rmqstore.repair.plan.model import ActionKind

if TYPE_CHECKING:
    from rmqstore.prediction.whatif import Compared
    from rmqstore.repair.plan.model import Plan
    from rmqstore.repair.procedure import Planner
    from rmqstore.store.root import Store

_MOVED_OUT = (ActionKind.QUARANTINE, ActionKind.REPLACE)


@dataclass(frozen=True, slots=True)
class Instead:
    """The plan, or why there is none, and the start of a broker on the store that it leads to; None if it was not predicted."""

    plan: Plan | None
    refused: str | None = None
    start: Compared | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the value of `instead` in a `recovery` object."""
        from rmqstore.repair.plan.codec import shown_object

        lost = None if self.start is None else self.start.outcome.lost
        return {
            "plan": None if self.plan is None else shown_object(self.plan),
            "refused": self.refused,
            "starts": None if self.start is None else self.start.outcome.starts,
            "discarded": None if lost is None else lost.messages,
        }


def plan_instead(runner: RepairRunner, name: str, planner: Planner, *, passes: int) -> Instead:
    """Return the plan that a writing command would show, and the start that it leads to. The store stays as it is."""
    from rmqstore.prediction.whatif import compare, parse_variants
    from rmqstore.repair.procedure import verification_errors

    starts: list[Compared] = []

    def verify(store: Store, *, crashed: bool | None = None) -> Mapping[str, int]:
        if not starts:  # the first store is the planned one
            starts.extend(compare(store, parse_variants([], runner.release)))
        return verification_errors(store, crashed=crashed)

    try:
        plan = runner.run(name, planner, passes=passes, verify=verify).plan
    except RmqstoreError as error:
        return Instead(None, error.message)
    except OSError as error:
        return Instead(None, f"{error.filename or 'the disk'}: {error.strerror}.")
    return Instead(plan, None, starts[0] if starts else None)


def side_by_side(broker: Compared, instead: Instead) -> list[dict[str, Any]]:
    """Return rows of what a start does to the store as it is, and of what the plan and a start after it do."""
    plan = instead.plan
    if plan is None:
        return []
    after = instead.start or broker
    names = ("what", f"broker {broker.outcome.release}", "recover instead")
    gone = sum(change == "deleted" for change in broker.outcome.changes.values())
    moved = sum(action.kind in _MOVED_OUT for action in plan.actions)
    rows: list[tuple[str, Any, Any]] = [
        ("the broker starts", _starts(broker), _starts(after)),
        ("messages discarded", _lost(broker), _lost(after)),
        ("unreadable messages replaced", None, len(plan.lost)),
        ("end of the log", _end(broker), _end(after)),
        ("queues harmed", len(broker.consequences.queues), len(after.consequences.queues)),
        ("index entries lost", broker.consequences.index_items_lost, after.consequences.index_items_lost),
        ("files removed", gone, f"{moved}, kept for undo" if moved else 0),
        ("changes", None, len(plan.actions)),
        ("errors afterwards", None, _errors(plan)),
    ]
    return [dict(zip(names, row, strict=True)) for row in rows]


def details(instead: Instead) -> dict[str, Any]:
    """Return the plan as text and tables, or why there is none."""
    if instead.plan is None:
        return {"no plan of recover": instead.refused}
    return listed_plan(instead.plan)


def _starts(one: Compared) -> str:
    return {True: "yes", False: "no", None: "unknown"}[one.outcome.starts]


def _lost(one: Compared) -> int | None:
    return None if one.outcome.lost is None else one.outcome.lost.messages


def _end(one: Compared) -> int | None:
    return (one.outcome.after_start or one.outcome.after_load).max_phy_offset


def _errors(plan: Plan) -> str:
    from rmqstore.repair.procedure import listed

    if plan.after is None:
        return "as now" if plan.empty else "unknown"
    return listed(plan.after.errors) or "none"
