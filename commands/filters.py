"""Options that select messages, as filters."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from rmqstore.errors import UsageError

if TYPE_CHECKING:
    from rmqstore.dump.request import Filters

_TIMES = ("from_time", "to_time")
topic_option = click.option("--topic", metavar="TOPIC", help="Only this topic.")
queue_option = click.option("--queue", metavar="TOPIC/ID", help="Only this queue; ID alone: this queue id of any topic, or of --topic.")
_OPTIONS = (
    topic_option,
    queue_option,
    click.option("--queue-offset", type=int, metavar="N", help="Only this offset in the queue."),
    click.option("--from-offset", type=int, metavar="BYTES", help="From this physical offset on; inside a record: from the next one."),
    click.option("--to-offset", type=int, metavar="BYTES", help="Up to this physical offset, which is not included."),
    click.option("--from-time", metavar="TIME", help="Stored at this time or later: ISO 8601 (UTC unless it has an offset) or epoch ms."),
    click.option("--to-time", metavar="TIME", help="Stored at this time or earlier."),
    click.option("--key", help="Only messages with this key or unique key; of an index: entries of this key, with --topic."),
    click.option("--tag", help="Only messages with exactly these TAGS, and consume queue entries with their hash."),
)
_NAMES = ("topic", "queue", "queue_offset", "from_offset", "to_offset", "from_time", "to_time", "key", "tag")


def filter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--topic to --tag → `filters: Filters`. Raises UsageError for an invalid time or queue."""

    @wraps(command)
    def with_filters(*arguments: Any, **options: Any) -> Any:
        return command(*arguments, filters=_filters({name: options.pop(name) for name in _NAMES}), **options)

    for option in reversed(_OPTIONS):
        with_filters = option(with_filters)
    return with_filters


def _filters(wanted: dict[str, Any]) -> Filters:
    from rmqstore.dump.request import Filters, parse_time

    times = {name: parse_time(wanted[name]) for name in _TIMES if wanted[name] is not None}
    topic, queue_id = topic_and_queue(wanted["topic"], wanted.pop("queue"))
    return Filters(**{**wanted, **times, "topic": topic, "queue_id": queue_id})


def topic_and_queue(topic: str | None, queue: str | None) -> tuple[str | None, int | None]:
    """Return topic and queue id of --topic and --queue, None where any will do. Raises UsageError."""
    if queue is None:
        return topic, None
    named, queue_id = queue_of(queue)
    if named is not None and topic is not None and topic != named:
        raise UsageError(f"--topic {topic} and --queue {queue} name two topics.", "Leave one of them out.")
    return topic if named is None else named, queue_id


def queue_of(text: str) -> tuple[str | None, int]:
    """Return topic and queue id of TOPIC/ID, split at the last slash; the topic of an id alone is None. Raises UsageError."""
    named, slash, number = text.rpartition("/")
    if not number.isascii() or not number.isdigit() or (slash and not named):
        raise UsageError(f"{text!r} is no queue.", "Give --queue TOPIC/ID, for example TopicA/0, or the id alone.")
    return named if slash else None, int(number)
