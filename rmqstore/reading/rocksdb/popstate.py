"""The database `kvStore`: popped messages that a group has not acknowledged (5.3.2 and later, popConsumerKVServiceEnable).

Source: fact sheet queues §9.3. A broker removes the entry of a message that is acknowledged, and delivers the message again when the time
of its entry comes.
"""

from __future__ import annotations

from dataclasses import dataclass

from rmqstore.reading.rocksdb.databaseentries import POP_MESSAGE, decoded
from rmqstore.reading.rocksdb.messagedatabase import readable_database
from rmqstore.store.rocksdb.databases import DatabaseUse
from rmqstore.store.rocksdb.streams import pairs_of_database
from rmqstore.store.root import Store


@dataclass(frozen=True, slots=True)
class PoppedMessage:
    """A message of a queue, which `group` popped at `time` and gets again from `due` on (ms). `topic` may be a retry topic."""

    topic: str
    queue_id: int
    queue_offset: int
    group: str
    time: int
    due: int


@dataclass(frozen=True, slots=True)
class PopState:
    """The messages in the order of their `due`, how many entries have another form, and in how many key and value differ."""

    messages: tuple[PoppedMessage, ...]
    odd: int
    different: int


def pop_state(store: Store) -> PopState | None:
    """Return the popped messages, None without any, and where a broker uses the database or the library cannot read it.

    Raises UnreadableError if the library fails, OSError.
    """
    database = readable_database(store, DatabaseUse.POP)
    if database is None:
        return None
    messages: list[PoppedMessage] = []
    odd = different = 0
    for _, pair in pairs_of_database(database):
        if pair is None:
            continue
        entry = decoded(database.use, "popState", *pair)
        if entry.kind != POP_MESSAGE or not _is_whole(entry.value):
            odd += 1
            continue
        key, value = entry.key, entry.value
        message = PoppedMessage(
            value["topicId"],
            value["queueId"],
            value["offset"],
            value["groupId"],
            value["popTime"],
            value["popTime"] + value["invisibleTime"],
        )
        of_key = key["topic"], key["queue_id"], key["queue_offset"], key["group"], key["visibility_timestamp"]
        different += of_key != (message.topic, message.queue_id, message.queue_offset, message.group, message.due)
        messages.append(message)
    return PopState(tuple(messages), odd, different)


def _is_whole(value: object) -> bool:
    numbers, texts = ("queueId", "offset", "popTime", "invisibleTime"), ("topicId", "groupId")
    return (
        isinstance(value, dict)
        and all(type(value.get(name)) is int for name in numbers)
        and all(isinstance(value.get(name), str) for name in texts)
    )
