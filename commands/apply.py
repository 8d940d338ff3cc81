"""`rmqstore apply`: apply a saved plan, or continue an interrupted transaction."""

from __future__ import annotations

from pathlib import Path

import click

from rmqstore.commands.common import View, output_options
from rmqstore.commands.writing import PlanDialog, doctor_of, tell, yes_option


@click.command("apply", short_help="Apply a saved plan, or continue an interrupted one.")
@click.argument("plan", type=click.Path(path_type=Path, dir_okay=False, readable=False))
@yes_option
@output_options
def command(plan: Path, yes: bool, view: View) -> None:
    """Apply PLAN, a file that --plan-out of another command wrote, or plan.json of an interrupted transaction.

    A plan is refused if the store is in use or has changed since the plan was made. Every change can be undone with `rmqstore undo`.
    Ends with status 1 if the verification afterwards finds errors.
    """
    from rmqstore.repair.procedure import apply_file

    result = apply_file(plan, PlanDialog(view, yes))
    tell(view, result, doctor_of(result.plan))
