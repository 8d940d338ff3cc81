"""Tiered storage of a store: its metadata, and the segments that the POSIX provider keeps in files (fact sheet queues §10).

Segments are `<tieredStoreFilePath>/<cluster>/<broker>/<topic>/<queueId>/<type>/<file>`. The metadata decides which of them a broker reads:
of the last segment of a list up to the end of its file, of the others as many bytes as the metadata says. The list of index segments is
kept as that of a queue of the topic rmq_sys_INDEX.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmqstore.formats.tiered_names import SegmentType, base_offset_of, cluster_directory, segment_name
from rmqstore.store.mapped import MappedFile, list_directory
from rmqstore.store.parts import PartKind
from rmqstore.store.root import Store

METADATA = "tieredStoreMetadata.json"
INDEX_TOPIC = "rmq_sys_INDEX"
TABLES: Mapping[SegmentType, str] = {
    SegmentType.COMMIT_LOG: "commitLogFileSegmentTable",
    SegmentType.CONSUME_QUEUE: "consumeQueueFileSegmentTable",
    SegmentType.INDEX: "indexFileSegmentTable",
}
"""The tables of segments in the metadata: path of a list, base offset as text, segment."""
TOPICS, QUEUES, SERIAL = "topicMetadataTable", "queueMetadataTable", "topicSerialNumber"
_PLUG_IN = "TieredMessageStore"
_DELETED = 2

ListKey = tuple[str, SegmentType]
"""The path `broker/topic/queueId` and the type of a list of segments."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment as the metadata describes it: offset of its first byte, bytes, and store times (ms) of its first and last record."""

    base_offset: int
    size: int
    begin_timestamp: int
    end_timestamp: int

    @property
    def end(self) -> int:
        """Return the offset after the last byte."""
        return self.base_offset + self.size


@dataclass(frozen=True)
class TieredMetadata:
    """The content of tieredStoreMetadata.json: number per topic, queues with an entry, and the segments of each list by base offset.

    `deleted`: path, type and base offset of the segments that 5.1.x marked as deleted, and does not read.
    """

    topics: Mapping[str, int]
    queues: frozenset[tuple[str, int]]
    lists: Mapping[ListKey, tuple[Segment, ...]]
    serial: int
    deleted: frozenset[tuple[str, SegmentType, int]] = frozenset()

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> TieredMetadata:
        """Return the content of the parsed file. Raises ValueError with the reason where a broker would not find what it needs."""
        try:
            topics = {str(topic): int(one["topicId"]) for topic, one in value.get(TOPICS, {}).items()}
            queues = {(str(topic), int(number)) for topic, table in value.get(QUEUES, {}).items() for number in table}
            lists: dict[ListKey, tuple[Segment, ...]] = {}
            deleted: set[tuple[str, SegmentType, int]] = set()
            for kind, name in TABLES.items():
                for path, table in value.get(name, {}).items():
                    deleted |= {(str(path), kind, int(one["baseOffset"])) for one in table.values() if one.get("status") == _DELETED}
                    segments = (
                        Segment(int(one["baseOffset"]), int(one["size"]), int(one["beginTimestamp"]), int(one["endTimestamp"]))
                        for one in table.values()
                        if one.get("status") != _DELETED
                    )
                    lists[str(path), kind] = tuple(sorted(segments, key=lambda one: one.base_offset))
            return cls(topics, frozenset(queues), lists, int(value.get(SERIAL, 0)), frozenset(deleted))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"a table does not have the form of the broker's: {type(error).__name__} {error}") from error


@dataclass(frozen=True)
class SegmentFiles:
    """The segment files of one cluster. `odd`: files whose names no segment has, relative to `directory`."""

    directory: Path
    lists: Mapping[ListKey, tuple[MappedFile, ...]]
    odd: tuple[str, ...] = ()

    def path_of(self, key: ListKey, base_offset: int) -> Path:
        """Return the file of a segment, whether or not it exists."""
        path, kind = key
        return self.directory / path / kind.name / segment_name(base_offset)


def queue_of(path: str) -> tuple[str, str, int] | None:
    """Return broker, topic and queue id of the path of a list, None for another text. Names have no `/`."""
    parts = path.split("/")
    return (parts[0], parts[1], int(parts[2])) if len(parts) == 3 and parts[2].isdecimal() else None


def keeps_tiers(store: Store) -> bool:
    """Return whether a broker with these settings, this metadata or these index files uses tiered storage."""
    if _PLUG_IN in store.config.text("messageStorePlugIn") or store.path_of(PartKind.TIERED_INDEX).is_dir():
        return True
    return (store.config_path / METADATA).exists() or (store.config_path / f"{METADATA}.bak").exists()


def segments_directory(store: Store) -> Path | None:
    """Return `tieredStoreFilePath`, None if it is not in the settings: then nothing shows where segments are."""
    text = store.config.text("tieredStoreFilePath")
    return Path(text) if text else None


def segment_files(store: Store, directory: Path) -> SegmentFiles:
    """Return the segment files of a cluster below `tieredStoreFilePath`, by base offset. Lists directories. Raises UnreadableError.

    The cluster is `brokerClusterName` if that is set, or else the only one there is. Of several brokers only `brokerName` if that is set.
    """
    cluster = store.config.explicit("brokerClusterName")
    found = [entry.name for entry in list_directory(directory) if entry.is_dir()]
    name = cluster_directory(cluster or (found[0].partition("_")[2] if len(found) == 1 else store.config.text("brokerClusterName")))
    broker = store.config.explicit("brokerName")
    lists: dict[ListKey, tuple[MappedFile, ...]] = {}
    odd: list[str] = []
    for path, kind, place in _lists(directory / name):
        if broker and not path.startswith(f"{broker}/"):
            continue
        files = []
        for entry in list_directory(place):
            start = base_offset_of(entry.name)
            if start is None or not entry.is_file():
                odd.append(os.path.relpath(entry.path, directory / name))
            else:
                files.append(MappedFile(entry.path, start, entry.length, entry.stat().st_blocks * 512))
        lists[path, kind] = tuple(sorted(files, key=lambda file: file.start))
    return SegmentFiles(directory / name, lists, tuple(odd))


def _lists(cluster: Path) -> Iterator[tuple[str, SegmentType, Path]]:
    """Yield path, type and directory of each list of segments."""
    for broker in _directories(cluster):
        for topic in _directories(broker):
            for queue in _directories(topic):
                for kind in SegmentType:
                    if (queue / kind.name).is_dir():
                        yield f"{broker.name}/{topic.name}/{queue.name}", kind, queue / kind.name


def _directories(path: Path) -> Iterator[Path]:
    return (Path(entry.path) for entry in list_directory(path) if entry.is_dir())
