"""Damaged names in whole JSON files of the configuration: JSON has no checksum, and brokers ignore members that they do not know.

Only what no writer explains is a finding: a name that differs in a byte or two from a known one that is missing, an entry that has
another name inside, a group that one part of the offsets names and the other does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rmqstore.findings import Finding
from rmqstore.store.parts import PartKind
from rmqstore.verify.context import Context
from rmqstore.verify.guard import guarded, limited
from rmqstore.verify.parts.config import (
    CONSUMER_OFFSETS,
    DELAY_OFFSETS,
    GROUPS,
    IN_ROCKSDB,
    LMQ_OFFSETS,
    TABLES,
    TOPICS,
    Text,
    in_rocksdb,
    in_use,
    read_both,
)

_DIFFERENT = 2
"""Characters in which a damaged name may differ."""


@dataclass(frozen=True, slots=True)
class _Names:
    """The members that releases write: of the file, and of an entry of its table; `own`: the one that repeats the key of the entry.

    `groups`: the keys of the table are topic@group.
    """

    file: frozenset[str]
    entry: frozenset[str] = frozenset()
    own: str = ""
    groups: bool = False


@dataclass(frozen=True, slots=True)
class DamagedName:
    """A sentence on a damaged name: `found`, and what is `right`, None where nothing shows it.

    `member`: of an entry with two names, the one that holds `found`, whose key is `right`, or is damaged itself.
    """

    message: str
    found: str = ""
    right: str | None = None
    member: str | None = None


_NAMES = {
    TOPICS: _Names(
        frozenset({"dataVersion"}),
        frozenset({"attributes", "order", "perm", "readQueueNums", "topicFilterType", "topicName", "topicSysFlag", "writeQueueNums"}),
        "topicName",
    ),
    GROUPS: _Names(
        frozenset({"dataVersion", "forbiddenTable"}),
        frozenset(
            {"attributes", "brokerId", "consumeBroadcastEnable", "consumeEnable", "consumeFromMinEnable", "consumeMessageOrderly"}
            | {"consumeTimeoutMinute", "groupName", "groupRetryPolicy", "groupSysFlag", "notifyConsumerIdsChangedEnable", "retryMaxTimes"}
            | {"retryQueueNums", "subscriptionDataSet", "whichBrokerWhenConsumeSlowly"}
        ),
        "groupName",
    ),
    CONSUMER_OFFSETS: _Names(frozenset({"dataVersion", "groupTopicMap"}), groups=True),
    DELAY_OFFSETS: _Names(frozenset({"dataVersion"})),
    LMQ_OFFSETS: _Names(frozenset({"dataVersion", "groupTopicMap", "lmqOffsetTable"}), groups=True),
    "topicQueueMapping.json": _Names(
        frozenset({"dataVersion"}),
        frozenset({"bname", "currIdMap", "dirty", "epoch", "hostedQueues", "scope", "topic", "totalQueues"}),
        "topic",
    ),
    "consumerFilter.json": _Names(frozenset(), frozenset({"groupFilterData", "topic"}), "topic"),
}
"""Fact sheet timer §3.3."""


def check(context: Context) -> Iterator[Finding]:
    """Yield findings about the names in the files that a start loads."""
    store = context.store
    if not store.covers(PartKind.CONFIG):
        return
    in_database = in_rocksdb(store)
    for name in _NAMES:
        if not in_database or name not in IN_ROCKSDB:
            path = store.config_path / name
            yield from guarded(context, path, partial(_findings, context, path))


def _findings(context: Context, path: Path) -> Iterator[Finding]:
    text = in_use(*read_both(path))
    damaged = damaged_names(text)
    if text.foreign is not None and not damaged:
        damaged.append(DamagedName(f"the byte at {text.foreign} is one that no broker writes"))
    found = (context.finding("RMQ-CF-NAME", f"{text.path.name}: {one.message}", file=text.path) for one in damaged)
    yield from limited(context, path, found)


def damaged_names(text: Text) -> list[DamagedName]:
    """Return the damaged names of a file that can be read, or of its `.bak`; none of a file without names that are known."""
    name = text.path.name.removesuffix(".bak")
    return [] if text.value is None or name not in _NAMES else list(_damaged(text.value, TABLES[name], _NAMES[name]))


def _damaged(value: Mapping[str, Any], table_name: str, known: _Names) -> Iterator[DamagedName]:
    yield from _misspelled("it", value, known.file | {table_name})
    table = value[table_name]
    for key, entry in table.items() if isinstance(table, dict) else ():
        if known.entry and isinstance(entry, dict):
            yield from _misspelled(key, entry, known.entry)
            own = entry.get(known.own)
            if isinstance(own, str) and own != key:
                yield DamagedName(f"the entry {key} has the {known.own} {own}", own, key, known.own)
    if known.groups:
        yield from map(DamagedName, _groups(value))


def _misspelled(owner: str, entry: Mapping[str, Any], known: frozenset[str]) -> Iterator[DamagedName]:
    for name in entry.keys() - known:
        missing = next((one for one in sorted(known - entry.keys()) if alike(one, name)), None)
        if missing is not None:
            yield DamagedName(f"{owner} has {name}, which brokers ignore, and no {missing}", name, missing)


def alike(name: str, other: str) -> bool:
    """Return whether two names differ in as few characters as a damage of one or two bytes changes."""
    return len(name) == len(other) and sum(a != b for a, b in zip(name, other, strict=True)) <= _DIFFERENT


def _groups(value: Mapping[str, Any]) -> Iterator[str]:
    """Yield entries of offsets without a group, and differences from the groups that 5.x lists, which it makes of these entries."""
    listed, offsets = value.get("groupTopicMap"), value.get(TABLES[CONSUMER_OFFSETS])
    if not isinstance(offsets, dict):
        return
    yield from (f"the entry {key} of the offsets names no group" for key in offsets if "@" not in key)
    if not isinstance(listed, dict):
        return
    named = {f"{topic}@{group}" for group, topics in listed.items() if isinstance(topics, list) for topic in topics}
    unlisted = sorted(key for key in offsets if key.count("@") == 1 and key not in named)
    # A list that lacks groups was made before they came; a name that is damaged is missing on one side and new on the other.
    for key in sorted(named - offsets.keys()) if unlisted else ():
        yield f"groupTopicMap lists {key}, which has no offsets, and not {unlisted[0]}, which has"
