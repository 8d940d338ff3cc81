"""Multi dispatch: the further queues that a record gets units in, and its queue offsets there.

Source: `MultiDispatch`, `MultiDispatchUtils`, `LmqDispatch`; fact sheet queues §2.12. The caller passes the differences of releases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rmqstore.formats.javahash import LONG_MAX, LONG_MIN, java_split, parse_java_integer
from rmqstore.formats.naming import LMQ_PREFIX
from rmqstore.formats.properties import INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET

LMQ_QUEUE_ID = 0


@dataclass(frozen=True, slots=True)
class Further:
    """A further queue of a record; `queue_offset` is None if the text is no number, which makes the dispatcher throw."""

    topic: str
    queue_id: int
    queue_offset: int | None
    offset_text: str


def fans_out(topic: str, properties: Mapping[str, str], excluded: tuple[str, ...]) -> bool:
    """Return whether a record gets units in further queues; topics that begin like `excluded` never do. Assumes enabled multi dispatch."""
    if topic.startswith(excluded):
        return False
    return all(properties.get(name, "").strip() for name in (INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET))


def further_queues(properties: Mapping[str, str], queue_id: int, *, enable_lmq: bool, skips_paths: bool) -> list[Further]:
    """Return the further queues of a record of queue `queue_id` that fans out, in the order in which they are written.

    `skips_paths`: the release skips names with a path separator.
    """
    topics = java_split(properties[INNER_MULTI_DISPATCH], ",")
    offsets = java_split(properties[INNER_MULTI_QUEUE_OFFSET], ",")
    if len(topics) != len(offsets):
        return []
    return [
        Further(topic, LMQ_QUEUE_ID if enable_lmq and is_lmq(topic) else queue_id, parse_java_integer(text, LONG_MIN, LONG_MAX), text)
        for topic, text in zip(topics, offsets, strict=True)
        if not (skips_paths and "/" in topic)
    ]


def is_lmq(topic: str) -> bool:
    """Return whether a queue name is one of a light message queue."""
    return topic.startswith(LMQ_PREFIX)
