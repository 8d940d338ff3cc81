"""`rmqstore merge-paths`: bring the files of several commit log directories into one."""

from __future__ import annotations

from pathlib import Path

import click

from rmqstore.commands.common import store_argument
from rmqstore.commands.writing import RepairRunner, writing_options

NAME = "merge-paths"


@click.command(NAME, short_help="Bring the files of several commit log directories into one.")
@store_argument
@click.option(
    "--into",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="The directory that has all files then: one of storePathCommitLog. To move the log to another one, add it with --set.",
)
@writing_options()
def command(into: Path, runner: RepairRunner) -> None:
    """Bring the files of the commit log of STORE, which are in several directories (storePathCommitLog with commas), into DIR.

    Files are copied with holes and times, so DIR needs room for those that are not there yet. The old ones go to the folder of the
    transaction; `rmqstore undo` brings them back as long as no broker was started. Then start the broker with storePathCommitLog=DIR.
    """
    from rmqstore.repair.mergepaths import Merge

    merge = Merge(into)
    runner(NAME, merge.plan, passes=1, second=merge.plan_again)
