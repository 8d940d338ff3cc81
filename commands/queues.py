"""`rmqstore queues`: the queues of a store, one row each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rmqstore.commands.common import View, output_options, store_options, write_list
from rmqstore.commands.engines import open_at_hand, store_or_uri_argument
from rmqstore.commands.filters import queue_option, topic_and_queue, topic_option
from rmqstore.render.sizes import size_text

if TYPE_CHECKING:
    from rmqstore.listing.queues import QueueRow

_SORTS = {
    "topic": lambda row: (row.topic, row.queue_id),
    "entries": lambda row: -(row.entries or 0),
    "bytes": lambda row: -row.bytes,
    "last": lambda row: -(row.last_store_timestamp or 0),
}


@click.command("queues", short_help="List queues: offsets, entries, times, bytes.")
@store_or_uri_argument
@topic_option
@queue_option
@click.option("--sort", type=click.Choice(list(_SORTS)), default="topic", show_default=True, help="Order; by numbers the largest first.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="At most N queues.")
@store_options
@output_options
def command(
    store: Path | str,
    topic: str | None,
    queue: str | None,
    sort: str,
    limit: int | None,
    broker_conf: Path | None,
    settings: Mapping[str, str],
    view: View,
) -> None:
    """List the consume queues of STORE: topic, queue, queue offsets, entries, times of the first and the last message, bytes of the files.

    Only the ends of each queue are read. A queue that cannot be read is listed with the reason.
    Queues in RocksDB are read, unless a broker uses them (status 4).
    """
    from rmqstore.listing.queues import list_queues

    topic, queue_id = topic_and_queue(topic, queue)
    rows = sorted(list_queues(open_at_hand(store, broker_conf, settings), topic, queue_id), key=_SORTS[sort])
    rows = rows[:limit]
    longest = max((row.max_offset or 0 for row in rows), default=0)
    write_list(view, "queue", [_for_people(row, longest) if view.format == "table" else row.as_json() for row in rows])


def _for_people(row: QueueRow, longest: int) -> dict[str, Any]:
    from rmqstore.render.strip import span
    from rmqstore.times import time_text

    return {
        "topic": row.topic,
        "queue": row.queue_id,
        "min": row.min_offset,
        "max": row.max_offset,
        "entries": row.entries,
        "first": time_text(row.first_store_timestamp),
        "last": time_text(row.last_store_timestamp),
        "size": size_text(row.bytes),
        "min to max": span(row.min_offset or 0, row.max_offset or 0, longest),
        **({} if row.problem is None else {"problem": row.problem}),
    }
