"""`rmqstore convert`: queues and configuration from RocksDB into files, or from files into RocksDB."""

from __future__ import annotations

import click

from rmqstore.commands.common import store_argument
from rmqstore.commands.writing import RepairRunner, writing_options

NAME = "convert"


@click.command(NAME, short_help="Move queues and configuration from RocksDB into files, or back.")
@store_argument
@click.option(
    "--to",
    "target",
    type=click.Choice(["files", "rocksdb", "config-v2"]),
    required=True,
    help="files: those of storeType=default; rocksdb: the database of storeType=defaultRocksDB; config-v2: the configuration in config/rdb "
    "of configManagerVersion=v2.",
)
@writing_options()
def command(target: str, runner: RepairRunner) -> None:
    """Convert STORE, whose queues or configuration are in RocksDB, into one that has them in files, or the other way round.

    Queues are built from the commit log. To files, topics, groups and consumer offsets become topics.json, subscriptionGroup.json and
    consumerOffset.json; to RocksDB, brokers of 5.3.1 and later read these files at the next start. What is replaced goes to the folder of
    the transaction, so `rmqstore undo` brings it back as long as no broker was started. Then start the broker with storeType=default, or
    storeType=defaultRocksDB.

    With config-v2 only topics, groups and consumer offsets move, from JSON files or from the databases of storeType=defaultRocksDB, into
    config/rdb. A broker that gets configManagerVersion=v2 without that begins without topics, groups and offsets.
    """
    if target == "files":
        from rmqstore.repair.convert import plan_files

        runner(NAME, plan_files, passes=3)
    elif target == "config-v2":
        from rmqstore.repair.rocksdb.configuration import plan_configuration

        runner(NAME, plan_configuration, passes=1)
    else:
        from rmqstore.repair.rocksdb.plan import plan_to_database

        runner(NAME, plan_to_database, passes=2)
