"""Batches made by hand: record columns as a scan delivers them, without a log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rmqstore.rebuild import MemorySink, Mode, QueueBuilder, QueueResult, RebuiltQueue, Settings
from rmqstore.scan.columns import KEY_DTYPE, RECORD_DTYPE, Fault, Mark, Oddity
from rmqstore.scan.walk import Batch
from rmqstore.versions import Profile, profile_of

UNITS_PER_FILE = 5
SMALL = Settings(mapped_file_size_consume_queue=UNITS_PER_FILE * 20, mapper_file_size_batch_consume_queue=4 * 46)
RECORD_LENGTH = 100
FIRST_TIME = 1_700_000_000_000
QUEUES = (("TopicA", 0), ("TopicA", 1), ("TopicB", 0))


def batch(rows: Iterable[dict[str, int]], keys: Sequence[tuple[int, int, int]] = ()) -> Batch:
    """A batch of records, each with the columns given and sound values for the rest, one behind the other from offset 0 on."""
    records = np.zeros(len(list(rows := list(rows))), RECORD_DTYPE)
    for number, row in enumerate(rows):
        place = number * RECORD_LENGTH
        sound = {
            "position": place,
            "physical_offset": place,
            "size": RECORD_LENGTH,
            "store_timestamp": FIRST_TIME + number,
            "body_length": 1,
        }
        for name, value in {**sound, "batch_size": 1, "tags_code": number, **row}.items():
            records[name][number] = value
    faults, marks = (int(np.bitwise_or.reduce(records[name])) if len(records) else 0 for name in ("faults", "marks"))
    return Batch(records, np.array(list(keys), KEY_DTYPE), np.zeros(0, np.uint8), 0, Fault(faults), Mark(marks), Oddity(0))


def of_offsets(offsets: Sequence[int], queue: int = 0) -> list[dict[str, int]]:
    """Rows of one queue with these queue offsets, a record apart in the log."""
    return [{"queue": queue, "queue_offset": offset} for offset in offsets]


def build(
    rows: Iterable[dict[str, int]],
    mode: Mode = Mode.USEFUL,
    *,
    log_start: int = 1,
    settings: Settings = SMALL,
    profile: Profile | None = None,
    **options: Any,
) -> tuple[QueueResult, MemorySink]:
    """The queues of one batch. The log began before it unless `log_start` is 0."""
    sink = MemorySink()
    builder = QueueBuilder(QUEUES.__getitem__, settings, profile or profile_of("5.3.3"), sink, log_start=log_start, mode=mode, **options)
    builder.put(batch(rows))
    result = builder.finish()
    assert not sink.open_paths
    return result, sink


def units(queue: RebuiltQueue, sink: MemorySink) -> list[tuple[int, int, int]]:
    """(physical offset, size, tagsCode) of all units of a queue's files."""
    data = b"".join(sink.files[path].tobytes() for path in queue.files)
    return [tuple(row) for row in np.frombuffer(data, ">i8,>i4,>i8").tolist()]


def spread(rows: list[dict[str, int]], apart: int) -> list[dict[str, int]]:
    """The rows with so many bytes of the log from one record to the next."""
    for number, row in enumerate(rows):
        row["physical_offset"] = row["position"] = number * apart
    return rows


def record_numbers(offsets: Sequence[int], mode: Mode, *, apart: int = RECORD_LENGTH) -> list[str]:
    """The units that records with these queue offsets get: number of the record, `-` for a pre-blank, `.` for an empty unit."""
    result, sink = build(spread(of_offsets(offsets), apart), mode)
    (queue,) = result.queues
    names = {0: ".", 0x7FFF_FFFF: "-"}
    return [names.get(size, str(position // apart)) for position, size, _ in units(queue, sink)]
