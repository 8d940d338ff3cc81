"""`rmqstore rebuild-consumequeue`: rebuild consume queues, their extensions and batch queues from the commit log."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import click

from rmqstore.commands.common import store_argument
from rmqstore.commands.writing import RepairRunner, writing_options

NAME = "rebuild-consumequeue"


def _queues(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> frozenset[tuple[str, int]]:
    named = set()
    for text in values:
        topic, slash, queue_id = text.rpartition("/")
        if not slash or not topic or not (queue_id.isascii() and queue_id.isdigit()):
            raise click.BadParameter(f"{text!r} is not of the form TOPIC/ID, for example TopicA/0", context, parameter)
        named.add((topic, int(queue_id)))
    return frozenset(named)


@click.command(NAME, short_help="Rebuild consume queues from the commit log.")
@store_argument
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="Only the queues of this topic. May be repeated.")
@click.option("--queue", "queues", multiple=True, metavar="TOPIC/ID", callback=_queues, help="Only this queue. May be repeated.")
@click.option("--only-missing", is_flag=True, help="Only queues that have no files.")
@click.option(
    "--mode",
    type=click.Choice(["useful", "faithful"]),
    default="useful",
    show_default=True,
    help="useful: every message at its own queue offset; faithful: as a broker's replay of the log would, with its shifts.",
)
@writing_options(engine=True)
def command(topics: tuple[str, ...], queues: frozenset[tuple[str, int]], only_missing: bool, mode: str, runner: RepairRunner) -> None:
    """Rebuild the consume queues of STORE from its commit log: all, or those of --topic and --queue, with extensions and batch queues.

    Valid entries stay unchanged, and so do entries of expired messages. Old files go to the folder of the transaction. Queues of
    topics that are not configured, and that have no files, are rebuilt only by name: they were probably deleted.
    """
    from rmqstore.rebuild import Mode
    from rmqstore.repair.derived.agreement import plan_rebuilt_queues
    from rmqstore.repair.derived.consumequeues import QueueWish

    wish = QueueWish(True, frozenset(topics), queues, only_missing, mode=Mode(mode))
    # Of the rebuilt queues, only those with findings of verification are rebuilt and compared again.
    second = partial(plan_rebuilt_queues, wish=replace(wish, only_needed=True))
    runner(NAME, partial(plan_rebuilt_queues, wish=wish), passes=2, second=second)
