"""The broker releases that can have written a store: signs on disk, each with the releases it allows and with a weight.

Sources: fact sheet commit log §1.5, sheet of the newer releases §13, sheet timer §0, corrections of 2026-11 (other writers). A sign means
"was opened by at least"; a store that several releases wrote shows signs of all of them, so the range is about the release that
wrote last. Signs can contradict each other: the range is that of the releases that contradict the least.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rmqstore.errors import RmqstoreError
from rmqstore.formats import index
from rmqstore.formats import properties as names
from rmqstore.formats.checkpoint import FILE_SIZE, parse_checkpoint
from rmqstore.formats.record import MESSAGE_MAGIC_V2, Record
from rmqstore.formats.sysflag import SysFlag
from rmqstore.store.entries import exists, is_missing
from rmqstore.store.kinds.implementation import other_implementation
from rmqstore.store.mapped import list_directory
from rmqstore.store.root import Store
from rmqstore.store.window import read_whole
from rmqstore.versions import release_key

RELEASES = (
    *("4.3.0", "4.3.1", "4.3.2", "4.4.0", "4.5.0", "4.5.1", "4.5.2", "4.6.0", "4.6.1", "4.7.0", "4.7.1", "4.8.0"),
    *("4.9.0", "4.9.1", "4.9.2", "4.9.3", "4.9.4", "4.9.5", "4.9.6", "4.9.7", "4.9.8"),
    *(
        "5.0.0",
        "5.1.0",
        "5.1.1",
        "5.1.2",
        "5.1.3",
        "5.1.4",
        "5.2.0",
        "5.3.0",
        "5.3.1",
        "5.3.2",
        "5.3.3",
        "5.3.4",
        "5.4.0",
        "5.5.0",
        "5.5.1",
    ),
)
NO_OFFSET = -1
"""The values that brokers store for an unknown offset."""
_OF_A_ROOT = ("checkpoint", "lock")
_OFTEN_WRITTEN = "config/consumerOffset.json"
_LARGEST_CONFIG = 4 * 1024 * 1024
_OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
_ABSENT, _IN_RECORDS, _REWRITTEN = 1, 3, 3
"""Weights of signs: of what is missing, of records, of the form of files that a broker writes every few seconds. All others have 2."""
_LMQ_GARBAGE = 20  # bytes that 5.2.0 and 5.3.0 reserve for a property CRC and never fill


@dataclass(frozen=True, slots=True)
class Sign:
    """One observation: the writer is of `since` or later, and of `until` or earlier; None means no limit."""

    text: str
    since: str | None = None
    until: str | None = None
    weight: int = 2

    def allows(self, release: str) -> bool:
        """Return whether this release can have left the sign."""
        key = release_key(release)
        return (self.since is None or key >= release_key(self.since)) and (self.until is None or key <= release_key(self.until))


@dataclass(frozen=True, slots=True)
class WriterGuess:
    """The releases that fit, oldest and newest, and why. `contradicting` are signs that other, stronger ones overrule.

    `implementation`: what wrote the store, if it was no broker of Apache RocketMQ, with its sign.
    """

    lowest: str
    highest: str
    signs: tuple[Sign, ...]
    contradicting: tuple[Sign, ...] = ()
    implementation: str | None = None


def guess_writer(store: Store, sample: Sequence[tuple[Record, bytes]] = ()) -> WriterGuess:
    """Judge the store by its names, its small files and `sample`: decoded late records with their stored bytes.

    What is missing weighs less than what exists, and one record that only newer releases write more than any name.
    """
    evidence = _Evidence(store, sample)
    foreign = other_implementation(store)
    rules = [rule for rule in _RULES if foreign is None or rule is not _absence_signs]
    signs = [sign for rule in rules for sign in rule(evidence)]
    signs += _trailing_separator(evidence, _fitting(signs)[0])
    fitting = _fitting(signs)
    kept = tuple(sign for sign in signs if any(map(sign.allows, fitting)))
    contradicting = tuple(sign for sign in signs if sign not in kept)
    return WriterGuess(fitting[0], fitting[-1], kept, contradicting, foreign)


def _fitting(signs: Sequence[Sign]) -> list[str]:
    """Return the releases that contradict signs of the least weight, the oldest first; of several such ranges the newest."""
    against = {release: [sign for sign in signs if not sign.allows(release)] for release in RELEASES}
    weights = {release: sum(sign.weight for sign in found) for release, found in against.items()}
    newest = max((release for release in RELEASES if weights[release] == min(weights.values())), key=release_key)
    return [release for release in RELEASES if against[release] == against[newest]]


class _Evidence:
    """The evidence for the rules, each item read once."""

    def __init__(self, store: Store, sample: Sequence[tuple[Record, bytes]]) -> None:
        self.store = store
        self.sample = sample

    def has(self, relative: str) -> bool:
        return exists(self.store.root / relative)

    def text(self, relative: str) -> str:
        path = self.store.root / relative
        try:
            return read_whole(path, _LARGEST_CONFIG).decode("utf-8", "replace") if exists(path) else ""
        except RmqstoreError:
            return ""

    @cached_property
    def root_names(self) -> list[str]:
        return [entry.name for entry in list_directory(self.store.root)]

    @cached_property
    def topics(self) -> list[str]:
        tree = Path(self.store.root, "consumequeue")
        return [entry.name for entry in list_directory(tree)] if tree.is_dir() else []


# (path in the root, since) – the path exists only after a broker of at least that release used the store
_PATHS = (
    ("abort.bak", "5.0.0"),
    ("timerwheel", "5.0.0"),
    ("batchconsumequeue", "5.0.0"),
    ("epochFileCheckpoint", "5.0.0"),
    ("config/timercheck", "5.0.0"),
    ("config/consumerOrderInfo.json", "5.0.0"),
    ("config/messageRequestMode.json", "5.0.0"),
    ("config/topicQueueMapping.json", "5.0.0"),
    ("config/lmqConsumerOffset.json", "4.9.3"),
    ("compaction/position-checkpoint", "5.1.0"),
    ("config/tieredStoreMetadata.json", "5.1.0"),
    ("brokerIdentity", "5.1.1"),
    ("config/topics/CURRENT", "5.1.4"),
    ("config/transactionMetrics", "5.2.0"),
    ("consumequeue/CURRENT", "5.2.0"),
    ("config/users", "5.3.0"),
    ("config/acls", "5.3.0"),
    ("kvStore", "5.3.2"),
    ("config/rdb", "5.3.2"),
    ("config/metadata/CURRENT", "5.3.4"),
    ("rocksdbstore/CURRENT", "5.4.0"),
    ("consumequeue_rocksdb", "5.5.0"),
)

# (file, pattern in its text, what it is, since, until)
_TEXTS: tuple[tuple[str, str, str, str | None, str | None], ...] = (
    ("config/topics.json", r'"stateVersion"', "stateVersion in topics.json", "5.0.0", None),
    ("config/consumerOffset.json", r'"groupTopicMap"', "groupTopicMap in consumerOffset.json", "5.0.0", None),
    ("config/topics.json", r'"rmq_sys_wheel_timer"', "rmq_sys_wheel_timer in topics.json", "5.3.1", None),
    ("config/topics.json", r'"RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"', "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC in topics.json", "5.4.0", None),
    ("config/consumerOrderInfo.json", r'"orderedConsumptionLevel"', "orderedConsumptionLevel in consumerOrderInfo.json", "5.4.0", None),
    ("config/consumerOrderInfo.json", r'"orderInfoCount"', "orderInfoCount in consumerOrderInfo.json", "5.5.0", None),
    ("config/consumerOffset.json", r'"pullOffsetTable"', "pullOffsetTable in consumerOffset.json", "5.5.0", "5.5.0"),
    ("config/consumerOffset.json", r"\{\s*\n\s*[0-9]+:[0-9]+", "consumerOffset.json has one queue per line (fastjson2)", "5.4.0", None),
    ("config/consumerOffset.json", r"\{[0-9]+:[0-9]+", "consumerOffset.json has several queues in a line (fastjson 1)", None, "5.3.4"),
)


def _path_signs(evidence: _Evidence) -> Iterator[Sign]:
    for path, since in _PATHS:
        if evidence.has(path):
            yield Sign(f"{path} exists", since)
    if any(re.fullmatch(r"timerwheel\.[0-9]+", name) for name in evidence.root_names):
        yield Sign("timerwheel.<offset> (a snapshot of the timer wheel) exists", "5.3.4")


def _text_signs(evidence: _Evidence) -> Iterator[Sign]:
    for path, pattern, text, since, until in _TEXTS:
        if re.search(pattern, evidence.text(path)):
            yield Sign(text, since, until, _REWRITTEN if path == _OFTEN_WRITTEN else 2)
    if evidence.text("abort").strip():
        yield Sign("abort holds a process id", "5.0.0")


def _absence_signs(evidence: _Evidence) -> Iterator[Sign]:
    """Yield signs of what a later release creates in any case; only a whole root can show that it is missing."""
    if evidence.store.only is not None or not any(map(evidence.has, _OF_A_ROOT)):
        return
    if is_missing(evidence.store.root / "rocksdbstore/CURRENT"):
        yield Sign("rocksdbstore is missing, which later releases always create", None, "5.3.4", _ABSENT)
    if is_missing(evidence.store.root / "abort.bak") and not evidence.text("abort").strip():
        yield Sign("abort.bak is missing, which every 5.x leaves", None, "4.9.8", _ABSENT)


def _checkpoint_signs(evidence: _Evidence) -> Iterator[Sign]:
    """Yield signs of a valid checkpoint; a damaged one has none."""
    try:
        data = read_whole(evidence.store.checkpoint_path, FILE_SIZE + 1)
    except RmqstoreError:
        return
    checkpoint = parse_checkpoint(data)
    if not _is_sound(evidence, checkpoint, len(data)):
        return
    for field, position, since in (
        ("master_flushed_offset", 24, "5.0.0"),
        ("confirm_phy_offset", 32, "5.1.1"),
        ("logics_physical_offset", 40, "5.5.0"),
    ):
        if checkpoint[field] not in (0, NO_OFFSET):
            yield Sign(f"checkpoint has {field} (byte {position})", since)


def _is_sound(evidence: _Evidence, checkpoint: Any, length: int) -> bool:
    """Return whether all fields are possible: times not after the last message, offsets within the log, zeros after them."""
    times = [checkpoint[name] for name in ("physic_msg_timestamp", "logics_msg_timestamp", "index_msg_timestamp")]
    offsets = [checkpoint[name] for name in ("master_flushed_offset", "confirm_phy_offset", "logics_physical_offset")]
    log = evidence.store.message_log
    last = max((record.store_timestamp for record, _ in evidence.sample), default=0)
    if length != FILE_SIZE or any(checkpoint.reserved) or not all(0 <= time <= (last or time) for time in times):
        return False
    return not log.files or all(NO_OFFSET <= offset <= log.max_offset for offset in offsets)


def _topic_signs(evidence: _Evidence) -> Iterator[Sign]:
    if any(re.fullmatch(r"%LMQ%\$.+\$.+", topic) for topic in evidence.topics):
        yield Sign("a queue of a lite topic (%LMQ%$parent$child) exists", "5.5.0")


def _index_signs(evidence: _Evidence) -> Iterator[Sign]:
    """Yield the sign of hashSlotCount: up to 4.7.0 it counts entries, later used slots, of `maxHashSlotNum` (fact sheet queues Q18)."""
    slots = evidence.store.config.integer("maxHashSlotNum")
    default_length = index.file_size(slots, evidence.store.config.integer("maxIndexNum"))
    for file in evidence.store.index_files():
        if not file.named_right or file.length != default_length:
            continue
        try:
            header = index.HEADER.parse(read_whole(file.path, index.HEADER_SIZE))
        except RmqstoreError:
            continue
        if slots < header.hash_slot_count == header.index_count - 1:
            yield Sign(f"hashSlotCount of index/{file.path.name} counts all items, as before 4.7.1", None, "4.7.0", _IN_RECORDS)
            return


def _record_signs(evidence: _Evidence) -> Iterator[Sign]:
    found: dict[str, Sign] = {}
    for record, data in evidence.sample:
        for text, since, until in _signs_of(record, data):
            found.setdefault(text, Sign(text, since, until, _IN_RECORDS))
    yield from found.values()


def _signs_of(record: Record, data: bytes) -> Iterator[tuple[str, str | None, str | None]]:
    if record.magic == MESSAGE_MAGIC_V2:
        yield "a record of version 2 (long topic)", "5.1.0", None
    if record.sys_flag & (SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6):
        yield "a record with an IPv6 host", "4.6.0", None
    if names.CRC32 in record.properties:
        yield "a record with a property CRC", "5.2.0", None
    if names.INNER_NUM in record.properties:
        yield "an inner batch", "5.0.0", None
    if "__LITE_TOPIC" in record.properties:
        yield "a record of a lite topic", "5.5.0", None
    if names.INNER_MULTI_DISPATCH in record.properties and data[-1] != 2 and data[-_LMQ_GARBAGE - 1] == 2:
        yield "an LMQ record ends with 20 bytes that were never filled", "5.2.0", "5.3.0"
    if record.topic == _OP_TOPIC and re.fullmatch(rb"([0-9]+,)+", record.body):
        yield "a transaction op message with a list of offsets", "5.1.0", None
    if record.topic == _OP_TOPIC and re.fullmatch(rb"[0-9]+", record.body):
        yield "a transaction op message with a single offset", None, "5.0.0"


def _trailing_separator(evidence: _Evidence, lowest: str) -> Iterator[Sign]:
    """Yield the sign of 0x02 at the end of a property block: up to 4.9.0 and from 5.2.0 on, never between (fact sheet commit log §2.6).

    From 5.2.0 on single blocks may lack it (records of old clients in a batch, unfilled bytes of LMQ records), so one block that has it
    decides.
    """
    ends = [data[-1] == 2 for record, data in evidence.sample if record.properties]
    if not ends:
        return
    if not any(ends):
        yield Sign("no property block ends with 0x02", "4.9.1", "5.1.4")
    elif release_key(lowest) >= release_key("4.9.1") or evidence.has("abort.bak"):
        yield Sign("property blocks end with 0x02", "5.2.0")
    elif evidence.store.only is None:
        yield Sign("property blocks end with 0x02 and nothing of 5.x exists", None, "4.9.0")
    else:
        yield Sign("property blocks end with 0x02, as up to 4.9.0 and from 5.2.0 on")


_RULES: tuple[Callable[[_Evidence], Iterator[Sign]], ...] = (
    _path_signs,
    _text_signs,
    _checkpoint_signs,
    _topic_signs,
    _index_signs,
    _record_signs,
    _absence_signs,
)
