"""`rmqstore rebuild-checkpoint`: rebuild the checkpoint that a clean stop would have left."""

from __future__ import annotations

import click

from rmqstore.commands.common import store_argument
from rmqstore.commands.writing import RepairRunner, writing_options

NAME = "rebuild-checkpoint"


@click.command(NAME, short_help="Rebuild the checkpoint that a clean stop would have left.")
@store_argument
@writing_options()
def command(runner: RepairRunner) -> None:
    """Rebuild the checkpoint of STORE from its commit log and index, if it is missing, damaged, ahead of them or out of date.

    Values of other brokers – the flushed offset of a master, the confirm offset of a controller – stay in a valid checkpoint; in a
    damaged one, and if they are beyond the log, they become 0, as after an upgrade, and a note says so.
    """
    from rmqstore.repair.derived.agreement import plan_rebuilt_checkpoint

    runner(NAME, plan_rebuilt_checkpoint, passes=1)
