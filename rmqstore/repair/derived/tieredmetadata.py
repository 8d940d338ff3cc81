"""Plan for the metadata of tiered storage: from the segment files, where tieredStoreMetadata.json cannot be read or is missing.

Without it a broker starts with no segments, and writes that down (fact sheet queues §10; `FlatAppendFile.recover`). Names of files give the
lists and base offsets, their lengths the sizes, the records the times. The number of a topic is in no segment of its own: index entries
have it, beside the hash of a key of a message, which shows the topic.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from rmqstore.formats.consumequeue import UNIT_SIZE
from rmqstore.formats.index import message_keys
from rmqstore.formats.javahash import index_key_hash
from rmqstore.formats.tiered_names import SegmentType
from rmqstore.reading.records import record_at
from rmqstore.reading.tieredindex import tiered_index_of
from rmqstore.reading.tieredstore import (
    METADATA,
    QUEUES,
    SERIAL,
    TABLES,
    TOPICS,
    ListKey,
    keeps_tiers,
    queue_of,
    segments_directory,
)
from rmqstore.repair.plan.builder import PlanBuilder
from rmqstore.repair.plan.model import ConfigEntry, Origin
from rmqstore.scan.walk import LogScanner
from rmqstore.store.mapped import MappedFile, MappedFileQueue
from rmqstore.store.root import Store
from rmqstore.verify.parts.config import State, Text, read_both
from rmqstore.verify.tiered.index import local_files
from rmqstore.verify.tiered.state import tiered_of
from rmqstore.wording import counted

_SEALED = 1
_ASKED = 64
"""Index entries per topic number and file that are compared with messages."""
_CODE = "RMQ-TI-METADATA"


def plan_tiered_metadata(builder: PlanBuilder, store: Store) -> bool:
    """Plan a new tieredStoreMetadata.json; return whether it is planned. Reads all commit log segments. Raises UnreadableError."""
    text, backup = read_both(store.config_path / METADATA)
    if State.WHOLE in (text.state, backup.state) or not keeps_tiers(store):
        return False
    tiered = tiered_of(store)
    if tiered.files is None or not tiered.files.lists:
        if text.state is not State.MISSING or backup.state is not State.MISSING or local_files(store):
            place = segments_directory(store)
            why = "the settings do not name tieredStoreFilePath" if place is None else f"there are none below {place}"
            builder.note(f"config/{METADATA} cannot be written from the segments: {why}. A start without it loses sight of all of them.")
        return False
    content = _Content(tiered.files.lists, local_files(store))
    overlap = next(content.overlaps(), None)
    if overlap is not None:
        builder.note(f"config/{METADATA} is not written again: {overlap}. A broker that started without it can have written there.")
        return False
    data = json.dumps(content.value(), indent=1).encode()
    _plan_file(builder, text, backup, data)
    builder.configure(content.entries)
    for note in content.notes():
        builder.note(note)
    return True


def _plan_file(builder: PlanBuilder, text: Text, backup: Text, data: bytes) -> None:
    if text.state is State.MISSING:
        builder.create(text.path, data, reason="it is missing, and the segments show it", code=_CODE)
    else:
        builder.replace(text.path, data, reason="it cannot be read, and the segments show it", code=_CODE)
    if backup.state is not State.MISSING:
        builder.quarantine(backup.path, reason="a start would take it if a write of the file were interrupted", code="RMQ-CF-BAK")


@dataclass
class _Content:
    """The metadata that segment files show. `local`: index files that are no segments yet."""

    lists: Mapping[ListKey, tuple[MappedFile, ...]]
    local: Sequence[MappedFile]
    entries: list[ConfigEntry] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    guessed: list[str] = field(default_factory=list)

    def overlaps(self) -> Iterator[str]:
        """Yield segments that begin before the one before ends: one of them is not what it was."""
        for (path, kind), files in self.lists.items():
            for before, after in itertools.pairwise(files):
                if before.end > after.start:
                    yield f"the {kind.name} segments {before.start} and {after.start} of {path} overlap"

    def value(self) -> dict[str, Any]:
        """Return the object of the file."""
        tables: dict[str, dict[str, Any]] = {name: {} for name in TABLES.values()}
        for path in sorted({path for path, _ in self.lists}):
            stamps = self._stamps(path)
            for kind in SegmentType:
                files = self.lists.get((path, kind), ())
                if files:
                    tables[TABLES[kind]][path] = self._list((path, kind), files, stamps)
        numbers = self._numbers()
        queues = {place: path for path, _ in self.lists if (place := queue_of(path)) is not None and place[1] in numbers}
        updated = max((one["endTimestamp"] for table in tables.values() for each in table.values() for one in each.values()), default=0)
        topics = {
            topic: {"topicId": number, "topic": topic, "status": 0, "reserveTime": -1, "updateTimestamp": updated}
            for topic, number in numbers.items()
        }
        of_queues: dict[str, dict[str, Any]] = defaultdict(dict)
        for (broker, topic, queue_id), path in sorted(queues.items()):
            files = self.lists.get((path, SegmentType.CONSUME_QUEUE), ())
            of_queues[topic][str(queue_id)] = {
                "queue": {"brokerName": broker, "queueId": queue_id, "topic": topic},
                "minOffset": files[0].start // UNIT_SIZE if files else -1,
                "maxOffset": files[-1].end // UNIT_SIZE if files else -1,
                "updateTimestamp": updated,
            }
        serial = max(numbers.values(), default=-1)
        return {SERIAL: serial, TOPICS: topics, QUEUES: dict(of_queues), **tables}

    def notes(self) -> Iterator[str]:
        """Yield sentences on what the segments do not show, after `value`."""
        count = sum(len(files) for files in self.lists.values())
        yield (
            f"config/{METADATA} is written from {counted(count, 'segment file')}. Retention times of single topics are not known: "
            "their segments are kept as long as the broker keeps others."
        )
        yield from self.gaps
        if self.guessed:
            which = f"{self.guessed[0]}{f' and {len(self.guessed) - 1} more topics' if len(self.guessed) > 1 else ''}"
            yield f"No index entry shows the number of {which}: they get new ones, under which queries by key find no older entries."

    def _list(self, key: ListKey, files: Sequence[MappedFile], stamps: _Stamps) -> dict[str, Any]:
        path, kind = key
        for before, after in itertools.pairwise(files):
            if before.end < after.start:
                self.gaps.append(f"Bytes {before.end} to {after.start} of the {kind.name} segments of {path} are in no file.")
        times = _times_of_index(files) if kind is SegmentType.INDEX else stamps.times_of(kind, files)
        segments = {}
        for file, (begin, end) in zip(files, times, strict=True):
            sealed = file is not files[-1] or kind is SegmentType.INDEX
            segments[str(file.start)] = {
                "path": path,
                "type": int(kind),
                "baseOffset": file.start,
                "status": _SEALED if sealed else 0,
                "size": file.length,
                "createTimestamp": begin,
                "beginTimestamp": begin,
                "endTimestamp": end,
                "sealTimestamp": end if sealed else 0,
            }
        why = f"{counted(len(files), 'segment file')} from offset {files[0].start} on"
        self.entries.append(ConfigEntry(METADATA, f"{path} {kind.name}", Origin.SEGMENTS, why))
        return segments

    def _stamps(self, path: str) -> _Stamps:
        """Return the store times of a queue. Reads its commit log segments once."""
        scanner, extents = LogScanner(), []
        offsets, times = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for file in self.lists.get((path, SegmentType.COMMIT_LOG), ()):
            stamps = [np.zeros(0, np.int64)]
            for batch in scanner.batches(file) if file.length else ():
                stamps.append(batch.records["store_timestamp"].copy())
                offsets.append(batch.records["queue_offset"].copy())
            times.append(np.concatenate(stamps))
            extents.append(_extent(times[-1]))
        return _Stamps(extents, np.concatenate(offsets), np.concatenate(times))

    # Numbers of topics

    def _numbers(self) -> dict[str, int]:
        """Return the number of each topic: by index entries, or a new one, which is larger than those."""
        topics = sorted({place[1] for path, kind in self.lists if kind is not SegmentType.INDEX and (place := queue_of(path)) is not None})
        votes: dict[int, Counter[str]] = defaultdict(Counter)
        largest = -1
        for file in (*self.local, *(file for (_, kind), files in self.lists.items() if kind is SegmentType.INDEX for file in files)):
            largest = max(largest, self._count_votes(file, topics, votes))
        shown = {counter.most_common(1)[0][0]: number for number, counter in sorted(votes.items()) if counter}
        following = itertools.count(largest + 1)
        numbers = {}
        for topic in topics:
            known = topic in shown
            numbers[topic] = shown[topic] if known else next(following)
            origin, why = (Origin.INDEX, "entries of index files") if known else (Origin.SEGMENTS, "no index entry shows the number")
            self.entries.append(ConfigEntry(METADATA, f"topic {topic}: number {numbers[topic]}", origin, why, guess=not known))
            self.guessed += [] if known else [topic]
        return numbers

    def _count_votes(self, file: MappedFile, topics: Sequence[str], votes: dict[int, Counter[str]]) -> int:
        """Count for each number the topics whose message an entry is of; return the largest number in the file."""
        index, largest, asked = tiered_index_of(file), -1, Counter[int]()
        for _, rows in index.windows() if index is not None else ():
            for row in rows if rows.size else ():
                number = int(row["topic_id"])
                largest = max(largest, number)
                if asked[number] < _ASKED:
                    asked[number] += 1
                    votes[number].update(topic for topic in topics if self._is_of(topic, row))
        return largest

    def _is_of(self, topic: str, item: np.void) -> bool:
        """Return whether the message at the place that an index entry names is of a topic and has its key."""
        for log in self._logs.get((topic, int(item["queue_id"])), ()):
            record = record_at(log, int(item["offset"]))
            if record is not None and record.size == int(item["size"]) and record.topic == topic:
                return int(item["key_hash"]) in {index_key_hash(topic, key) for key in message_keys(record.properties, index_tags=False)}
        return False

    @cached_property
    def _logs(self) -> dict[tuple[str, int], list[MappedFileQueue]]:
        """The commit log segments of each queue, of every broker that has it."""
        found: dict[tuple[str, int], list[MappedFileQueue]] = defaultdict(list)
        for (path, kind), files in self.lists.items():
            place = queue_of(path)
            if kind is SegmentType.COMMIT_LOG and place is not None:
                found[place[1:]].append(MappedFileQueue(files))
        return dict(found)


@dataclass(frozen=True, slots=True)
class _Stamps:
    """Store times (ms) of a queue: of the first and last record of each commit log segment, and of each record by queue offset."""

    extents: list[tuple[int, int]]
    queue_offsets: npt.NDArray[np.int64]
    times: npt.NDArray[np.int64]

    def times_of(self, kind: SegmentType, files: Sequence[MappedFile]) -> list[tuple[int, int]]:
        """Return the first and last time of each segment: of its records, or of those of its units."""
        if kind is SegmentType.COMMIT_LOG:
            return self.extents
        numbers = self.queue_offsets
        inside = ((numbers >= file.start // UNIT_SIZE) & (numbers < file.end // UNIT_SIZE) for file in files)
        return [_extent(self.times[rows]) for rows in inside]


def _extent(times: npt.NDArray[np.int64]) -> tuple[int, int]:
    """Return the smallest and largest time, the largest Java long for both without any, as brokers do."""
    return (int(times.min()), int(times.max())) if times.size else (2**63 - 1, 2**63 - 1)


def _times_of_index(files: Sequence[MappedFile]) -> list[tuple[int, int]]:
    found = [tiered_index_of(file) for file in files]
    return [_extent(np.zeros(0, np.int64)) if one is None else (one.begin_timestamp, one.end_timestamp) for one in found]
