"""Configuration that names topics, groups and queue offsets besides consumer offsets: static topics, ordered pops, filters, request modes.

Source: `TopicQueueMappingUtils.checkLogicQueueMappingItemOffset`, `ConsumerOrderInfoManager`; fact sheet timer §3.3, §3.7 (K12, K13).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import pairwise
from typing import Any

from rmqstore.findings import Finding
from rmqstore.formats.naming import LMQ_PREFIX, is_broker_group, is_broker_topic
from rmqstore.verify.context import Context
from rmqstore.verify.guard import Unmade, guarded, limited_unmade
from rmqstore.verify.parts.config import (
    GROUPS,
    TOPICS,
    EndsOfQueues,
    Text,
    has_no_configuration,
    in_rocksdb,
    in_use,
    read_both,
    table_of,
)

MAPPING, ORDER, FILTERS, MODES = "topicQueueMapping.json", "consumerOrderInfo.json", "consumerFilter.json", "messageRequestMode.json"
Table = Mapping[str, Any]


def check(context: Context) -> Iterator[Finding]:
    """Yield findings about entries of these files that do not fit topics, groups or queues. Reads each of them whole."""
    store = context.store
    if store.only is not None or not store.config_path.is_dir() or in_rocksdb(store) or store.rocksdb_queues:
        return
    for name, check_one in ((MAPPING, _mappings), (ORDER, _ordered), (FILTERS, _filters), (MODES, _modes)):
        yield from guarded(context, store.config_path / name, partial(_file, context, name, check_one))


def _file(context: Context, name: str, check_one: Any) -> Iterator[Finding]:
    texts = {one: in_use(*read_both(context.store.config_path / one)) for one in (name, TOPICS, GROUPS)}
    topics, groups = table_of(texts[TOPICS]), table_of(texts[GROUPS])
    if topics and groups:
        yield from limited_unmade(context, texts[name].path, check_one(context, texts[name], topics, groups))


# Static topics


def _mappings(context: Context, text: Text, topics: Table, _: Table) -> Iterator[Unmade]:
    for topic, mapping in table_of(text).items():
        config = topics.get(topic)
        if not isinstance(config, dict):
            yield _unmade(context, "RMQ-CF-MAPPING", text, f"{topic} is a static topic and not in {TOPICS}", topic=topic)
            continue
        hosted = mapping.get("hostedQueues") if isinstance(mapping, dict) else None
        if not isinstance(hosted, dict):
            yield _unmade(context, "RMQ-CF-MAPPING", text, f"the mapping of the static topic {topic} has no hostedQueues", topic=topic)
            continue
        for queue, items in hosted.items():
            why = _broken(queue, items, mapping, config)
            if why is not None:
                message = f"queue {queue} of the static topic {topic}: {why}"
                yield _unmade(context, "RMQ-CF-MAPPING", text, message, topic=topic, queue_id=int(queue) if _is_number(queue) else None)


def _broken(queue: Any, items: Any, mapping: Table, config: Table) -> str | None:
    """Return what is wrong with the places of one queue of a static topic, None if nothing is."""
    total, count = mapping.get("totalQueues"), config.get("writeQueueNums")
    if not isinstance(items, list) or not items or not all(isinstance(one, dict) for one in items):
        return "it has no place"
    if _is_number(queue) and type(total) is int and int(queue) >= total:
        return f"the topic has {total} queues"
    for one in items:
        start, end = one.get("startOffset"), one.get("endOffset")
        if type(start) is not int or type(end) is not int or start < 0 or (end >= 0 and end < start):
            return f"a place has the offsets {start} to {end}"
    for before, after in pairwise(items):
        if not _number(before, "gen") < _number(after, "gen"):
            return "the generations of its places do not rise"
        begin, length = _number(before, "logicOffset"), _number(before, "endOffset") - _number(before, "startOffset")
        if begin < 0 or (_number(after, "logicOffset") >= 0 and begin + max(length, 0) > _number(after, "logicOffset")):
            return "the offsets of its places overlap"
    last = items[-1]
    if last.get("bname") == mapping.get("bname") and type(count) is int and _number(last, "queueId") >= count:
        return f"its messages are in queue {last.get('queueId')}, and the topic has {count} queues to write"
    return None


def _number(item: Table, name: str) -> int:
    value = item.get(name)
    return value if type(value) is int else -1


# Names, and offsets of ordered pops


def _ordered(context: Context, text: Text, topics: Table, groups: Table) -> Iterator[Unmade]:
    ends = EndsOfQueues(context.store)
    for key, queues in table_of(text).items():
        topic, _, group = key.partition("@")
        yield from _unknown(context, text, topic, group, topics, groups)
        for queue, info in queues.items() if isinstance(queues, dict) else ():
            last = _last_popped(info)
            if last is None or not _is_number(queue) or not context.options.wants_queue(topic, int(queue)):
                continue
            end = ends.end(topic, int(queue))
            if end is not None and last >= end:
                end = ends.listed_again(topic, int(queue))
            if end is not None and last >= end:
                message = f"group {group} has popped the message at {last} of {topic}/{queue}, which ends at {end}"
                yield _unmade(context, "RMQ-CF-ORDER", text, message, topic=topic, queue_id=int(queue), expected=end, found=last)


def _last_popped(info: Any) -> int | None:
    """Return the largest queue offset of an entry: the first of its list is absolute, the others are relative to it."""
    offsets = info.get("o", info.get("offsetList")) if isinstance(info, dict) else None
    if not isinstance(offsets, list) or not offsets or not all(type(one) is int for one in offsets):
        return None
    return int(offsets[0] + max(offsets[1:], default=0))


def _filters(context: Context, text: Text, topics: Table, groups: Table) -> Iterator[Unmade]:
    for topic, of_topic in table_of(text).items():
        of_groups = of_topic.get("groupFilterData") if isinstance(of_topic, dict) else None
        for group in of_groups if isinstance(of_groups, dict) else ():
            yield from _unknown(context, text, topic, group, topics, groups)


def _modes(context: Context, text: Text, topics: Table, groups: Table) -> Iterator[Unmade]:
    for topic, of_topic in table_of(text).items():
        for group in of_topic if isinstance(of_topic, dict) else ():
            yield from _unknown(context, text, topic, group, topics, groups)


def _unknown(context: Context, text: Text, topic: str, group: str, topics: Table, groups: Table) -> Iterator[Unmade]:
    """Yield findings on a topic or a group that is not configured."""
    if topic not in topics and not has_no_configuration(topic) and not is_broker_topic(topic):
        yield _unmade(
            context, "RMQ-CF-ORPHAN", text, f"an entry of group {group} is about topic {topic}, which does not exist", topic=topic
        )
    elif group not in groups and not is_broker_group(group) and not group.startswith(LMQ_PREFIX):
        yield _unmade(context, "RMQ-CF-ORPHAN", text, f"an entry for topic {topic} is of group {group}, which does not exist", topic=topic)


def _unmade(context: Context, code: str, text: Text, message: str, **fields: Any) -> Unmade:
    return code, partial(context.finding, code, message, file=text.path, **fields)


def _is_number(text: Any) -> bool:
    return str(text).isascii() and str(text).isdigit()
