"""The metadata of tiered storage against itself and against the segment files."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

from rmqstore.findings import Finding
from rmqstore.formats.consumequeue import UNIT_SIZE
from rmqstore.formats.tiered_names import SegmentType
from rmqstore.reading.tieredstore import METADATA, ListKey, Segment, SegmentFiles, TieredMetadata, queue_of
from rmqstore.store.mapped import MappedFile
from rmqstore.verify.context import Context
from rmqstore.verify.tiered.state import Tiered
from rmqstore.wording import counted

INCONSISTENT, MISSING, UNLISTED = "RMQ-TI-METADATA", "RMQ-TI-MISSING", "RMQ-TI-UNLISTED"


def check(context: Context, tiered: Tiered) -> Iterator[Finding]:
    """Yield findings about the metadata, and about segment files that are missing, too short, or not in it."""
    metadata, files = tiered.metadata, tiered.files
    if metadata is None:
        count = 0 if files is None else sum(len(one) for one in files.lists.values())
        rest = f": brokers find none of {counted(count, 'segment file')} of {counted(len(tiered.queues), 'queue')}" if count else ""
        yield _finding(context, f"{METADATA} is {tiered.why}{rest}", found=count or None)
        return
    for key, segments in metadata.lists.items():
        yield from _borders(context, key, segments)
        if files is not None:
            yield from _lengths(context, files, key, segments)
    if files is not None:
        yield from _unlisted(context, files, metadata)
    yield from _names(context, tiered, metadata)


def _finding(context: Context, message: str, **where: Any) -> Finding:
    return context.finding(INCONSISTENT, message, file=context.store.config_path / METADATA, **where)


def _queue(path: str) -> dict[str, Any]:
    place = queue_of(path)
    return {} if place is None else {"topic": place[1], "queue_id": place[2]}


def _borders(context: Context, key: ListKey, segments: tuple[Segment, ...]) -> Iterator[Finding]:
    """Yield segments that do not begin where the one before ends, and consume queue segments that begin inside of a unit."""
    path, kind = key
    for before, after in itertools.pairwise(segments):
        if before.end != after.base_offset:
            how = "a gap" if before.end < after.base_offset else "an overlap"
            text = f"the {kind.name} segment {after.base_offset} of {path} begins after {how}: the one before ends at {before.end}"
            yield _finding(context, text, **_queue(path), expected=before.end, found=after.base_offset)
    for segment in segments if kind is SegmentType.CONSUME_QUEUE else ():
        if segment.base_offset % UNIT_SIZE:
            text = f"the {kind.name} segment {segment.base_offset} of {path} does not begin at a unit of {UNIT_SIZE} bytes"
            yield _finding(context, text, **_queue(path), found=segment.base_offset)


def _lengths(context: Context, files: SegmentFiles, key: ListKey, segments: tuple[Segment, ...]) -> Iterator[Finding]:
    """Yield files that are missing or shorter than the metadata says, and those that are longer without being the last."""
    path, kind = key
    found = {file.start: file for file in files.lists.get(key, ())}
    for segment in segments:
        file = found.get(segment.base_offset)
        if file is None or file.length < segment.size:
            if not segment.size:
                continue  # a broker creates the file at its start
            missing = segment.size - (0 if file is None else file.length)
            why = "is missing" if file is None else f"has {file.length} bytes"
            text = f"the {kind.name} segment {segment.base_offset} of {path} {why}: {missing} of {segment.size} bytes are gone"
            place = files.path_of(key, segment.base_offset)
            yield context.finding(MISSING, text, file=place, **_queue(path), expected=segment.size, found=segment.size - missing)
        elif file.length > segment.size and (segment is not segments[-1] or kind is SegmentType.INDEX):
            text = f"brokers read {segment.size} of {file.length} bytes of the {kind.name} segment {segment.base_offset} of {path}"
            yield context.finding(INCONSISTENT, text, file=file.path, **_queue(path), expected=file.length, found=segment.size)


def _unlisted(context: Context, files: SegmentFiles, metadata: TieredMetadata) -> Iterator[Finding]:
    """Yield segment files that brokers do not know. An empty one is left by a broker that was killed when it created it."""
    for key, listed in files.lists.items():
        known = {segment.base_offset for segment in metadata.lists.get(key, ())}
        for file in listed:
            if file.start not in known and file.length and (*key, file.start) not in metadata.deleted:
                yield context.finding(UNLISTED, _text_of(file), file=file.path, **_queue(key[0]), found=file.length)
    for name in files.odd:
        yield context.finding(UNLISTED, "the name is not that of a segment", file=files.directory / name)


def _text_of(file: MappedFile) -> str:
    return f"the segment is not in {METADATA}: brokers do not read its {file.length} bytes"


def _names(context: Context, tiered: Tiered, metadata: TieredMetadata) -> Iterator[Finding]:
    """Yield queues with segments that no start loads, and topics that share a number, by which index entries name them."""
    for topic, queue_id in tiered.queues:
        if topic not in metadata.topics or (topic, queue_id) not in metadata.queues:
            text = f"{topic}/{queue_id} has segments and no entry in the tables of topics and queues: no start loads it"
            yield _finding(context, text, topic=topic, queue_id=queue_id)
    numbers = Counter(metadata.topics.values())
    for topic, number in metadata.topics.items():
        if numbers[number] > 1 or number > metadata.serial:
            why = (
                "as another topic" if numbers[number] > 1 else f"above topicSerialNumber {metadata.serial}: the next topic can get it, too"
            )
            yield _finding(context, f"{topic} has number {number}, {why}", topic=topic, found=number)
