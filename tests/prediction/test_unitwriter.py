"""Queues that compiled code appends to end as if they had taken every message themselves."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqstore.prediction.changes import Changes
from rmqstore.prediction.log.messages import Message
from rmqstore.prediction.queues import unitwriter
from rmqstore.prediction.queues.batchqueue import BatchQueue
from rmqstore.prediction.queues.consumequeue import UNIT_SIZE, ConsumeQueue
from rmqstore.prediction.queues.extqueue import ExtQueue
from rmqstore.prediction.queues.kernels_dispatch import OPEN
from rmqstore.prediction.queues.units import BATCH_UNIT
from rmqstore.prediction.queues.unitwriter import UnitWriter
from rmqstore.scan.columns import RECORD_DTYPE

FILE_SIZE = 5 * UNIT_SIZE
PREPARED, ROLLED_BACK = 4, 12


@dataclass(frozen=True)
class Sent:
    """A record as the queues see it."""

    queue: int
    physical_offset: int
    queue_offset: int
    tags_code: int = 0
    sys_flag: int = 0


def make_queue(number: int, directory: Path, *, know_ends: bool = True) -> ConsumeQueue | BatchQueue:
    """Queues 0 and 1 are plain, 2 has an extension, 3 is a batch queue."""
    if number == 3:
        return BatchQueue("T", number, directory / "3", 4 * BATCH_UNIT.itemsize, Changes())
    ext = ExtQueue(directory / "ext", 200, Changes()) if number == 2 else None
    return ConsumeQueue("T", number, directory / str(number), FILE_SIZE, ext, Changes(), know_ends=know_ends)


def state(queue: ConsumeQueue | BatchQueue) -> tuple[object, ...]:
    files = [(file.start, file.wrote, file.read(0, file.length)) for file in queue.files.files]
    ends = (queue.max_physic_offset, queue.min_logic_offset, queue.max_offset, queue.min_offset, queue.shifted)
    return ends, queue.files.flushed_where, files


def rows(sent: list[Sent]) -> npt.NDArray[np.void]:
    records = np.zeros(len(sent), RECORD_DTYPE)
    for row, one in zip(records, sent, strict=True):
        row["queue"], row["queue_offset"], row["physical_offset"] = one.queue, one.queue_offset, one.physical_offset
        row["tags_code"], row["sys_flag"], row["size"] = one.tags_code, one.sys_flag, 100
    return records


@st.composite
def records(draw: st.DrawFn) -> list[Sent]:
    """Records as a log has them, mostly in order, with repeats, gaps and strange offsets between."""
    found = []
    offset = draw(st.integers(0, 3)) * 100
    places = [draw(st.integers(0, 12)) for _ in range(4)]
    for _ in range(draw(st.integers(1, 40))):
        queue = draw(st.sampled_from([0, 0, 0, 1, 1, 2, 3]))
        match draw(st.sampled_from(["next"] * 12 + ["again", "gap", "zero", "far", "negative", "before", "transaction", "huge"])):
            case "again":
                offset, places[queue] = max(0, offset - 200), max(0, places[queue] - 2)
            case "gap":
                places[queue] += draw(st.integers(1, 8))
            case "zero":
                places[queue] = 0
            case "before":
                places[queue] -= draw(st.integers(1, 20))
            case "huge":
                found.append(Sent(queue, offset, draw(st.sampled_from([2**63 - 1, -(2**63), 2**60]))))
            case "far":
                offset = 2**63 - 150
            case "negative":
                offset -= 2**40
            case "transaction":
                found.append(Sent(queue, offset, places[queue], 0, draw(st.sampled_from([PREPARED, ROLLED_BACK]))))
        found.append(Sent(queue, offset, places[queue], draw(st.integers(-(2**63), 2**63 - 1))))
        offset, places[queue] = min(offset + 100, 2**63 - 150), places[queue] + 1
    return found


@given(records(), st.data())
def test_many_at_a_time_is_one_by_one(sent: list[Sent], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as scratch, pytest.MonkeyPatch.context() as patch:
        patch.setattr(unitwriter, "_BUFFERS", 0)
        patch.setattr(unitwriter, "_LEAST_ROOM", data.draw(st.integers(1, 4)))
        patch.setattr(unitwriter, "_FIRST_QUEUES", data.draw(st.integers(1, 4)))
        know_ends = data.draw(st.booleans())
        together = [make_queue(number, Path(scratch) / "a", know_ends=know_ends) for number in range(4)]
        single = [make_queue(number, Path(scratch) / "b", know_ends=know_ends) for number in range(4)]
        writer = UnitWriter(together.__getitem__, know_ends=know_ends)
        left = rows(sent)
        while len(left):
            count = data.draw(st.integers(1, len(left)))
            assert writer.put(left[:count], {}) == count
            if data.draw(st.booleans()):
                writer.settle()
            left = left[count:]
        writer.settle()
        for record, one in zip(rows(sent), sent, strict=True):
            if not one.sys_flag:
                single[one.queue].take(Message.of(record))
        assert list(map(state, together)) == list(map(state, single))


def test_nothing_is_written_from_the_first_refused_queue_on(tmp_path: Path) -> None:
    queues = [make_queue(0, tmp_path), make_queue(3, tmp_path)]
    writer = UnitWriter(lambda number: queues[number] if number < 2 else None, know_ends=True)
    sent = [Sent(0, 0, 0), Sent(1, 100, 0), Sent(0, 200, 1), Sent(1, 300, 1), Sent(2, 400, 0), Sent(0, 500, 2)]
    assert writer.put(rows(sent), {}) == 4
    writer.settle()
    assert [queue.max_offset for queue in queues] == [2, 2]


def test_records_that_follow_on_are_left_to_compiled_code(tmp_path: Path) -> None:
    queue = ConsumeQueue("T", 0, tmp_path, 1000 * UNIT_SIZE, None, Changes(), know_ends=True)
    asked = []
    writer = UnitWriter(lambda number: asked.append(number) or queue, know_ends=True)
    writer.put(rows([Sent(0, number * 100, number) for number in range(900)]), {})
    assert asked == [0]
    assert writer._table["state"][0] == OPEN
    assert queue.files.max_offset == UNIT_SIZE
    writer.settle()
    assert queue.max_offset == 900
