"""Rescue of configuration files: which files need it, what they get, and sentences on what stays unknown.

A file needs it if neither it nor its `.bak` can be read, or if both are missing although a broker has written them by now: a start fails
then, or begins with defaults and writes them down (fact sheet timer §3.4, timer observed §2). Of a file that is cut off, what is newer than
its `.bak` is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from rmqstore.formats.naming import is_broker_topic
from rmqstore.prediction.places import written_by_a_broker
from rmqstore.repair.derived.rescue.sources import ConfigCopy, Rescued, merged, restored
from rmqstore.repair.derived.rescue.topics import Known, add_groups, add_topic, known
from rmqstore.repair.log.future import FutureLog
from rmqstore.repair.plan.model import Origin
from rmqstore.store.rocksdb.configuration import DatabaseOfFile
from rmqstore.store.root import Store
from rmqstore.verify.parts import config
from rmqstore.verify.parts.config import CONSUMER_OFFSETS, DELAY_OFFSETS, GROUPS, LMQ_OFFSETS, TOPICS, State, Text
from rmqstore.verify.queues.spans import QueueKey
from rmqstore.wording import counted

BROKEN = frozenset({State.EMPTY, State.NOTHING, State.TABLELESS, State.DAMAGED})
Both = tuple[Text, Text]
_OFFSETS = (CONSUMER_OFFSETS, LMQ_OFFSETS)
_WRITTEN_WITH_OFFSETS = ("consumerFilter.json", "consumerOrderInfo.json")
"""Not delayOffset.json: a plan can create it for a broker that was killed before it wrote any of them."""
_UNKNOWN = {
    TOPICS: "Topics without queues are not known; permissions, order and the numbers of queues without messages are defaults.",
    GROUPS: "Of groups found in other places only the name is known: retry limits, switched off consumption and the like are defaults.",
    "topicQueueMapping.json": "Static topics that are not in it are served as plain ones, with other queue offsets than clients know.",
    "consumerFilter.json": "Consumers send their other filters again when they connect.",
    "consumerOrderInfo.json": "Messages that ordered pop consumers have not acknowledged may be delivered again.",
    "messageRequestMode.json": "Groups that are not in it use PULL.",
    "timermetrics": "The counts of pending timer messages begin at 0; nothing is delivered by them.",
    "transactionMetrics": "The counts of pending transactions begin at 0; nothing is checked by them.",
}
_OLDER = " Offsets of another copy can be older than the lost ones: what a group consumed since then is delivered to it again."
_NO_OFFSETS = (
    "a group without an offset starts at 0 where the queue still begins there, and gets its messages again; otherwise where the consumer "
    "asks to (ConsumeFromWhere), by default at the end, so that it skips what it had not consumed"
)


@dataclass(frozen=True)
class Rescue:
    """The files of a store that need a rescue: `found` of each its text and that of its `.bak`, `log` and `built` queues as they will be.

    Without a `log` only queues and configuration say what topics there are. `copies`: the configuration of other copies of the store.
    `databases`: those that a broker uses in the place of files, by the names of these, if one of them is damaged.
    """

    store: Store
    found: Mapping[str, Both]
    log: FutureLog | None
    built: Iterable[QueueKey] = ()
    attributes: bool = True
    copies: Sequence[ConfigCopy] = ()
    databases: Mapping[str, DatabaseOfFile] = field(default_factory=dict)
    results: dict[str, Rescued] = field(default_factory=dict)

    def run(self) -> dict[str, Rescued]:
        """Return what each of them gets, by name. Raises UnreadableError, StoreChangedError."""
        for name in config.TABLES:
            if name != DELAY_OFFSETS and not self._in_database(name):
                self._rescue(name)
        for topic in self._lost_topics():
            add_topic(self._of(TOPICS), topic, self.known.topics[topic], attributes=self.attributes)
        if GROUPS in self.results or (self._missing(GROUPS) and self._whole_broker and self.known.groups):
            add_groups(self._of(GROUPS), self.known.groups)
        if self._missing(CONSUMER_OFFSETS) and self._offsets_are_lost():
            self._of(CONSUMER_OFFSETS)
        return self.results

    def notes(self) -> Iterator[str]:
        """Yield sentences on each file, after `run`."""
        for name, rescued in self.results.items():
            counts = Counter(entry.why if not entry.guess else f"the {entry.origin} (guessed)" for entry in rescued.entries)
            entries = ", ".join(f"{count} from {source}" for source, count in counts.items()) or "no entries"
            unknown = self._unknown_offsets() if name in _OFFSETS else _UNKNOWN[name]
            older = _OLDER if name in _OFFSETS and any(entry.origin is Origin.COPY for entry in rescued.entries) else ""
            written = "leaves the store, and a broker writes a new one" if rescued.is_nothing else "is written from what is left"
            yield f"{self.store.relative(rescued.path)} {written}: {entries}. {unknown}{older}"

    def _of(self, name: str) -> Rescued:
        if name not in self.results:
            database = self.databases.get(name)
            self.results[name] = merged(self.store.config_path / name, self.copies, database)
            if State.WHOLE in (both.state for both in self.found[name]) if database is None else database.why is None:
                self.results[name].entries.clear()  # only what is added is of interest
        return self.results[name]

    def _rescue(self, name: str) -> None:
        """Take the readable parts of a broken file, unless nothing is newer than its whole `.bak`."""
        text, backup = self.found[name]
        broken = text.state in BROKEN or (text.state is State.MISSING and backup.state in BROKEN)
        if (broken and backup.state is not State.WHOLE) or name in self.databases:
            self._of(name)
        elif text.state is not State.WHOLE and backup.state is State.WHOLE:
            left = merged(text.path)
            newer = {entry.entry for entry in left.entries if entry.origin is not Origin.BACKUP}
            if any(left.table.get(key) != config.table_of(backup).get(key) for key in newer):
                self.results[name] = left

    def _missing(self, name: str) -> bool:
        text, backup = self.found[name]
        return text.state is State.MISSING and backup.state is State.MISSING and not self._in_database(name)

    def _in_database(self, name: str) -> bool:
        return name in config.IN_ROCKSDB and name not in self.databases and config.in_rocksdb(self.store)

    @cached_property
    def _whole_broker(self) -> bool:
        there = (text.state is not State.MISSING for name, both in self.found.items() if name != DELAY_OFFSETS for text in both)
        return written_by_a_broker(self.store) or any(there) or self.known.sent_to_broker

    @cached_property
    def known(self) -> Known:
        """Return what the rest of the store names, after `run`. Reads the log."""
        texts = {name: restored(*both) for name, both in self.found.items()}
        for name, rescued in self.results.items():
            texts[name] = Text(rescued.path, State.WHOLE, value=rescued.value)
        return known(self.store, self.log, self.built, texts)

    def _lost_topics(self) -> list[str]:
        """Return the topics that topics.json lacks: where it can be read, those with queues and with offsets of consumers."""
        if TOPICS in self.results or (self._missing(TOPICS) and self._whole_broker):
            return sorted(self.known.topics)
        text = restored(*self.found[TOPICS])
        if text.state is not State.WHOLE or self._in_database(TOPICS) or self.store.rocksdb_queues:
            return []
        table = config.table_of(text)
        offsets = (topic for name in _OFFSETS for topic in config.topics_of_offsets(restored(*self.found[name])))
        inside = {entry.get("topicName") for entry in table.values() if isinstance(entry, dict)}  # of an entry whose key is damaged
        lost = {topic for topic in offsets if topic not in table and topic not in inside and not is_broker_topic(topic)}
        return sorted(topic for topic in lost if topic in self.known.topics and self.known.topics[topic].has_queues) if lost else []

    def _offsets_are_lost(self) -> bool:
        other = self.found[LMQ_OFFSETS]
        if State.WHOLE in (other[0].state, other[1].state) or LMQ_OFFSETS in self.results:
            return False
        written = any(not self._missing(name) for name in _WRITTEN_WITH_OFFSETS)
        return self._whole_broker and (written or TOPICS in self.results)

    def _unknown_offsets(self) -> str:
        groups = self.known.groups
        kept = {key.partition("@")[2] for rescued in self.results.values() if rescued.path.name in _OFFSETS for key in rescued.table}
        return f"{counted(len(groups - kept), 'known group')} without an offset: {_NO_OFFSETS}."
