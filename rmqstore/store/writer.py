"""Which broker releases can have written a store: signs on disk, each with the releases it allows.

Sources: fact sheet commit log §1.5, sheet of the newer releases §13, sheet timer §0. A sign says "was opened by at least"; a store that
lived through several releases shows signs of all of them, so the range is about the release that wrote last.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rmqstore.errors import RmqstoreError
from rmqstore.formats import properties as names
from rmqstore.formats.checkpoint import parse_checkpoint
from rmqstore.formats.record import MESSAGE_MAGIC_V2, Record
from rmqstore.store.entries import exists, is_missing
from rmqstore.store.mapped import list_directory
from rmqstore.store.root import Store
from rmqstore.store.window import read_whole
from rmqstore.versions import release_key

RELEASES = (
    *("4.5.0", "4.6.0", "4.7.0", "4.8.0", "4.9.0", "4.9.1", "4.9.2", "4.9.3", "4.9.4", "4.9.5", "4.9.6", "4.9.7", "4.9.8"),
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
_LARGEST_CONFIG = 4 * 1024 * 1024
_OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
_LMQ_GARBAGE = 20  # bytes that 5.2.0 and 5.3.0 reserve for a property CRC and never fill


@dataclass(frozen=True, slots=True)
class Sign:
    """One observation: the writer is of `since` or later, and of `until` or earlier; None where it says nothing."""

    text: str
    since: str | None = None
    until: str | None = None


@dataclass(frozen=True, slots=True)
class WriterGuess:
    """The releases that fit, oldest and newest, and why. `contradicting` are signs that other, stronger ones overrule."""

    lowest: str
    highest: str
    signs: tuple[Sign, ...]
    contradicting: tuple[Sign, ...] = ()

    def admits(self, release: str) -> bool:
        """Whether `release` lies in the range."""
        return release_key(self.lowest) <= release_key(release) <= release_key(self.highest)


def guess_writer(store: Store, sample: Sequence[tuple[Record, bytes]] = ()) -> WriterGuess:
    """Judge the store by its names, its small files and `sample`: decoded late records with their stored bytes.

    Signs for a lower bound never vanish by themselves, so they win over signs that rest on something being absent.
    """
    evidence = _Evidence(store, sample)
    signs = [sign for rule in _RULES for sign in rule(evidence)]
    lowest = _newest([sign.since for sign in signs], RELEASES[0])
    signs += _trailing_separator(evidence, lowest)
    lowest = _newest([sign.since for sign in signs], RELEASES[0])
    kept: list[Sign] = []
    contradicting: list[Sign] = []
    for sign in signs:
        overruled = sign.until is not None and release_key(sign.until) < release_key(lowest)
        (contradicting if overruled else kept).append(sign)
    highest = min((sign.until for sign in kept if sign.until is not None), key=release_key, default=RELEASES[-1])
    return WriterGuess(_newest([sign.since for sign in kept], RELEASES[0]), highest, tuple(kept), tuple(contradicting))


def _newest(releases: Sequence[str | None], default: str) -> str:
    return max((release for release in releases if release is not None), key=release_key, default=default)


class _Evidence:
    """What the rules look at, each thing read once."""

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


# (path in the root, since) – the path exists only after a broker of at least that release was there
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
            yield Sign(text, since, until)
    if evidence.text("abort").strip():
        yield Sign("abort holds a process id", "5.0.0")


def _absence_signs(evidence: _Evidence) -> Iterator[Sign]:
    """What a later release creates in any case; only a whole root can show that it is missing."""
    if evidence.store.only is not None or not evidence.has("checkpoint"):
        return
    if is_missing(evidence.store.root / "rocksdbstore/CURRENT"):
        yield Sign("rocksdbstore is missing, which later releases always create", None, "5.3.4")
    if is_missing(evidence.store.root / "abort.bak") and not evidence.text("abort").strip():
        yield Sign("abort.bak is missing, which every 5.x leaves", None, "4.9.8")


def _checkpoint_signs(evidence: _Evidence) -> Iterator[Sign]:
    try:
        checkpoint = parse_checkpoint(read_whole(evidence.store.checkpoint_path, 4096))
    except RmqstoreError:
        return
    for field, position, since in (
        ("master_flushed_offset", 24, "5.0.0"),
        ("confirm_phy_offset", 32, "5.1.1"),
        ("logics_physical_offset", 40, "5.5.0"),
    ):
        if checkpoint[field] != 0:
            yield Sign(f"checkpoint has {field} (byte {position})", since)


def _topic_signs(evidence: _Evidence) -> Iterator[Sign]:
    if any(re.fullmatch(r"%LMQ%\$.+\$.+", topic) for topic in evidence.topics):
        yield Sign("a queue of a lite topic (%LMQ%$parent$child) exists", "5.5.0")


def _record_signs(evidence: _Evidence) -> Iterator[Sign]:
    found: dict[str, Sign] = {}
    for record, data in evidence.sample:
        for text, since, until in _signs_of(record, data):
            found.setdefault(text, Sign(text, since, until))
    yield from found.values()


def _signs_of(record: Record, data: bytes) -> Iterator[tuple[str, str | None, str | None]]:
    if record.magic == MESSAGE_MAGIC_V2:
        yield "a record of version 2 (long topic)", "5.1.0", None
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
    """Up to 4.9.0 and from 5.2.0 on a property block ends with 0x02, between them never (fact sheet commit log §2.6).

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
        yield Sign("property blocks end with 0x02 and nothing of 5.x is there", None, "4.9.0")
    else:
        yield Sign("property blocks end with 0x02, as up to 4.9.0 and from 5.2.0 on")


_RULES: tuple[Callable[[_Evidence], Iterator[Sign]], ...] = (
    _path_signs,
    _text_signs,
    _checkpoint_signs,
    _topic_signs,
    _record_signs,
    _absence_signs,
)
