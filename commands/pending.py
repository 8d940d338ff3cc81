"""`rmqstore pending`: open transactions and popped messages that were not acknowledged."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rmqstore.commands.common import View, output_options, store_options, write_list
from rmqstore.commands.engines import open_at_hand, store_or_uri_argument

if TYPE_CHECKING:
    from rmqstore.listing.pending import PendingRow


@click.command("pending", short_help="List open transactions and popped messages that were not acknowledged.")
@store_or_uri_argument
@click.option("--topic", metavar="TOPIC", help="Only messages of this topic.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="At most N rows, the oldest ones.")
@store_options
@output_options
def command(
    store: Path | str, topic: str | None, limit: int | None, broker_conf: Path | None, settings: Mapping[str, str], view: View
) -> None:
    """List what was undecided in STORE when the broker stopped, the oldest first: half messages of transactions that were neither committed
    nor rolled back, and messages that a group popped and did not acknowledge.

    A broker asks the producers of half messages again, and gives popped messages to the retry topic of the group once they are due.
    Transactions that ended up to three seconds before a crash can be listed: brokers from 5.1.0 on write their end later.
    Queues and configuration in RocksDB are read, unless a broker uses them (status 4).
    """
    from rmqstore.listing.pending import list_pending

    rows = list_pending(open_at_hand(store, broker_conf, settings), topic)
    write_list(view, "row", (_for_people(row) if view.format == "table" else row.as_json() for row in islice(rows, limit)))


def _for_people(row: PendingRow) -> dict[str, Any]:
    from rmqstore.times import time_text

    return {
        "kind": row.kind,
        "since": "unknown" if row.time is None else time_text(row.time),
        "due": None if row.due is None else time_text(row.due),
        "topic": row.topic,
        "queue": row.queue_id,
        "group": row.group,
        "queue offsets": None if row.offsets is None else ",".join(map(str, row.offsets)),
        "keys": row.keys,
        "unique key": row.unique_key,
        "checks": row.checks,
        "physical offset": row.physical_offset,
        **({} if row.problem is None else {"problem": row.problem}),
    }
