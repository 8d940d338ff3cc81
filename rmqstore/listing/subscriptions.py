"""The consumer groups of a store as rows: what subscriptionGroup.json says of each, and in how many queues it has an offset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rmqstore.listing.configured import configuration, number
from rmqstore.listing.groups import group_of, offsets_of_groups
from rmqstore.store.root import Store
from rmqstore.verify.parts.config import GROUPS


@dataclass(frozen=True, slots=True)
class SubscriptionRow:
    """One consumer group: `offsets` is the number of queues that it has an offset in. What is not configured is None."""

    group: str
    configured: bool
    offsets: int
    consume_enable: bool | None = None
    consume_broadcast_enable: bool | None = None
    consume_message_orderly: bool | None = None
    retry_queues: int | None = None
    retry_max_times: int | None = None


def list_subscriptions(store: Store) -> Iterator[SubscriptionRow]:
    """Yield the consumer groups that are configured or have offsets, by name.

    Raises UnreadableError where RocksDB has groups or offsets that cannot be read, or where their file is damaged.
    """
    table = (configuration(store, GROUPS)[GROUPS].value or {}).get("subscriptionGroupTable")
    configured: Mapping[str, Any] = table if isinstance(table, dict) else {}
    offsets = Counter(map(group_of, offsets_of_groups(store)))
    for group in sorted({*configured, *offsets}):
        config = configured.get(group)
        if isinstance(config, dict):
            yield SubscriptionRow(
                group,
                True,
                offsets[group],
                _flag(config, "consumeEnable"),
                _flag(config, "consumeBroadcastEnable"),
                _flag(config, "consumeMessageOrderly"),
                number(config, "retryQueueNums"),
                number(config, "retryMaxTimes"),
            )
        else:
            yield SubscriptionRow(group, group in configured, offsets[group])


def _flag(config: Mapping[str, Any], name: str) -> bool | None:
    value = config.get(name)
    return value if isinstance(value, bool) else None
