"""Files of the configuration against their `.bak`: what no broker changes from one write to the next.

A broker writes a file, and its former text becomes the `.bak` (fact sheet timer §3.2). So the `.bak` is as old as the file or older, both
have the same content where they have the same version, and offsets do not go back but where a group is reset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rmqstore.findings import Finding, Severity
from rmqstore.store.liveness import liveness
from rmqstore.store.mapped import listing_once
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
    EndsOfQueues,
    State,
    StoredOffset,
    Text,
    in_rocksdb,
    offsets_of,
    read_both,
)
from rmqstore.verify.parts.confignames import alike

_WITH_VERSION = (TOPICS, GROUPS, "topicQueueMapping.json")
"""Files of which every change raises `dataVersion`."""
_WITH_NAMES = (*_WITH_VERSION, CONSUMER_OFFSETS, LMQ_OFFSETS, "consumerOrderInfo.json", "messageRequestMode.json")
"""Files of which no write removes an entry and adds one with a similar name."""
WITH_OFFSETS = (CONSUMER_OFFSETS, LMQ_OFFSETS, DELAY_OFFSETS)
_VERSION = ("counter", "timestamp")
_SHOWN = 40
"""Characters of a value at most."""


class GoneBack(NamedTuple):
    """An offset of the `.bak` and the smaller one of the file, 0 where it has none."""

    backup: StoredOffset
    offset: int

    @property
    def messages(self) -> int:
        """Return how many messages are delivered again."""
        return self.backup.offset - self.offset


def check(context: Context) -> Iterator[Finding]:
    """Yield findings about files that contradict their `.bak`; a running broker replaces both while they are read."""
    store = context.store
    if not store.covers(PartKind.CONFIG) or store.only is not None or liveness(store).in_use:
        return
    for name in _WITH_NAMES:
        path = store.config_path / name
        if not in_rocksdb(store) or name not in IN_ROCKSDB:
            yield from guarded(context, path, partial(_file, context, path))
    for name in WITH_OFFSETS:
        path = store.config_path / name
        yield from guarded(context, path, partial(_offsets, context, path))


def _offsets(context: Context, path: Path) -> Iterator[Finding]:
    yield from limited(context, path, map(partial(_gone_back, context), offsets_gone_back(context, (path.name,))))


def offsets_gone_back(context: Context, names: Iterable[str] = WITH_OFFSETS) -> Iterator[GoneBack]:
    """Yield the offsets of consumer groups and delay levels that are smaller than in the `.bak`. Raises UnreadableError.

    `names`: the files. An offset beyond the end of its queue is no witness: brokers set such a one back.
    """
    store = context.store
    if store.rocksdb_queues or liveness(store).in_use:
        return
    ends = EndsOfQueues(store)
    for name in names:
        path = store.config_path / name
        if name in IN_ROCKSDB and in_rocksdb(store):
            continue
        text, backup = read_both(path)
        smaller = list(_smaller(text, backup))
        if smaller and _is_changed(path, text, backup):
            continue
        for found in smaller:
            end = ends.end(found.backup.topic, found.backup.queue_id)
            if end is not None and found.backup.offset <= end:
                yield found


def _smaller(text: Text, backup: Text) -> Iterator[GoneBack]:
    if text.state is not State.WHOLE or backup.state is not State.WHOLE or text.value == backup.value:
        return
    now = {one.keys: one.offset for one in offsets_of(text)}
    for one in offsets_of(backup):
        offset = max(0, now.get(one.keys, 0))
        if offset < one.offset:
            yield GoneBack(one, offset)


def _gone_back(context: Context, found: GoneBack) -> Finding:
    backup, offset = found
    name = backup.path.name
    message = f"offset {offset} of {backup.owner} in {backup.topic}/{backup.queue_id} goes back: {name} has {backup.offset}"
    where = {"topic": backup.topic, "queue_id": backup.queue_id, "expected": backup.offset, "found": offset}
    finding = context.finding("RMQ-CF-DIFFERS", message, file=backup.path.with_suffix(""), **where)
    # An operator may have reset a group; nothing sets a delay level back.
    return finding if name.startswith(DELAY_OFFSETS) else replace(finding, severity=Severity.WARNING)


# Versions


def _file(context: Context, path: Path) -> Iterator[Finding]:
    text, backup = read_both(path)
    message = _contradiction(text, backup)
    if message is not None and not _is_changed(path, text, backup):
        yield context.finding("RMQ-CF-DIFFERS", message, file=path)


def _contradiction(text: Text, backup: Text) -> str | None:
    """Return how a file contradicts its `.bak`, None if it does not."""
    if text.state is not State.WHOLE or backup.state is not State.WHOLE or text.value == backup.value:
        return None
    name = text.path.name
    mine, other = _table(text, TABLES[name]), _table(backup, TABLES[name])
    damaged = _damaged_key(mine, other)
    if damaged is not None:
        return f"{name} has {damaged[0]}, and its .bak has {damaged[1]}: one of them is damaged"
    version, before = _version(text), _version(backup)
    if name not in _WITH_VERSION or version is None or before is None:
        return None
    if all(now < then for now, then in zip(version, before, strict=True)):
        return f"{name} has version {version[0]}, which is older than version {before[0]} of its .bak"
    found = [] if version != before else list(_different(mine, other))
    if not found:
        return None
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return f"{name} and its .bak have the same version, {version[0]}, but differ: {found[0]}{more}; one of them is damaged"


def _damaged_key(mine: Any, other: Any) -> tuple[str, str] | None:
    """Return a key that only the first of two tables has, and one like it that only the second has; None if there are none."""
    if not isinstance(mine, Mapping) or not isinstance(other, Mapping):
        return None
    gone = sorted(other.keys() - mine.keys())
    come = sorted(mine.keys() - other.keys()) if gone else []
    return next(((key, former) for former in gone for key in come if alike(key, former)), None)


def _version(text: Text) -> tuple[int, int] | None:
    version = (text.value or {}).get("dataVersion")
    values = [version.get(name) for name in _VERSION] if isinstance(version, dict) else []
    numbers = [value for value in values if type(value) is int]
    return (numbers[0], numbers[1]) if len(numbers) == len(_VERSION) else None


def _table(text: Text, name: str) -> Any:
    return (text.value or {}).get(name)


def _different(mine: Any, other: Any, path: str = "") -> Iterator[str]:
    """Yield what differs in members that both have, and entries that only the `.bak` has; another release adds and leaves out members."""
    if isinstance(mine, Mapping) and isinstance(other, Mapping):
        for key in other:
            where = f"{path}.{key}" if path else str(key)
            if key in mine:
                yield from _different(mine[key], other[key], where)
            elif not path:
                yield f"only the .bak has {where}"
    elif mine != other:
        yield f"{path} is {_short(mine)} and {_short(other)}"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _is_changed(path: Path, text: Text, backup: Text) -> bool:
    """Return whether a file or its `.bak` was replaced since they were read: by a broker that is not seen."""
    with listing_once(afresh=True):
        now, before = read_both(path)
    return now.value != text.value or before.value != backup.value
