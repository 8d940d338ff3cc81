"""The JSON files of the broker as it would judge them at load, and their data about queues against the queues."""

from __future__ import annotations

import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rmqstore.findings import Finding, Severity
from rmqstore.formats.naming import LMQ_PREFIX, SCHEDULE_TOPIC, SYSTEM_PREFIX
from rmqstore.store import fastjson
from rmqstore.store.ends import QueueEnds, batch_queue_ends, queue_ends
from rmqstore.store.entries import exists
from rmqstore.store.mapped import MappedFileQueue, list_directory, listing_once, once, unreadable
from rmqstore.store.obstacles import kind_of
from rmqstore.store.parts import PartKind
from rmqstore.store.rocksdb.configuration import DatabaseConfiguration, configuration_in_database
from rmqstore.store.root import Store
from rmqstore.store.window import read_if_file
from rmqstore.verify.context import Context, modified_ms
from rmqstore.verify.guard import guarded, limited

TOPICS = "topics.json"
CONSUMER_OFFSETS = "consumerOffset.json"
LMQ_OFFSETS = "lmqConsumerOffset.json"
DELAY_OFFSETS = "delayOffset.json"
FILES = (
    TOPICS,
    "topicQueueMapping.json",
    "subscriptionGroup.json",
    CONSUMER_OFFSETS,
    LMQ_OFFSETS,
    "consumerFilter.json",
    "consumerOrderInfo.json",
    DELAY_OFFSETS,
    "messageRequestMode.json",
    "tieredStoreMetadata.json",
    "timermetrics",
    "transactionMetrics",
)
GROUPS = "subscriptionGroup.json"
TABLES = {
    TOPICS: "topicConfigTable",
    "topicQueueMapping.json": "topicQueueMappingInfoMap",
    GROUPS: "subscriptionGroupTable",
    CONSUMER_OFFSETS: "offsetTable",
    LMQ_OFFSETS: "offsetTable",
    "consumerFilter.json": "filterDataByTopic",
    "consumerOrderInfo.json": "table",
    DELAY_OFFSETS: "offsetTable",
    "messageRequestMode.json": "messageRequestModeMap",
    "timermetrics": "timingCount",
    "transactionMetrics": "transactionCount",
}
"""The table that every release writes into a file, empty or not: brokers load nothing of a file without it (fact sheet timer §3.3)."""
NEVER_EMPTY = {TOPICS: "topic", GROUPS: "group"}
"""Files in which each broker has topics or groups of its own, SELF_TEST_TOPIC and TOOLS_CONSUMER among them, and what they contain."""
_LASTING = frozenset({TOPICS, "topicQueueMapping.json", GROUPS, CONSUMER_OFFSETS, LMQ_OFFSETS, DELAY_OFFSETS})
"""Files whose contents clients do not send again."""
# Databases that replace topics.json, subscriptionGroup.json and consumerOffset.json (fact sheet timer §3.6).
ROCKSDB_DIRECTORIES = ("topics", "metadata", "rdb")
IN_ROCKSDB = frozenset({TOPICS, GROUPS, CONSUMER_OFFSETS, LMQ_OFFSETS})
BATCH_QUEUE = "BatchCQ"
_LARGEST = 512 << 20
_AGAIN, _PAUSE = 4, 0.005  # looks at a file that is missing or empty for a moment, seconds between them
_BEING_WRITTEN_MS = 2_000  # since a file became empty
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_OFFSETS, _LMQ_OFFSETS = "offsetTable", "lmqOffsetTable"


class State(Enum):
    """The result of a load."""

    MISSING = auto()
    EMPTY = auto()
    NOTHING = auto()  # parsed, but into nothing
    TABLELESS = auto()  # an object without its table, or with an empty one that no broker writes; no release reads the .bak then
    DAMAGED = auto()
    WHOLE = auto()


@dataclass(frozen=True, slots=True)
class Text:
    """A configuration file as a broker would read it; `why` is a text for the user, `value` the object of a whole file.

    `foreign`: position of the first byte that no broker writes, None if there is none. `in_database`: RocksDB has this, and `path` is the
    directory of its databases.
    """

    path: Path
    state: State
    why: str = ""
    value: Mapping[str, Any] | None = None
    foreign: int | None = None
    in_database: bool = False


class StoredOffset(NamedTuple):
    """A queue offset of the configuration: the file, the keys that lead to it, the owner that continues there, and the queue."""

    path: Path
    keys: tuple[str, ...]
    owner: str
    topic: str
    queue_id: int
    offset: int

    def within(self, end: int) -> int:
        """Return the nearest offset of a queue that ends at `end`."""
        return min(max(self.offset, 0), end)


def check(context: Context) -> Iterator[Finding]:
    """Yield findings about the files in `config`, which are read whole, and about the ends of the queues they name."""
    store = context.store
    directory = store.config_path
    if not store.covers(PartKind.CONFIG) or not directory.is_dir():
        return
    # What could not be read counts as missing for what follows, after it was reported.
    texts = {name: Text(directory / name, State.MISSING) for name in FILES}
    for name in FILES:
        yield from guarded(context, directory / name, partial(_file, context, name, texts))
    if store.only is not None:
        return
    if in_rocksdb(store):
        texts |= texts_in_database(store)
        yield from _of_database(context)
    yield from guarded(context, directory / TOPICS, partial(_missing_topics, context, texts))
    yield from guarded(context, directory / TOPICS, partial(_queue_types, context, texts))
    yield from guarded(context, directory / TOPICS, partial(_lost_topics, context, texts))
    if not store.rocksdb_queues or context.database_ends is not None:
        yield from guarded(context, directory / CONSUMER_OFFSETS, partial(_offsets, context, texts))


# The files


def read(path: Path) -> Text:
    """Return a configuration file as the broker of any release finds it, to all readers of a look the same. Raises UnreadableError."""
    return once(("configuration", path), lambda: _read(path))


def _read(path: Path) -> Text:
    """Read the file, again where a broker may be writing it: missing beside its `.tmp`, which it then renames, or just emptied."""
    text = _read_once(path)
    for _ in range(_AGAIN):
        replaced = text.state is State.MISSING and exists(path.with_name(path.name + ".tmp"))
        if not replaced and not (text.state is State.EMPTY and time.time() * 1000 - modified_ms(path) < _BEING_WRITTEN_MS):
            break
        time.sleep(_PAUSE)
        text = _read_once(path)
    return text


def _read_once(path: Path) -> Text:
    try:
        length = path.stat().st_size if path.is_file() else 0
    except OSError as error:
        raise unreadable(path, error) from error
    if length > _LARGEST:
        return Text(path, State.DAMAGED, f"{length} bytes long, more than {_LARGEST}, and was not read")
    data = read_if_file(path, _LARGEST)
    if data is None:
        return Text(path, State.MISSING, "missing")
    if not data:
        return Text(path, State.EMPTY, "empty")
    if fastjson.is_blank(data):
        return Text(path, State.NOTHING, "blank")
    if not data.strip(b"\0"):
        return Text(path, State.DAMAGED, f"nothing but {len(data)} zero bytes")
    try:
        parsed = fastjson.parse(data)
    except ValueError as error:
        return Text(path, State.DAMAGED, f"not readable ({error})")
    value = parsed.value
    if value is None or value == []:
        return Text(path, State.NOTHING, "null" if value is None else "an empty list")
    if not isinstance(value, dict):
        return Text(path, State.DAMAGED, "not an object")
    name = path.name.removesuffix(".bak")
    table = TABLES.get(name)
    if table is not None and table not in value:
        return Text(path, State.TABLELESS, f"without {table}")
    if name in NEVER_EMPTY and value[table] == {}:
        return Text(path, State.TABLELESS, f"without any {NEVER_EMPTY[name]}")
    return Text(path, State.WHOLE, "whole", value, _foreign(data, parsed.leniencies))


def _foreign(data: bytes, leniencies: frozenset[fastjson.Leniency]) -> int | None:
    """Return the position of the first byte that no broker writes: brokers write UTF-8, and control characters as escapes."""
    if fastjson.Leniency.MALFORMED_UTF8 in leniencies:
        return next((at for at, (one, other) in enumerate(zip(data, _as_utf8(data), strict=False)) if one != other), len(data))
    found = _CONTROL.search(data, len(data) - len(data.lstrip(b"\0")), len(data.rstrip(b"\0")))
    return None if found is None else found.start()


def _as_utf8(data: bytes) -> bytes:
    return data.decode("utf-8", "replace").encode()


def read_both(path: Path) -> tuple[Text, Text]:
    """Return a configuration file and its `.bak`. Raises UnreadableError."""
    return read(path), read(path.with_name(path.name + ".bak"))


def in_use(text: Text, backup: Text) -> Text:
    """Return what a start takes: the file, or its `.bak` where only that is whole."""
    return text if text.state in (State.WHOLE, State.TABLELESS) or backup.state is not State.WHOLE else backup


def _file(context: Context, name: str, texts: dict[str, Text]) -> Iterator[Finding]:
    path = context.store.config_path / name
    for candidate in (path, path.with_name(name + ".bak")):
        if os.path.lexists(candidate) and not candidate.is_file():
            kind = kind_of(candidate)
            yield context.finding("RMQ-ST-KIND", f"{candidate.name} is a {kind}, where a file should be", file=candidate, found=kind)
    text, backup = read_both(path)
    texts[name] = in_use(text, backup)
    beside = f"{backup.path.name} is {backup.why}"
    match text.state:
        case State.DAMAGED:
            yield context.finding("RMQ-CF-JSON", f"{name} is {text.why}; {beside}", file=path)
        case State.EMPTY | State.NOTHING:
            yield context.finding("RMQ-CF-EMPTY", f"{name} is {text.why}; {beside}", file=path)
        case State.TABLELESS:
            found = context.finding("RMQ-CF-EMPTY", f"{name} is {text.why}; {beside}", file=path)
            yield replace(found, severity=Severity.ERROR) if name in _LASTING else found  # no crash leaves that
        case State.MISSING if backup.state is not State.MISSING and not _elsewhere(context, name):
            yield context.finding("RMQ-CF-MISSING", f"{name} is missing; {beside}", file=path)
    if backup.state in (State.EMPTY, State.NOTHING, State.TABLELESS, State.DAMAGED):
        found = context.finding("RMQ-CF-BAK", f"{backup.path.name} is {backup.why}; {name} is {text.why}", file=backup.path)
        needed = backup.state is State.DAMAGED and text.state is State.MISSING and not _elsewhere(context, name)
        yield replace(found, severity=Severity.ERROR) if needed else found


def _elsewhere(context: Context, name: str) -> bool:
    """Return whether the content of a file is kept in RocksDB, or, for consumer offsets, in the file of the other mode."""
    directory = context.store.config_path
    other = {CONSUMER_OFFSETS: LMQ_OFFSETS, LMQ_OFFSETS: CONSUMER_OFFSETS}.get(name)
    return (name in IN_ROCKSDB and in_rocksdb(context.store)) or (other is not None and (directory / other).exists())


def in_rocksdb(store: Store) -> bool:
    """Return whether topics, groups and offsets are kept in RocksDB."""
    return any(exists(store.config_path / name / "CURRENT") for name in ROCKSDB_DIRECTORIES)


def texts_in_database(store: Store) -> dict[str, Text]:
    """Return topics, groups and consumer offsets of RocksDB as if they were in their JSON files; missing ones where that is not certain.

    From 5.3.1 on a start takes over a JSON file that is newer, so none may be there. Raises UnreadableError, OSError.
    """
    return once(("configuration in RocksDB", store.root), lambda: _texts_in_database(store))


def _texts_in_database(store: Store) -> dict[str, Text]:
    missing = Text(store.config_path, State.MISSING, "in RocksDB, and was not read", in_database=True)
    found = _database(store)
    texts = dict.fromkeys((TOPICS, GROUPS, CONSUMER_OFFSETS), missing) | {LMQ_OFFSETS: replace(missing, why="missing")}
    for name, value in ({} if found is None else found.objects).items():
        text = Text(store.config_path, State.WHOLE, "in RocksDB", value, in_database=True)
        files = [one for one in read_both(store.config_path / name) if one.state is State.WHOLE]
        if all(_changes(one) <= _changes(text) for one in files):
            texts[name] = text
    return texts


def _database(store: Store) -> DatabaseConfiguration | None:
    """Return the configuration in RocksDB, read once for all that use it."""
    return once(("databases of the configuration", store.root), lambda: configuration_in_database(store))


def _changes(text: Text) -> int:
    """Return the counter of the data version."""
    version = (text.value or {}).get("dataVersion")
    counter = version.get("counter") if isinstance(version, dict) else None
    return counter if isinstance(counter, int) else 0


def _of_database(context: Context) -> Iterator[Finding]:
    found = _database(context.store)
    if found is not None and found.others:
        message = f"{len(found.others)} of the entries of the configuration have a form that no broker writes: {found.others[0]}"
        yield context.finding("RMQ-RD-OTHER", message, file=context.store.config_path)


# Their data about queues


def _missing_topics(context: Context, texts: Mapping[str, Text]) -> Iterator[Finding]:
    path = context.store.config_path / TOPICS
    if texts[TOPICS].state is not State.MISSING or in_rocksdb(context.store):
        return
    # A message store alone writes delayOffset.json, only a whole broker writes the others, and with them topics.json.
    if all(text.state is State.MISSING for name, text in texts.items() if name != DELAY_OFFSETS):
        return
    topics = [entry.name for entry in list_directory(context.store.path_of(PartKind.CONSUMEQUEUE)) if entry.is_dir()]
    if topics and not context.store.rocksdb_queues:
        message = f"{TOPICS} and its .bak are missing, but there are queues of {len(topics)} topics"
        yield context.finding("RMQ-CF-MISSING", message, file=path)


def _queue_types(context: Context, texts: Mapping[str, Text]) -> Iterator[Finding]:
    """Yield findings on topics whose queues are where a start does not expect them; a lost topics.json makes every topic a simple one."""
    if in_rocksdb(context.store):
        return
    table = _table(texts[TOPICS], "topicConfigTable")
    if table is None and texts[TOPICS].state is not State.MISSING:
        return  # reported already; where both files are damaged a broker stops before it compares
    batch = {topic for topic, config in (table or {}).items() if _is_batch(config)}
    for kind in (PartKind.CONSUMEQUEUE, PartKind.BATCHCONSUMEQUEUE):
        if kind is PartKind.CONSUMEQUEUE and context.store.rocksdb_queues:
            continue
        for entry in list_directory(context.store.path_of(kind)):
            if entry.is_dir() and (entry.name in batch) != (kind is PartKind.BATCHCONSUMEQUEUE) and _has_queues(Path(entry.path)):
                expected = BATCH_QUEUE if entry.name in batch else "SimpleCQ"
                message = f"topic {entry.name} is configured as {expected}, but has queues in {kind.value}"
                found = "SimpleCQ" if kind is PartKind.CONSUMEQUEUE else BATCH_QUEUE
                yield context.finding("RMQ-CF-QUEUE-TYPE", message, file=Path(entry.path), topic=entry.name, expected=expected, found=found)


def _lost_topics(context: Context, texts: Mapping[str, Text]) -> Iterator[Finding]:
    """Yield findings on topics with queues that a whole topics.json lacks: cut out if they have consumers, else maybe deleted."""
    table = _table(texts[TOPICS], "topicConfigTable")
    # With configManagerVersion=v2, 5.3.3 keeps no topic that it created automatically: for retries, dead letters, a first message.
    if table is None or in_rocksdb(context.store) or context.store.rocksdb_queues:
        return
    consumed = {topic for name in (CONSUMER_OFFSETS, LMQ_OFFSETS) for topic in topics_of_offsets(texts[name])}
    for kind in (PartKind.CONSUMEQUEUE, PartKind.BATCHCONSUMEQUEUE):
        for entry in list_directory(context.store.path_of(kind)):
            if entry.name not in table and entry.is_dir() and not has_no_configuration(entry.name) and _has_queues(Path(entry.path)):
                known = entry.name in consumed
                offsets = "consumers have offsets of" if known else "no consumer has an offset of"
                message = f"{TOPICS} does not have topic {entry.name}, which has queues here, and which {offsets}"
                found = context.finding("RMQ-CF-LOST", message, file=context.store.config_path / TOPICS, topic=entry.name)
                yield found if known else replace(found, severity=Severity.WARNING)


def has_no_configuration(topic: str) -> bool:
    """Return whether brokers keep messages under this name without configuring it as a topic."""
    return topic == SCHEDULE_TOPIC or topic.startswith(LMQ_PREFIX) or topic.lower().startswith(SYSTEM_PREFIX)


def _is_batch(config: Any) -> bool:
    attributes = config.get("attributes") if isinstance(config, dict) else None
    return isinstance(attributes, dict) and attributes.get("queue.type") == BATCH_QUEUE


def _has_queues(topic: Path) -> bool:
    return any(entry.is_dir() and _is_number(entry.name) for entry in list_directory(topic))


def _table(text: Text, name: str) -> Mapping[str, Any] | None:
    """Return a table of a whole file, None where there is none."""
    table = None if text.value is None else text.value.get(name)
    return table if isinstance(table, dict) else None


def _offsets(context: Context, texts: Mapping[str, Text]) -> Iterator[Finding]:
    ends = EndsOfQueues(context.store, context.database_ends)

    def valid(topic: str, queue_id: int) -> range:
        end = ends.for_offsets(topic, queue_id) if context.options.wants_queue(topic, queue_id) else None
        return EVERY_OFFSET if end is None else range(end + 1)

    found = (finding for stored in stored_offsets(context.store, texts, valid) for finding in _offset(context, ends, stored))
    yield from limited(context, context.store.config_path / CONSUMER_OFFSETS, found)


_NO_OFFSET = range(0)
EVERY_OFFSET = range(-(1 << 63), 1 << 63)
Usual = Callable[[str, int], range]
"""(topic, queue id) → offsets of consumer groups that do not matter. A store may have millions, so they are not made into objects."""


def stored_offsets(store: Store, texts: Mapping[str, Text], usual: Usual = lambda topic, queue_id: _NO_OFFSET) -> Iterator[StoredOffset]:
    """Yield the queue offsets of consumer groups and of the delay levels, as a start takes them from the configuration `texts`.

    The `usual` offsets of groups are left out.
    """
    if (text := _loaded_offsets(store, texts)) is not None:
        yield from _consumer_offsets(text, usual)
    yield from _level_offsets(texts[DELAY_OFFSETS])


def offsets_of(text: Text) -> Iterator[StoredOffset]:
    """Yield all queue offsets in one file of consumer groups or delay levels, or in its `.bak`."""
    if text.path.name.startswith(DELAY_OFFSETS):
        yield from _level_offsets(text)
    else:
        yield from _consumer_offsets(text, lambda topic, queue_id: _NO_OFFSET)


def _level_offsets(text: Text) -> Iterator[StoredOffset]:
    for level, offset in (_table(text, _OFFSETS) or {}).items():
        if _is_number(level) and int(level) > 0 and _is_integer(offset):
            yield StoredOffset(text.path, (_OFFSETS, level), f"delay level {level}", SCHEDULE_TOPIC, int(level) - 1, offset)


def consumed_topics(store: Store, texts: Mapping[str, Text]) -> frozenset[str]:
    """Return the topics of which one of the `stored_offsets` is above 0."""
    found = {stored.topic for stored in stored_offsets(store, texts, lambda topic, queue_id: EVERY_OFFSET) if stored.offset > 0}
    text = _loaded_offsets(store, texts)
    for _, topic, _, offsets in () if text is None else _offsets_of_groups(text):
        if topic not in found and any(_is_integer(offset) and offset > 0 and _is_number(queue) for queue, offset in offsets.items()):
            found.add(topic)
    return frozenset(found)


def _offsets_of_groups(text: Text) -> Iterator[tuple[str, str, str, Mapping[str, Any]]]:
    """Yield the key, topic, group and offsets by queue id of each entry of consumerOffset.json."""
    for key, offsets in (_table(text, _OFFSETS) or {}).items():
        topic, at, group = key.partition("@")
        if at and "@" not in group and isinstance(offsets, dict):
            yield key, topic, group, offsets


def _consumer_offsets(text: Text, usual: Usual) -> Iterator[StoredOffset]:
    left_out: dict[str, dict[str, range]] = defaultdict(dict)
    for key, topic, group, offsets in _offsets_of_groups(text):
        ranges = left_out[topic]
        for queue, offset in offsets.items():
            if type(offset) is not int or offset in ranges.get(queue, _NO_OFFSET):
                continue
            if not _is_number(queue):
                continue
            if queue not in ranges:
                ranges[queue] = usual(topic, int(queue))
            if offset not in ranges[queue]:
                yield StoredOffset(text.path, (_OFFSETS, key, queue), f"group {group}", topic, int(queue), offset)
    for key, offset in (_table(text, _LMQ_OFFSETS) or {}).items():
        topic, at, group = key.partition("@")
        if at and _is_integer(offset):
            yield StoredOffset(text.path, (_LMQ_OFFSETS, key), f"group {group}", topic, 0, offset)


def _is_integer(value: Any) -> bool:
    return type(value) is int


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit()


def _loaded_offsets(store: Store, texts: Mapping[str, Text]) -> Text | None:
    """Return the consumer offsets that a start takes, None where RocksDB has them and `texts` are those of the files."""
    text = texts[_offsets_in_use(store, texts)]
    return text if text.in_database or not in_rocksdb(store) else None


def _offsets_in_use(store: Store, texts: Mapping[str, Text]) -> str:
    """Return which of two files is read: enableLmq decides; where it is not known, the newer one."""
    present = [name for name in (CONSUMER_OFFSETS, LMQ_OFFSETS) if texts[name].state is State.WHOLE]
    if store.config.explicit("enableLmq") is not None:
        return LMQ_OFFSETS if store.config.flag("enableLmq") else CONSUMER_OFFSETS
    return max(present, key=lambda name: modified_ms(texts[name].path), default=CONSUMER_OFFSETS)


def _offset(context: Context, ends: EndsOfQueues, stored: StoredOffset) -> Iterator[Finding]:
    topic, queue_id, offset = stored.topic, stored.queue_id, stored.offset
    end = ends.for_offsets(topic, queue_id) if context.options.wants_queue(topic, queue_id) else None
    if end is not None and offset > end:
        end = ends.listed_again(topic, queue_id)
    if end is None or 0 <= offset <= end:
        return
    where = f"beyond its end, {end}" if offset > end else "negative"
    message = f"offset {offset} of {stored.owner} in {topic}/{queue_id} is {where}"
    code = "RMQ-CF-LMQ-OFFSET" if topic.startswith(LMQ_PREFIX) else "RMQ-CF-OFFSET"
    expected = None if topic == SCHEDULE_TOPIC else stored.within(end)  # a level continues with what is still to be delivered
    yield context.finding(code, message, file=stored.path, topic=topic, queue_id=queue_id, expected=expected, found=offset)


_TREES: tuple[tuple[PartKind, Callable[[MappedFileQueue], QueueEnds]], ...] = (
    (PartKind.CONSUMEQUEUE, queue_ends),
    (PartKind.BATCHCONSUMEQUEUE, batch_queue_ends),
)


class EndsOfQueues:
    """The ends of the queues of a store. Each queue is read once, however many groups have an offset in it."""

    def __init__(self, store: Store, known: Mapping[tuple[str, int], int] | None = None) -> None:
        """`known`: the ends of queues in RocksDB."""
        self._store = store
        self._known = known or {}
        self._ends: dict[tuple[str, int], range | None] = {}
        self._listed_again: set[tuple[str, int]] = set()

    def end(self, topic: str, queue_id: int) -> int | None:
        """Return the offset after the last message of a queue, None for a queue without files. Raises UnreadableError."""
        offsets = self._offsets(topic, queue_id)
        return None if offsets is None else offsets.stop

    def begin(self, topic: str, queue_id: int) -> int | None:
        """Return the offset of the first entry of a queue, None for a queue without files. Raises UnreadableError."""
        offsets = self._offsets(topic, queue_id)
        return None if offsets is None else offsets.start

    def _offsets(self, topic: str, queue_id: int) -> range | None:
        key = topic, queue_id
        if key not in self._ends:
            self._ends[key] = self._read(topic, queue_id)
        return self._ends[key]

    def for_offsets(self, topic: str, queue_id: int) -> int | None:
        """Return the end of the queue that a stored offset is about, None where there is no queue to compare with.

        A delay level without a queue ends at 0: once it has one, a broker sets a larger offset to its end, and does not deliver what is
        there. Raises UnreadableError.
        """
        end = self.end(topic, queue_id)
        return 0 if end is None and topic == SCHEDULE_TOPIC else end

    def listed_again(self, topic: str, queue_id: int) -> int | None:
        """Return `for_offsets` for the files that exist now: a writer may have added some since this look listed them."""
        key = topic, queue_id
        if key not in self._listed_again:
            self._listed_again.add(key)
            self._ends.pop(key, None)
            with listing_once(afresh=True):
                return self.for_offsets(topic, queue_id)
        return self.for_offsets(topic, queue_id)

    def _read(self, topic: str, queue_id: int) -> range | None:
        if (topic, queue_id) in self._known:
            return range(self._known[topic, queue_id])
        if "/" in topic or "\0" in topic or topic in ("", ".", ".."):
            return None
        for kind, ends in _TREES:
            queue = MappedFileQueue.scan(self._store.path_of(kind) / topic / str(queue_id))
            if queue.files:
                found = ends(queue)
                return range(found.min_offset, found.max_offset)
        return None


def table_of(text: Text) -> Mapping[str, Any]:
    """Return the table of a whole file, empty where there is none."""
    return _table(text, TABLES[text.path.name.removesuffix(".bak")]) or {}


def topics_of_offsets(text: Text) -> Iterator[str]:
    """Yield the topic of every entry of a file of consumer offsets, also of entries without a valid offset."""
    for table in (_OFFSETS, _LMQ_OFFSETS):
        yield from (key.partition("@")[0] for key in _table(text, table) or {})


def keys_of_offsets(text: Text) -> Iterator[tuple[str, str]]:
    """Yield topic and group of every entry of a file of consumer offsets."""
    for table in (_OFFSETS, _LMQ_OFFSETS):
        for key in _table(text, table) or {}:
            topic, at, group = key.partition("@")
            if at and group:
                yield topic, group


def configured_topics(store: Store) -> frozenset[str] | None:
    """Return the topics of topics.json or its .bak, None where neither is whole. Raises UnreadableError."""
    table = _table(in_use(*read_both(store.config_path / TOPICS)), "topicConfigTable")
    return None if table is None else frozenset(table)
