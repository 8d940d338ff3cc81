"""`rmqstore timers`: the messages that wait for their time."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rmqstore.commands.common import View, output_options, store_options, write_list
from rmqstore.commands.engines import open_at_hand, store_or_uri_argument

if TYPE_CHECKING:
    from rmqstore.listing.timers import TimerRow


@click.command("timers", short_help="List delayed and timed messages that are not delivered yet.")
@store_or_uri_argument
@click.option("--topic", metavar="TOPIC", help="Only messages for this topic.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="At most N messages, the earliest ones.")
@store_options
@output_options
def command(
    store: Path | str, topic: str | None, limit: int | None, broker_conf: Path | None, settings: Mapping[str, str], view: View
) -> None:
    """List the messages of STORE that wait for their time, the earliest first: those of delay levels from the offset in delayOffset.json
    on, those in the timer, and those that the timer has not read yet.

    Overdue messages are delivered as soon as a broker starts. Queues in RocksDB are read, unless a broker uses them (status 4).
    """
    import time

    from rmqstore.listing.timers import list_timers

    rows = list_timers(open_at_hand(store, broker_conf, settings), int(time.time() * 1000), topic)
    write_list(view, "message", (_for_people(row) if view.format == "table" else row.as_json() for row in islice(rows, limit)))


def _for_people(row: TimerRow) -> dict[str, Any]:
    from rmqstore.times import time_text

    return {
        "due": "unknown" if row.due is None else time_text(row.due),
        "state": "overdue" if row.overdue else "waits",
        "topic": row.topic,
        "queue": row.queue_id,
        "keys": row.keys,
        "unique key": row.unique_key,
        "kind": row.kind if row.level is None else f"level {row.level}",
        "physical offset": row.physical_offset,
        **({} if row.problem is None else {"problem": row.problem}),
    }
