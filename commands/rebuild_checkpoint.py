"""`rmqstore rebuild-checkpoint`: rebuild the checkpoint that a clean stop would have left."""

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

NAME = "rebuild-checkpoint"


@click.command(NAME, short_help="Rebuild the checkpoint that a clean stop would have left.")
@store_argument
@broker_version_option
@store_options
@output_options
@writing_options
def command(
    store: Path,
    broker_version: str,
    broker_conf: Path | None,
    settings: Mapping[str, str],
    view: View,
    how: RepairRunner,
) -> None:
    """Rebuild the checkpoint of STORE from its commit log and index, if it is missing, damaged, ahead of them or out of date.

    Values of other brokers – the flushed offset of a master, the confirm offset of a controller – stay in a valid checkpoint; in a
    damaged one, and if they are beyond the log, they become 0, as after an upgrade, and a note says so.
    """
    from rmqstore.prediction.release import choose_release
    from rmqstore.repair.derived.agreement import plan_rebuilt_checkpoint
    from rmqstore.repair.procedure import RepairRequest
    from rmqstore.scan.compilation import compile_kernels
    from rmqstore.store.root import Store
    from rmqstore.versions import profile_of

    def open_store() -> Store:
        return Store.open(store, broker_conf=broker_conf, settings=settings)

    chosen = choose_release(open_store(), broker_version)
    profile = profile_of(chosen.release)
    compile_kernels(quiet=view.quiet)

    def plan(opened: Store, builder: PlanBuilder, staging: Staging) -> None:
        with view.progress("plan", opened.message_log.length or None) as bar:
            plan_rebuilt_checkpoint(builder, opened, profile, bar.advance)

    how(RepairRequest(NAME, chosen.release, open_store, plan))
