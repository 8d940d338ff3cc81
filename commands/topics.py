"""`rmqstore topics`: the topics of a store, one row each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from rmqstore.commands.common import View, output_options, store_options, write_list
from rmqstore.commands.engines import open_at_hand, store_or_uri_argument


@click.command("topics", short_help="List topics: queues, type, permissions, messages.")
@store_or_uri_argument
@store_options
@output_options
def command(store: Path | str, broker_conf: Path | None, settings: Mapping[str, str], view: View) -> None:
    """List the topics of STORE: those of topics.json and those that only have queues, with queues, message type, permissions and messages.

    Messages are the entries of the queues. Topics and queues in RocksDB are read, unless a broker uses them (status 4).
    """
    from rmqstore.listing.topics import list_topics
    from rmqstore.render.text import labelled

    rows = [row.as_json() for row in list_topics(open_at_hand(store, broker_conf, settings))]
    if view.format == "table":
        rows = [labelled(row) for row in rows]
    write_list(view, "topic", rows)
