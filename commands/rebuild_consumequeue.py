"""`rmqstore rebuild-consumequeue`: rebuild consume queues, their extensions and batch queues from the commit log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
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

NAME = "rebuild-consumequeue"


def _queues(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> frozenset[tuple[str, int]]:
    named = set()
    for text in values:
        topic, slash, queue_id = text.rpartition("/")
        if not slash or not topic or not (queue_id.isascii() and queue_id.isdigit()):
            raise click.BadParameter(f"{text!r} is not of the form TOPIC/QUEUE, for example TopicA/0", context, parameter)
        named.add((topic, int(queue_id)))
    return frozenset(named)


@click.command(NAME, short_help="Rebuild consume queues from the commit log.")
@store_argument
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="Only the queues of this topic. May be repeated.")
@click.option("--queue", "queues", multiple=True, metavar="TOPIC/QUEUE", callback=_queues, help="Only this queue. May be repeated.")
@click.option("--only-missing", is_flag=True, help="Only queues that have no files.")
@click.option(
    "--mode",
    type=click.Choice(["useful", "faithful"]),
    default="useful",
    show_default=True,
    help="useful: every message at its own queue offset; faithful: as a broker's replay of the log would, with its shifts.",
)
@broker_version_option
@engine_options
@store_options
@output_options
@writing_options
def command(
    store: Path,
    topics: tuple[str, ...],
    queues: frozenset[tuple[str, int]],
    only_missing: bool,
    mode: str,
    broker_version: str,
    wish: EngineOptions,
    broker_conf: Path | None,
    settings: Mapping[str, str],
    view: View,
    how: RepairRunner,
) -> None:
    """Rebuild the consume queues of STORE from its commit log: all, or those of --topic and --queue, with extensions and batch queues.

    Valid entries stay unchanged, and so do entries of expired messages. Old files go to the folder of the transaction. Queues of
    topics that are not configured, and that have no files, are rebuilt only by name: they were probably deleted.
    """
    from rmqstore.pipeline.job import StoreAt

    at = StoreAt.of(store, broker_conf, settings)
    present = at.open()
    rebuilder = rebuilder_of(wish, present, at)
    from rmqstore.prediction.release import choose_release
    from rmqstore.rebuild import Mode
    from rmqstore.repair.derived.agreement import plan_rebuilt_queues
    from rmqstore.repair.derived.consumequeues import QueueWish
    from rmqstore.repair.procedure import Planner, RepairRequest
    from rmqstore.scan.compilation import compile_kernels
    from rmqstore.versions import profile_of

    chosen = choose_release(present, broker_version)
    profile = profile_of(chosen.release)
    queue_wish = QueueWish(True, frozenset(topics), queues, only_missing, mode=Mode(mode))
    compile_kernels(quiet=view.quiet)

    def planner(queue_wish: QueueWish) -> Planner:
        def plan(opened: Store, builder: PlanBuilder, staging: Staging) -> None:
            with view.progress("plan", 2 * opened.message_log.length or None) as bar:
                plan_rebuilt_queues(builder, staging, opened, profile, queue_wish, bar.advance, rebuilder)

        return plan

    # Of the rebuilt queues, only those with findings of verification are rebuilt and compared again.
    second = planner(replace(queue_wish, only_needed=True))
    how(RepairRequest(NAME, chosen.release, at.open, planner(queue_wish), second, remote=rebuilder is not None))
