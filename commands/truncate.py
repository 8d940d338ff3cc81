"""`rmqstore truncate`: cut the commit log at a record boundary, and everything derived from it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rmqstore.commands.common import View, broker_version_option, output_options, store_argument, store_options
from rmqstore.commands.writing import RepairRunner, writing_options

if TYPE_CHECKING:
    from rmqstore.repair.plan.builder import PlanBuilder
    from rmqstore.repair.plan.staging import Staging
    from rmqstore.store.root import Store

NAME = "truncate"
# The log is read for its end, for verification, and for rebuilding what derives from it.
_PASSES = 3


@click.command(NAME, short_help="Cut the commit log at a record boundary, with consume queues and index.")
@store_argument
@click.option("--at", type=int, metavar="OFFSET", help="Physical offset where a record begins; default: after the last valid record.")
@broker_version_option
@store_options
@output_options
@writing_options
def command(
    store: Path,
    at: int | None,
    broker_version: str,
    broker_conf: Path | None,
    settings: Mapping[str, str],
    view: View,
    how: RepairRunner,
) -> None:
    """Cut the commit log of STORE: zeroes from the cut to the end of that file, later files to the folder of the transaction.

    Entries of what is cut are removed from queues and index, checkpoint and epoch file are adapted; `abort` stays unchanged, but is set
    where the next start has to build queues in RocksDB. No file changes its length. Damage before the cut stays: use `rmqstore recover`
    for it.
    """
    from rmqstore.prediction.release import choose_release
    from rmqstore.repair.procedure import RepairRequest
    from rmqstore.repair.recover import plan_truncate
    from rmqstore.scan.compilation import compile_kernels
    from rmqstore.store.root import Store

    def open_store() -> Store:
        return Store.open(store, broker_conf=broker_conf, settings=settings)

    chosen = choose_release(open_store(), broker_version)
    compile_kernels(quiet=view.quiet)

    def plan(opened: Store, builder: PlanBuilder, staging: Staging) -> None:
        with view.progress("plan", _PASSES * opened.message_log.length or None) as bar:
            plan_truncate(builder, staging, opened, chosen.release, at, advance=bar.advance)

    how(RepairRequest(NAME, chosen.release, open_store, plan))
