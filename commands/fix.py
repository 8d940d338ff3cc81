"""`rmqstore fix`: the guided repair, from the copy and the diagnosis to the start of the broker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rmqstore.commands.common import View, broker_version_option, output_options, store_argument, store_options
from rmqstore.commands.denied import require_readable
from rmqstore.commands.doctor import commands_on, diagnosis_of
from rmqstore.commands.engines import rebuild_engine_options
from rmqstore.commands.writing import PlanDialog, RepairRunner, dry_run_option, outcome, yes_option
from rmqstore.errors import RefusedError
from rmqstore.jsonschema import SCHEMA

if TYPE_CHECKING:
    from rmqstore.doctor.cure import Cure
    from rmqstore.doctor.diagnosis import Diagnosis
    from rmqstore.doctor.nextsteps import Commands
    from rmqstore.pipeline.engine import EngineOptions
    from rmqstore.repair.beforehand import Copy
    from rmqstore.repair.plan.model import Plan
    from rmqstore.repair.procedure import Result

NAME = "fix"
EXIT_NOT_FIXED = 1
STARTS = "Start the broker"


@click.command(NAME, short_help="Repair a store step by step: copy, verdict, plan, consent, repair, verification.")
@store_argument
@dry_run_option
@yes_option
@broker_version_option
@rebuild_engine_options
@store_options
@output_options
def command(
    store: Path,
    dry_run: bool,
    yes: bool,
    broker_version: str,
    wish: EngineOptions,
    broker_conf: Path | None,
    settings: Mapping[str, str],
    view: View,
) -> None:
    """Make STORE ready for the start of a broker, in one run: the verdict of `rmqstore doctor`, the command that copies the store and the
    space it needs, the plan of `rmqstore recover`, what holds after it, the question, the repair, a verification, and the verdict again.

    Nothing is changed where a broker can start and loses nothing, where a setting is wrong (it is named), and where something has to be
    done first (the command is printed). A store that is in use is refused.

    Ends with status 0 if the broker can be started, and with 1 if something is left to do. `rmqstore undo` undoes the repair.
    """
    from rmqstore.doctor.cure import Cure, cure_of
    from rmqstore.pipeline.job import StoreAt
    from rmqstore.repair.beforehand import copies
    from rmqstore.scan.compilation import compile_kernels

    compile_kernels(quiet=view.quiet)
    opened, before = diagnosis_of(store, broker_version, broker_conf, settings)
    cure, result, after = cure_of(before), None, before
    copied = copies(opened)
    if view.format == "table":
        output = view.output()
        output.verdict(before.verdict.headline)
        output.object(_beginning(before, copied, cure))
    if cure is Cure.IN_USE:
        users = next(finding.message for finding in before.findings if finding.code == "RMQ-ST-IN-USE")
        raise RefusedError(f"Nothing was changed: {users}.", "Stop the broker, or let it run; then run the command again.")
    if cure is Cure.REPAIR:
        from rmqstore.repair.recover import Recovery

        require_readable(opened)
        at = StoreAt.of(store, broker_conf, settings)
        dialog = _Dialog(view, yes)
        runner = RepairRunner(view, at, opened, before.release, wish, dry_run=dry_run, yes=yes, plan_out=None, dialog=dialog)
        result = runner.run("recover", Recovery(runner.release).plan, passes=3)
        if result.transaction is not None:
            _, after = diagnosis_of(store, broker_version, broker_conf, settings)
    step = _next(after, result, commands_on(opened.root, broker_version, broker_conf, settings))
    _end(view, cure, copied, (before, after), result, step)
    if not step.startswith(STARTS):
        click.get_current_context().exit(EXIT_NOT_FIXED)


class _Dialog(PlanDialog):
    """The dialog of a repair that adds to the plan what holds after it."""

    def show(self, plan: Plan) -> None:
        """Print the plan, and what it promises."""
        super().show(plan)
        if self._view.format == "table" and not plan.empty:
            self._view.output().object({"after this": promise(plan)})


def promise(plan: Plan) -> str:
    """Return what holds after a plan, as far as the planned store was looked at."""
    from rmqstore.wording import counted

    lost = f"{counted(len(plan.lost), 'message')} lost, listed above" if plan.lost else "no message lost"
    if plan.after is None:
        return f"{lost}; the planned store was not verified, the store will be"
    if plan.after.errors:
        from rmqstore.repair.procedure import listed

        return f"{lost}; errors remain: {listed(plan.after.errors)}"
    left = (
        ""
        if plan.after.left is None
        else f", {counted(plan.after.left, 'action')} left to do"
        if plan.after.left
        else ", nothing left to do"
    )
    return f"{lost}; verification of the planned store found no errors{left}; `rmqstore undo` restores every byte"


def _beginning(diagnosis: Diagnosis, copied: list[Copy], cure: Cure) -> dict[str, Any]:
    """Return the verdict, and the copies to make before a repair, as text."""
    from rmqstore.doctor.cure import Cure
    from rmqstore.render.sizes import size_text

    screen: dict[str, Any] = {"in full": diagnosis.sentence}
    if cure is Cure.SETTING:
        screen["setting"] = ", ".join(str(one.expected) for one in diagnosis.findings if one.code == "RMQ-ST-SETTING")
    if cure in (Cure.REPAIR, Cure.COMMAND):
        screen["copy first"] = [{"command": one.command} for one in copied]
        screen["space"] = [
            {
                "for": str(one.target),
                "needed": size_text(one.size),
                "free": "unknown" if one.free is None else size_text(one.free),
                "": "" if one.free is None or one.free >= one.size else "not enough: copy it to another disk",
            }
            for one in copied
        ]
    return screen


def _next(diagnosis: Diagnosis, result: Result | None, commands: Commands) -> str:
    """Return the next step after the last diagnosis."""
    from rmqstore.doctor.cure import after_repair

    if result is None:
        return diagnosis.next
    if result.left or (result.transaction is None and not result.plan.empty):
        return commands.repair(NAME) or diagnosis.next
    return after_repair(diagnosis, commands, complete=not result.errors, whole=True)


def _end(view: View, cure: Cure, copied: list[Copy], verdicts: tuple[Diagnosis, Diagnosis], result: Result | None, step: str) -> None:
    """Write what was done, the verdict, and the next step."""
    before, after = verdicts
    if view.format == "table":
        output = view.output()
        if result is not None:
            output.object(outcome(result))
        if after is not before:
            output.verdict(after.verdict.headline)
        output.next(step)
        return
    if result is not None:
        view.output().object(result.as_json())
    view.output().object(
        {
            "type": NAME,
            "schema": SCHEMA,
            "cure": str(cure),
            "copies": [{"command": one.command, "bytes": one.size, "free": one.free} for one in copied],
            "before": before.as_json(),
            "after": after.as_json(),
            "transaction": None if result is None or result.transaction is None else result.transaction.id,
            "next": step,
        }
    )
