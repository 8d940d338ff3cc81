"""`rmqstore apply`: a plan that was kept, done; or a transaction that was stopped, continued."""

from __future__ import annotations

from pathlib import Path

import click

from rmqstore.commands.common import View, output_options
from rmqstore.commands.writing import PlanDialog, tell, yes_option


@click.command("apply", short_help="Carry out a plan that was kept, or continue one that was stopped.")
@click.argument("plan", type=click.Path(path_type=Path, dir_okay=False, readable=False))
@yes_option
@output_options
def command(plan: Path, yes: bool, view: View) -> None:
    """Carry out PLAN, a file that --plan-out of another command wrote, or plan.json of a transaction that was stopped in the middle.

    A plan is refused when the store is in use or changed since it was planned for. Every change can be taken back with `rmqstore undo`.
    Ends with status 1 when a verification afterwards finds errors.
    """
    from rmqstore.repair.procedure import apply_file

    tell(view, apply_file(plan, PlanDialog(view, yes)))
