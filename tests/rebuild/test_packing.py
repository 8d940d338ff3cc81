"""Batches that travel as bytes: builders read of them what they read of those that were scanned."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqstore.rebuild.packing import FOR_INDEX, FOR_QUEUES, Unpacker, pack, pack_apart, packets
from rmqstore.scan.ahead import BUFFERS
from rmqstore.scan.columns import Mark
from rmqstore.scan.walk import Batch
from tests.rebuild.columns import QUEUES, batch

LONGS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(0, 300))
INTS = st.integers(-(2**31), 2**31 - 1)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "queue": st.integers(0, len(QUEUES) - 1),
            "queue_offset": LONGS,
            "physical_offset": LONGS,
            "store_timestamp": LONGS,
            "tags_code": LONGS,
            "size": INTS,
            "sys_flag": INTS,
        }
    ),
    min_size=1,
    max_size=20,
)


def of_one_packet(data: bytes) -> bytes:
    (packet,) = packets(io.BytesIO(data), len(data))
    return packet


def columns(unpacked: Batch, unpacker: Unpacker) -> list[list[object]]:
    queues = [unpacker.queue(number) for number in unpacked.records["queue"].tolist()]
    return [queues, *(unpacked.records[name].tolist() for name in FOR_QUEUES if name != "queue")]


@given(ROWS, st.lists(st.integers(0, 3), min_size=len(QUEUES), max_size=len(QUEUES)))
def test_queues_apart_are_those_of_each_group_packed(rows: list[dict[str, int]], groups: list[int]) -> None:
    scanned = batch(rows)

    apart = dict(pack_apart(scanned, np.array(groups, np.uint8), QUEUES.__getitem__))

    assert set(apart) == {groups[row["queue"]] for row in rows}
    for group, data in apart.items():
        theirs = [row for row in rows if groups[row["queue"]] == group]
        unpacker = Unpacker()
        expected = [[QUEUES[row["queue"]] for row in theirs], *([row[name] for row in theirs] for name in FOR_QUEUES if name != "queue")]
        assert columns(unpacker.batch(of_one_packet(data)), unpacker) == expected
        alone = Unpacker()
        packed = pack(batch(theirs), QUEUES.__getitem__, FOR_QUEUES)
        assert columns(alone.batch(of_one_packet(packed)), alone) == expected


def test_columns_that_one_packet_filled_are_zeros_in_the_next() -> None:
    unpacker = Unpacker()
    rows = [{"physical_offset": 100, "position": 100, "queue": 1, "size": 10}, {"physical_offset": 200, "position": 200, "size": 10}]
    full = of_one_packet(pack(batch(rows), QUEUES.__getitem__, FOR_QUEUES))
    other = of_one_packet(pack(batch(rows), QUEUES.__getitem__, FOR_INDEX))

    for _ in range(BUFFERS):
        unpacker.batch(full)
    for _ in range(BUFFERS):
        unpacked = unpacker.batch(other)
        assert unpacked.records["size"].tolist() == [0, 0]
        assert unpacked.records["position"].tolist() == [100, 200]


def test_batches_last_as_long_as_they_say() -> None:
    unpacker = Unpacker()
    data = [pack(batch([{"physical_offset": number}]), QUEUES.__getitem__, FOR_INDEX) for number in range(BUFFERS)]
    made = [unpacker.batch(of_one_packet(each)) for each in data]
    assert made[0].lasts == BUFFERS - 1
    assert [int(each.records["physical_offset"][0]) for each in made] == list(range(BUFFERS))


def test_packets_lie_one_behind_the_other_and_a_file_that_is_too_short_is_told() -> None:
    one, two = (pack(batch([{"physical_offset": number}] * number), QUEUES.__getitem__, FOR_INDEX) for number in (1, 2))
    data = one + two

    found = [len(Unpacker().batch(packet).records) for packet in packets(io.BytesIO(data), len(data))]

    assert found == [1, 2]
    file = io.BytesIO(data[:-1])
    file.name = "records"
    with pytest.raises(EOFError, match="records ends within a packet"):
        list(packets(file, len(data)))


def test_marks_without_properties_to_read_stay() -> None:
    scanned = batch([{"marks": int(Mark.SCHEDULED), "queue": 2}])
    ((_, data),) = pack_apart(scanned, np.zeros(len(QUEUES), np.uint8), QUEUES.__getitem__)
    assert Unpacker().batch(of_one_packet(data)).marks == scanned.marks
