"""`rmqstore rebuild-index`: rebuild index files from the commit log."""

from __future__ import annotations

from functools import partial

import click

from rmqstore.commands.common import store_argument
from rmqstore.commands.writing import RepairRunner, writing_options

NAME = "rebuild-index"


@click.command(NAME, short_help="Rebuild index files from the commit log.")
@store_argument
@click.option("--all", "everything", is_flag=True, help="Rebuild also valid files; entries of expired messages go with the old files.")
@writing_options(engine=True)
def command(everything: bool, runner: RepairRunner) -> None:
    """Complete the index of STORE from its commit log: damaged and missing files, and entries missing at its beginning or end.

    Valid files stay unchanged. The release (--broker-version) decides whether tags are indexed, too: 5.4.0 and later do it. Old files
    go to the folder of the transaction.
    """
    from rmqstore.repair.derived.agreement import plan_rebuilt_index

    runner(NAME, partial(plan_rebuilt_index, everything=everything), passes=2)
