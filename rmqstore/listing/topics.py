"""The topics of a store as rows: what is configured, and what the queues hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rmqstore.listing.configured import configuration, number
from rmqstore.listing.queues import list_queues
from rmqstore.store.root import Store
from rmqstore.verify.parts.config import TOPICS

_MESSAGE_TYPE = "message.type"
_PERMISSIONS = ((4, "r"), (2, "w"), (1, "x"))


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One topic: `queues` are those with files, read and write queues those of topics.json; `messages` are entries of the queues.

    `permissions`: of `r` read, `w` write, `x` inherit, those that are given. What is not configured is None.
    """

    topic: str
    configured: bool
    queues: int
    messages: int
    read_queues: int | None = None
    write_queues: int | None = None
    permissions: str | None = None
    message_type: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the object that JSON output shows (docs/json.md)."""
        return {"type": "topic", **asdict(self)}


def list_topics(store: Store) -> Iterator[TopicRow]:
    """Yield the topics that are configured or have queues, by name.

    Raises UnreadableError where RocksDB has the topics or the queues, or where topics.json is damaged.
    """
    value = configuration(store, TOPICS)[TOPICS].value or {}
    table = value.get("topicConfigTable")
    configured: Mapping[str, Any] = table if isinstance(table, dict) else {}
    queues: dict[str, int] = {}
    messages: dict[str, int] = {}
    for queue in list_queues(store, times=False):
        queues[queue.topic] = queues.get(queue.topic, 0) + 1
        messages[queue.topic] = messages.get(queue.topic, 0) + (queue.entries or 0)
    for topic in sorted({*configured, *queues}):
        held = queues.get(topic, 0), messages.get(topic, 0)
        config = configured.get(topic)
        if isinstance(config, dict):
            yield TopicRow(
                topic, True, *held, number(config, "readQueueNums"), number(config, "writeQueueNums"), _permissions(config), _type(config)
            )
        else:
            yield TopicRow(topic, topic in configured, *held)


def _permissions(config: Mapping[str, Any]) -> str | None:
    perm = config.get("perm")
    return "".join(letter for bit, letter in _PERMISSIONS if perm & bit) or "none" if isinstance(perm, int) else None


def _type(config: Mapping[str, Any]) -> str | None:
    """Return the message type as it is stored: NORMAL, FIFO, DELAY, TRANSACTION or another."""
    attributes = config.get("attributes")
    value = attributes.get(_MESSAGE_TYPE) if isinstance(attributes, dict) else None
    return value if isinstance(value, str) else None
