"""`rmqstore recover`: repair a store; with --dry-run, predict what a broker would do to it at its next start."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rmqstore.commands.common import View, broker_version_option, next_command, output_options, store_options
from rmqstore.commands.denied import require_readable
from rmqstore.commands.engines import at_hand_until_the_end, rebuild_engine_options, store_or_uri_argument
from rmqstore.commands.instead import Instead, plan_instead
from rmqstore.commands.predicting import predict, what_if_option
from rmqstore.commands.writing import RepairRunner, plan_out_option, yes_option
from rmqstore.errors import RmqstoreError, UsageError

if TYPE_CHECKING:
    from rmqstore.pipeline.engine import EngineOptions
    from rmqstore.pipeline.job import StoreAt
    from rmqstore.repair.sources.copies import Source
    from rmqstore.store.root import Store

NAME = "recover"
_PASSES = 3  # over the log: for the log itself, for verification, and for rebuilding what derives from it


@click.command(NAME, short_help="Repair a store, or predict what a broker will do to it.")
@store_or_uri_argument
@click.argument("tried", nargs=-1, metavar="")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Show what a broker will do at its next start beside what this command would do; with --strategy or --from the plan alone. "
    "Nothing is written.",
)
@what_if_option
@click.option(
    "--strategy",
    type=click.Choice(["salvage", "broker", "minimal"]),
    help="salvage (default): fill damage and keep all valid records; broker: cut the log where a broker would; minimal: only what keeps a "
    "broker from starting.",
)
@click.option(
    "--lost-units",
    type=click.Choice(["neighbour", "placeholder"]),
    default="neighbour",
    show_default=True,
    help="What consumers get instead of a lost message: its neighbour again, or a marked placeholder.",
)
@click.option(
    "--from",
    "copies",
    multiple=True,
    metavar="OTHER",
    help="Another copy of the log: a store, its commitlog, a file of it, a tar archive of these, or a URI of a store. Damaged records are "
    "taken from the first one that has them, and lost configuration from the newest one. May be repeated.",
)
@click.option("--extend", is_flag=True, help="With --from: also take what the other copy has after the end of the log.")
@yes_option
@plan_out_option
@broker_version_option
@rebuild_engine_options
@store_options
@output_options
def command(
    store: Path | str,
    tried: tuple[str, ...],
    dry_run: bool,
    what_if: tuple[str, ...],
    strategy: str | None,
    lost_units: str,
    copies: tuple[str, ...],
    extend: bool,
    yes: bool,
    plan_out: Path | None,
    broker_version: str,
    wish: EngineOptions,
    broker_conf: Path | None,
    settings: Mapping[str, str],
    view: View,
) -> None:
    """Make log, queues, index, timer, offsets, checkpoint and abort of STORE agree: a broker of --broker-version then starts and changes
    nothing.

    Damage inside the log is corrected if one field is wrong and its value certain, else replaced by filler records, so that nothing after
    it is lost; the lost messages are listed. The plan is shown and confirmed before anything changes, and `rmqstore undo` undoes it.
    With --from, damaged and missing records of the log are taken from other copies of it, byte for byte, and only what no copy has is
    replaced. A copy is used as far as it is proven to be one: its records around are those of STORE. It is read only.
    --engine says where queues and index are rebuilt.

    With --dry-run, no --strategy and no --from, a broker's next start on the store as it is (`rmqstore predict`) is shown beside the plan.
    This ends with status 1 if the broker does not start, messages are lost or read permission is denied. With --what-if several
    ways to start are compared, without a plan, and the least harmful one is named with those that are equal to it. With --dry-run STORE
    may be a URI (s3, gs, hdfs), of which a whole copy is made in TMPDIR.
    """
    if what_if and (not dry_run or strategy is not None):
        raise UsageError("--what-if compares predictions.", "Add --dry-run, and leave --strategy out.")
    if copies and strategy not in (None, "salvage"):
        raise UsageError("--from goes with --strategy salvage.", "Leave --strategy out.")
    if extend and not copies:
        raise UsageError("--extend goes with --from.", "Name another copy with --from.")
    if tried and not what_if:
        raise UsageError(f"{tried[0]!r} is one argument too many.", "Name one store; ways to start are named after --what-if.")
    if isinstance(store, str) and (not dry_run or plan_out is not None):
        raise UsageError(f"{store} is a URI: it can be looked at with --dry-run.", "Copy the store to a disk, and recover it there.")
    from rmqstore.pipeline.job import StoreAt

    at = StoreAt.of(at_hand_until_the_end(store, by_range=False), broker_conf, settings)
    opened = at.open()
    if dry_run and strategy is None and not copies:
        predict(
            opened,
            broker_version,
            [*what_if, *tried],
            view,
            next_command("doctor", store, broker_conf, settings),
            None if what_if else lambda: _instead(opened, at, broker_version, wish, lost_units, view),
        )
        return
    require_readable(opened)
    runner = RepairRunner(view, at, opened, broker_version, wish, dry_run=dry_run, yes=yes, plan_out=plan_out)
    # Not before: Spark, if it is the engine, starts with the runner, and these imports are slow.
    from rmqstore.repair.derived.consumequeues import LostUnits
    from rmqstore.repair.recover import Recovery, Strategy

    with ExitStack() as stack:
        others = tuple(_source(text, stack) for text in copies)
        recovery = Recovery(runner.release, Strategy(strategy or "salvage"), LostUnits(lost_units), others, extend)
        runner(NAME, recovery.plan, passes=_PASSES)


def _source(text: str, stack: ExitStack) -> Source:
    """Return a copy of the log by its path or URI; a store at a URI is copied until the end of `stack`."""
    from rmqstore.pipeline.filesystems import is_remote
    from rmqstore.pipeline.job import StoreAt
    from rmqstore.pipeline.remote import at_hand
    from rmqstore.repair.sources.archive import source_at
    from rmqstore.repair.sources.copies import Source

    if is_remote(text):
        return Source(Path(stack.enter_context(at_hand(StoreAt(text))).path), text)
    return source_at(Path(text), stack)


def _instead(store: Store, at: StoreAt, broker_version: str, wish: EngineOptions, lost_units: str, view: View) -> Instead:
    """Return what the command would do with its other options left out."""
    from rmqstore.repair.derived.consumequeues import LostUnits
    from rmqstore.repair.procedure import Unattended
    from rmqstore.repair.recover import Recovery, Strategy

    try:
        require_readable(store)
    except RmqstoreError as error:
        return Instead(None, error.message)
    runner = RepairRunner(view, at, store, broker_version, wish, dry_run=True, yes=False, plan_out=None, dialog=Unattended(agrees=False))
    return plan_instead(runner, NAME, Recovery(runner.release, Strategy.SALVAGE, LostUnits(lost_units), (), False).plan, passes=_PASSES)
