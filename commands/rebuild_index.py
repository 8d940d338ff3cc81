"""`rmqstore rebuild-index`: rebuild index files from the commit log."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rmqstore.commands.common import View, broker_version_option, output_options, store_argument, store_options
from rmqstore.commands.engines import engine_options, rebuilder_of
from rmqstore.commands.writing import RepairRunner, writing_options

if TYPE_CHECKING:
    from rmqstore.pipeline.engine import EngineOptions
    from rmqstore.repair.plan.builder import PlanBuilder
    from rmqstore.repair.plan.staging import Staging
    from rmqstore.store.root import Store

NAME = "rebuild-index"


@click.command(NAME, short_help="Rebuild index files from the commit log.")
@store_argument
@click.option("--all", "everything", is_flag=True, help="Rebuild also valid files; entries of expired messages go with the old files.")
@broker_version_option
@engine_options
@store_options
@output_options
@writing_options
def command(
    store: Path,
    everything: bool,
    broker_version: str,
    wish: EngineOptions,
    broker_conf: Path | None,
    settings: Mapping[str, str],
    view: View,
    how: RepairRunner,
) -> None:
    """Complete the index of STORE from its commit log: damaged and missing files, and entries missing at its beginning or end.

    Valid files stay unchanged. The release (--broker-version) decides whether tags are indexed, too: 5.4.0 and later do it. Old files
    go to the folder of the transaction.
    """
    from rmqstore.pipeline.job import StoreAt

    at = StoreAt.of(store, broker_conf, settings)
    present = at.open()
    rebuilder = rebuilder_of(wish, present, at)
    from rmqstore.prediction.release import choose_release
    from rmqstore.repair.derived.agreement import plan_rebuilt_index
    from rmqstore.repair.procedure import RepairRequest
    from rmqstore.scan.compilation import compile_kernels
    from rmqstore.versions import profile_of

    chosen = choose_release(present, broker_version)
    profile = profile_of(chosen.release)
    compile_kernels(quiet=view.quiet)

    def plan(opened: Store, builder: PlanBuilder, staging: Staging) -> None:
        with view.progress("plan", 2 * opened.message_log.length or None) as bar:
            plan_rebuilt_index(builder, staging, opened, profile, everything=everything, advance=bar.advance, rebuilder=rebuilder)

    how(RepairRequest(NAME, chosen.release, at.open, plan, remote=rebuilder is not None))
