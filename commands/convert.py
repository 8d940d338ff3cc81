"""`rmqstore convert`: queues and configuration from RocksDB into files."""

from __future__ import annotations

import click

from rmqstore.commands.common import store_argument
from rmqstore.commands.writing import RepairRunner, writing_options

NAME = "convert"


@click.command(NAME, short_help="Move queues and configuration from RocksDB into files.")
@store_argument
@click.option("--to", "target", type=click.Choice(["files"]), required=True, help="files: those of storeType=default.")
@writing_options()
def command(target: str, runner: RepairRunner) -> None:
    """Convert STORE, whose queues or configuration are in RocksDB, into one that has them in files.

    Queues are built from the commit log; topics, groups and consumer offsets become topics.json, subscriptionGroup.json and
    consumerOffset.json. The databases go to the folder of the transaction, so `rmqstore undo` brings them back as long as no broker was
    started. Then start the broker with storeType=default.
    """
    from rmqstore.repair.convert import plan_files

    runner(NAME, plan_files, passes=3)
