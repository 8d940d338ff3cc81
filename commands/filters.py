"""Options that select messages, as filters."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rmqstore.dump.request import Filters

_TIMES = ("from_time", "to_time")
_OPTIONS = (
    click.option("--topic", help="Only this topic."),
    click.option("--queue", "queue_id", type=int, metavar="ID", help="Only this queue id."),
    click.option("--queue-offset", type=int, metavar="N", help="Only this offset in the queue."),
    click.option("--from-offset", type=int, metavar="BYTES", help="From this physical offset on; inside a record: from the next one."),
    click.option("--to-offset", type=int, metavar="BYTES", help="Up to this physical offset, which is not included."),
    click.option("--from-time", metavar="TIME", help="Stored at this time or later: ISO 8601 (UTC unless it has an offset) or epoch ms."),
    click.option("--to-time", metavar="TIME", help="Stored at this time or earlier."),
    click.option("--key", help="Only messages with this key or unique key; of an index: entries of this key, with --topic."),
    click.option("--tag", help="Only messages with exactly these TAGS, and consume queue entries with their hash."),
)
_NAMES = ("topic", "queue_id", "queue_offset", "from_offset", "to_offset", "from_time", "to_time", "key", "tag")


def filter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--topic to --tag → `filters: Filters`. Raises UsageError for an invalid time."""

    @wraps(command)
    def with_filters(*arguments: Any, **options: Any) -> Any:
        return command(*arguments, filters=_filters({name: options.pop(name) for name in _NAMES}), **options)

    for option in reversed(_OPTIONS):
        with_filters = option(with_filters)
    return with_filters


def _filters(wanted: dict[str, Any]) -> Filters:
    from rmqstore.dump.request import Filters, parse_time

    times = {name: parse_time(wanted[name]) for name in _TIMES if wanted[name] is not None}
    return Filters(**{**wanted, **times})
