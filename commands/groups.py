"""`rmqstore groups`: the offsets of consumer groups, one row for each queue."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from rmqstore.commands.common import View, output_options, store_options, write_list
from rmqstore.commands.engines import open_at_hand, store_or_uri_argument


@click.command("groups", short_help="List consumer groups: offset, lag, next message of each queue.")
@store_or_uri_argument
@click.option("--group", metavar="GROUP", help="Only this group.")
@click.option("--topic", metavar="TOPIC", help="Only queues of this topic.")
@store_options
@output_options
def command(
    store: Path | str, group: str | None, topic: str | None, broker_conf: Path | None, settings: Mapping[str, str], view: View
) -> None:
    """List the consumer groups of STORE with their offset in each queue, how many messages are left, and the next one they get.

    Offsets are those of consumerOffset.json (lmqConsumerOffset.json with enableLmq).
    Offsets and queues in RocksDB are read, unless a broker uses them (status 4).
    """
    from rmqstore.listing.groups import list_groups
    from rmqstore.render.text import labelled

    rows = [row.as_json() for row in list_groups(open_at_hand(store, broker_conf, settings), group, topic)]
    if view.format == "table":
        rows = [labelled(row) for row in rows]
    write_list(view, "offset", rows)
