"""`rmqstore truncate`: cut the commit log at a record boundary, and everything derived from it."""

from __future__ import annotations

from functools import partial

import click

from rmqstore.commands.common import store_argument
from rmqstore.commands.writing import RepairRunner, writing_options

NAME = "truncate"


@click.command(NAME, short_help="Cut the commit log at a record boundary, with consume queues and index.")
@store_argument
@click.option("--at", type=int, metavar="OFFSET", help="Physical offset where a record begins; default: after the last valid record.")
@writing_options()
def command(at: int | None, runner: RepairRunner) -> None:
    """Cut the commit log of STORE: zeroes from the cut to the end of that file, later files to the folder of the transaction.

    Entries of what is cut are removed from queues and index, checkpoint and epoch file are adapted; `abort` stays unchanged, but is set
    where the next start has to build queues in RocksDB. No file changes its length. Damage before the cut stays: use `rmqstore recover`
    for it.
    """
    from rmqstore.repair.recover import plan_truncate

    # The log is read for its end, for verification, and for rebuilding what derives from it.
    runner(NAME, partial(plan_truncate, at=at), passes=3)
