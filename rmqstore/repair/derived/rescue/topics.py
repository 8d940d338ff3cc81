"""Topics and consumer groups that are not configured, from the queues, the log and other configuration files.

Values that nothing shows are defaults of a broker, and entries with them are guesses: permissions, order, queues without messages, and of
groups everything but the name (fact sheet timer §3.3, §9).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rmqstore.formats.naming import DLQ_PREFIX, RETRY_PREFIX, is_broker_group, is_broker_topic
from rmqstore.formats.sysflag import SysFlag
from rmqstore.repair.derived.rebuild import records_of
from rmqstore.repair.derived.rescue.sources import Rescued
from rmqstore.repair.log.future import FutureLog
from rmqstore.repair.plan.model import Origin
from rmqstore.scan.columns import Mark
from rmqstore.store.root import Store
from rmqstore.verify.parts import config
from rmqstore.verify.queues.spans import QueueKey

_SAMPLE = 64
"""Messages of a topic whose properties are read."""
_MAX_QUEUES = 1 << 16
_ORDERED, _REGION = "__SHARDINGKEY", "MSG_REGION"
_DELAYED = ("DELAY", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS", "TIMER_OUT_MS")


@dataclass(slots=True)
class Evidence:
    """Evidence of a topic: the number of its `queues`, where these are named, whether they are batch queues or compacted, and
    the `kinds` of the messages that were looked at."""

    queues: int = 0
    origins: set[Origin] = field(default_factory=set)
    batch: bool = False
    compacted: bool = False
    kinds: set[str] = field(default_factory=set)
    looked_at: int = 0

    @property
    def has_queues(self) -> bool:
        """Whether the topic has queues, or will have."""
        return not self.origins.isdisjoint((Origin.QUEUES, Origin.LOG))

    def saw(self, queue_id: int, origin: Origin) -> None:
        """Add a queue."""
        if 0 <= queue_id < _MAX_QUEUES:
            self.queues = max(self.queues, queue_id + 1)
        self.origins.add(origin)


@dataclass(frozen=True, slots=True)
class Known:
    """The topics of a store by name, without those of brokers; the names of groups; whether a client has sent messages to a broker.

    `active`: the groups that offsets or topics of retries and dead letters name.
    """

    topics: Mapping[str, Evidence]
    groups: frozenset[str]
    active: frozenset[str]
    sent_to_broker: bool


def known(store: Store, log: FutureLog | None, built: Iterable[QueueKey], texts: Mapping[str, config.Text]) -> Known:
    """Return what queues, those that will be `built`, the future `log` and configuration files name.

    The log, if it is given, is read. Raises UnreadableError, StoreChangedError.
    """
    topics: dict[str, Evidence] = {}

    def of(topic: str) -> Evidence:
        return topics.setdefault(topic, Evidence())

    for queue in store.queue_directories():
        of(queue.topic).saw(queue.queue_id, Origin.QUEUES)
    for queue in store.batch_queue_directories():
        of(queue.topic).saw(queue.queue_id, Origin.QUEUES)
        topics[queue.topic].batch = True
    for topic, queue_id in built:
        of(topic).saw(queue_id, Origin.LOG)
    for queue in store.compaction_log_directories():
        of(queue.topic).saw(queue.queue_id, Origin.QUEUES)
        topics[queue.topic].compacted = True
    groups, active = set(), set()
    for topic, queue_id, group in _named(texts):
        groups.add(group)
        if topic:
            active.add(group)
            of(topic).saw(queue_id, Origin.CONFIGURATION)
    sent = log is not None and _look_at_log(store, log, topics)
    active |= {group for topic in topics for group in _groups_of(topic, groups, topics)}
    groups |= active
    users = {topic: one for topic, one in topics.items() if not is_broker_topic(topic)}
    of_users = frozenset(group for group in groups if group and not is_broker_group(group))
    return Known(users, of_users, frozenset(active & of_users), sent)


def _named(texts: Mapping[str, config.Text]) -> Iterator[tuple[str, int, str]]:
    """Yield (topic, queue id or -1, group) as configuration files name them."""
    for name in (config.CONSUMER_OFFSETS, config.LMQ_OFFSETS, "consumerOrderInfo.json"):
        for key, queues in config.table_of(texts[name]).items():
            topic, _, group = key.partition("@")
            for queue in queues if isinstance(queues, dict) and queues else ("-1",):
                yield topic, int(queue) if queue.isdecimal() else -1, group
    for topic, mapping in config.table_of(texts["topicQueueMapping.json"]).items():
        hosted = mapping.get("hostedQueues") if isinstance(mapping, dict) else None
        for queue in hosted if isinstance(hosted, dict) else ():
            yield topic, int(queue) if queue.isdecimal() else -1, ""
    for topic, groups in config.table_of(texts["messageRequestMode.json"]).items():
        yield from ((topic, -1, group) for group in (groups if isinstance(groups, dict) else ()))
    for group in config.table_of(texts[config.GROUPS]):
        yield "", -1, group


def _groups_of(topic: str, groups: set[str], topics: Iterable[str]) -> Iterator[str]:
    """Yield the group that a topic of retries or dead letters belongs to; names of pop retries end with the topic."""
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if topic.startswith(prefix):
            rest = topic[len(prefix) :].split("+")[0]
            ends = [name for name in topics if rest.endswith(f"_{name}") and len(rest) > len(name) + 1]
            yield rest[: -len(max(ends, key=len)) - 1] if ends and rest not in groups else rest


def _look_at_log(store: Store, log: FutureLog, topics: dict[str, Evidence]) -> bool:
    """Add what records say of topics; return whether any was sent to a broker. Topics without queues, which were deleted, are left out."""
    found, sent = records_of(store, log, keys=False), False
    for batch in found:
        numbers, rows = np.unique(batch.records["queue"], return_index=True)
        inner = (batch.records["marks"] & int(Mark.INNER_BATCH) != 0) & (batch.records["sys_flag"] & int(SysFlag.INNER_BATCH) != 0)
        batches = set(batch.records["queue"][inner].tolist())
        for number, row in zip(numbers.tolist(), rows.tolist(), strict=True):
            topic, queue_id = found.scanner.queue(number)
            if store.rocksdb_queues:
                topics.setdefault(topic, Evidence()).saw(queue_id, Origin.LOG)
            one = topics.get(topic)
            if one is None:
                continue
            one.batch |= number in batches
            if one.looked_at < _SAMPLE:
                for at in np.flatnonzero(batch.records["queue"][row:] == number)[: _SAMPLE - one.looked_at].tolist():
                    properties = batch.properties(row + at)
                    one.kinds.add(_kind(properties, int(batch.records["sys_flag"][row + at])))
                    one.looked_at += 1
                    sent |= _REGION in properties
    return sent


def _kind(properties: Mapping[str, str], sys_flag: int) -> str:
    if any(name in properties for name in _DELAYED):
        return "DELAY"
    if _ORDERED in properties:
        return "FIFO"
    return "TRANSACTION" if sys_flag & int(SysFlag.TRANSACTION_MASK) else "NORMAL"


def add_topic(rescued: Rescued, topic: str, one: Evidence, *, attributes: bool) -> None:
    """Add a topic, with what releases from 5.0.0 on keep of it if `attributes`."""
    queues = max(one.queues, 1)
    entry: dict[str, Any] = {
        "topicName": topic,
        "readQueueNums": queues,
        "writeQueueNums": queues,
        "perm": 6,
        "order": False,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
    }
    if attributes:
        entry["attributes"] = _attributes(topic, one)
    origin = next((origin for origin in (Origin.QUEUES, Origin.LOG) if origin in one.origins), Origin.CONFIGURATION)
    shown = "".join(f", {name}={value}" for name, value in entry.get("attributes", {}).items())
    why = f"queues 0 to {queues - 1}, the highest id seen{shown}; permissions and order are defaults"
    rescued.add(topic, entry, origin, why, guess=True)


def _attributes(topic: str, one: Evidence) -> dict[str, str]:
    attributes = {"queue.type": config.BATCH_QUEUE} if one.batch else {}
    if one.compacted:
        attributes["cleanup.policy"] = "COMPACTION"
    if one.kinds and one.kinds != {"NORMAL"} and not topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        attributes["message.type"] = "MIXED" if len(one.kinds) > 1 else next(iter(one.kinds))
    return attributes


def add_groups(rescued: Rescued, groups: Iterable[str]) -> None:
    """Add the groups that a file does not have, with the settings of a group that a broker creates automatically."""
    for group in sorted(groups):
        settings = {
            "groupName": group,
            "consumeEnable": True,
            "consumeFromMinEnable": True,
            "consumeBroadcastEnable": True,
            "retryQueueNums": 1,
            "retryMaxTimes": 16,
            "brokerId": 0,
            "whichBrokerWhenConsumeSlowly": 1,
            "notifyConsumerIdsChangedEnable": True,
        }
        rescued.add(group, settings, Origin.CONFIGURATION, "the name only; its settings are defaults", guess=True)
