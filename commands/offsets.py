"""`rmqstore offsets`: change the offsets of a consumer group."""

from __future__ import annotations

from pathlib import Path

import click

from rmqstore.commands.common import store_argument
from rmqstore.commands.writing import RepairRunner, writing_options
from rmqstore.errors import UsageError

NAME = "offsets"


@click.command(NAME, short_help="Set the offsets of a consumer group: to a time, to the end, or as another store has them.")
@store_argument
@click.option("--group", required=True, metavar="GROUP", help="The consumer group.")
@click.option("--topic", metavar="TOPIC", help="Only in this topic; otherwise in all that the group has offsets in.")
@click.option(
    "--to-time", metavar="TIME", help="To the first message stored then or later: ISO 8601 (UTC unless it has an offset) or epoch ms."
)
@click.option("--to-end", is_flag=True, help="To the end of each queue: everything in it is skipped.")
@click.option(
    "--from-store",
    type=click.Path(path_type=Path, readable=False),
    metavar="OTHER",
    help="To the offsets that another store has, as after a switch to a slave.",
)
@writing_options()
def command(group: str, topic: str | None, to_time: str | None, to_end: bool, from_store: Path | None, runner: RepairRunner) -> None:
    """Set the offsets of a consumer group in STORE. Queues, log and other groups stay as they are.

    The plan says for each queue how many messages are delivered again or skipped, and `rmqstore undo` undoes it. Only offsets that the
    group has already are changed. The broker has to be stopped.
    """
    if sum((to_time is not None, to_end, from_store is not None)) != 1:
        raise UsageError("One of --to-time, --to-end and --from-store is needed.", "Give exactly one.")
    from rmqstore.dump.request import parse_time
    from rmqstore.repair.offsets import OffsetChange

    time = None if to_time is None else parse_time(to_time)
    change = OffsetChange(group, topic, time, None if from_store is None else from_store.absolute())
    runner(NAME, change.plan, passes=1)
