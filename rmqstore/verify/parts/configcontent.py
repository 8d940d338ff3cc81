"""The content of topics, groups and consumer offsets, each against the others and the queues.

A broker refuses to pull from queue ids at or above `readQueueNums` (`PullMessageProcessor`), gives a group without a configuration the
default settings or refuses it (`autoCreateSubscriptionGroup`), and continues a group whose offset is before the first message at that one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from rmqstore.findings import Finding
from rmqstore.formats.naming import LMQ_PREFIX, SCHEDULE_TOPIC, is_broker_group, is_broker_topic
from rmqstore.store.mapped import list_directory
from rmqstore.store.parts import PartKind
from rmqstore.verify.context import Context
from rmqstore.verify.guard import Unmade, guarded, limited_unmade
from rmqstore.verify.parts.config import (
    CONSUMER_OFFSETS,
    DELAY_OFFSETS,
    EVERY_OFFSET,
    GROUPS,
    LMQ_OFFSETS,
    TOPICS,
    EndsOfQueues,
    Text,
    has_no_configuration,
    in_rocksdb,
    in_use,
    keys_of_offsets,
    read_both,
    stored_offsets,
    table_of,
)

_NAMES = (TOPICS, GROUPS, CONSUMER_OFFSETS, LMQ_OFFSETS, DELAY_OFFSETS)


def check(context: Context) -> Iterator[Finding]:
    """Yield findings about entries of the configuration that do not fit each other, or the queues."""
    store = context.store
    # RocksDB does not keep all topics and groups that a broker creates automatically.
    if store.only is not None or not store.config_path.is_dir() or in_rocksdb(store) or store.rocksdb_queues:
        return
    texts: dict[str, Text] = {}
    for name in _NAMES:
        yield from guarded(context, store.config_path / name, partial(_read, store.config_path / name, texts))
    if len(texts) < len(_NAMES):
        return
    topics, groups = table_of(texts[TOPICS]), table_of(texts[GROUPS])
    ends = EndsOfQueues(store)
    if topics:
        yield from guarded(context, store.config_path / TOPICS, partial(_queues, context, topics, ends))
        yield from guarded(context, store.config_path / CONSUMER_OFFSETS, partial(_topics, context, texts, topics))
    if groups:
        yield from guarded(context, store.config_path / GROUPS, partial(_groups, context, texts, groups))
    yield from guarded(context, store.config_path / CONSUMER_OFFSETS, partial(_expired, context, texts, ends))


def _read(path: Path, texts: dict[str, Text]) -> Iterator[Finding]:
    texts[path.name] = in_use(*read_both(path))
    yield from ()


def _queues_not_read(context: Context, topics: Mapping[str, Any], ends: EndsOfQueues) -> Iterator[tuple[str, int, int]]:
    """Yield (topic, readQueueNums, queue id) of each queue with messages that clients cannot pull from. Raises UnreadableError."""
    for kind in (PartKind.CONSUMEQUEUE, PartKind.BATCHCONSUMEQUEUE):
        for topic in list_directory(context.store.path_of(kind)):
            config = topics.get(topic.name)
            count = config.get("readQueueNums") if isinstance(config, dict) else None
            if type(count) is not int or has_no_configuration(topic.name) or not topic.is_dir():
                continue
            for queue in list_directory(Path(topic.path)):
                if queue.name.isascii() and queue.name.isdigit() and int(queue.name) >= count and ends.end(topic.name, int(queue.name)):
                    yield topic.name, count, int(queue.name)


def _queues(context: Context, topics: Mapping[str, Any], ends: EndsOfQueues) -> Iterator[Finding]:
    path = context.store.config_path / TOPICS
    found = (
        _unmade(
            context,
            "RMQ-CF-QUEUES",
            f"topic {topic} has {count} queues to read, but there are messages in queue {queue_id}, which no client can pull",
            file=path,
            topic=topic,
            queue_id=queue_id,
            expected=queue_id + 1,
            found=count,
        )
        for topic, count, queue_id in _queues_not_read(context, topics, ends)
        if context.options.wants_queue(topic, queue_id)
    )
    yield from limited_unmade(context, path, found)


def _unmade(context: Context, code: str, message: str, **fields: Any) -> Unmade:
    """Return a finding to be created if it is shown: of groups and offsets there can be millions."""
    return code, partial(context.finding, code, message, **fields)


def _topics(context: Context, texts: Mapping[str, Text], topics: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield findings on offsets of topics that are neither configured nor have queues."""
    trees = [context.store.path_of(kind) for kind in (PartKind.CONSUMEQUEUE, PartKind.BATCHCONSUMEQUEUE)]
    known = {entry.name for tree in trees for entry in list_directory(tree)} | topics.keys()
    named = {topic for name in (CONSUMER_OFFSETS, LMQ_OFFSETS) for topic, _ in keys_of_offsets(texts[name])}
    unknown = sorted(topic for topic in named - known if not has_no_configuration(topic) and not is_broker_topic(topic))
    path = context.store.config_path / CONSUMER_OFFSETS
    message = "groups have offsets in topic {}, which is not configured and has no queue"
    yield from limited_unmade(
        context, path, (_unmade(context, "RMQ-CF-TOPIC", message.format(one), file=path, topic=one) for one in unknown)
    )


def _groups(context: Context, texts: Mapping[str, Text], groups: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield findings on groups that have offsets and no configuration."""
    path = context.store.config_path / GROUPS
    named = {group for name in (CONSUMER_OFFSETS, LMQ_OFFSETS) for _, group in keys_of_offsets(texts[name])}
    missing = sorted(group for group in named - groups.keys() if not is_broker_group(group) and not group.startswith(LMQ_PREFIX))
    message = "group {} has offsets, but no configuration"
    yield from limited_unmade(
        context, path, (_unmade(context, "RMQ-CF-GROUP", message.format(one), file=path, found=one) for one in missing)
    )


def _expired(context: Context, texts: Mapping[str, Text], ends: EndsOfQueues) -> Iterator[Finding]:
    """Yield findings on groups whose next message is no longer in the queue."""

    def usual(topic: str, queue_id: int) -> range:
        begin = ends.begin(topic, queue_id) if context.options.wants_queue(topic, queue_id) else None
        return EVERY_OFFSET if not begin else range(begin, EVERY_OFFSET.stop)

    path = context.store.config_path / CONSUMER_OFFSETS
    found = (
        _unmade(
            context,
            "RMQ-CF-EXPIRED",
            f"offset {one.offset} of {one.owner} in {one.topic}/{one.queue_id} is before the first message",
            file=one.path,
            topic=one.topic,
            queue_id=one.queue_id,
            expected=ends.begin(one.topic, one.queue_id),
            found=one.offset,
        )
        for one in stored_offsets(context.store, texts, usual)
        if one.topic != SCHEDULE_TOPIC and not one.topic.startswith(LMQ_PREFIX) and one.offset >= 0
    )
    yield from limited_unmade(context, path, found)
