"""Compiled code reads the further queues of records as Python does, and leaves to it what no broker writes."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqstore.formats.properties import INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET
from rmqstore.formats.record import decode_record
from rmqstore.scan import further
from rmqstore.scan.columns import Fault, Mark, Oddity
from rmqstore.scan.further import FurtherQueues
from rmqstore.scan.walk import Batch
from rmqstore.verify.queues.multidispatch import Entry, entries
from tests.scan.samples import encoded
from tests.scan.walking import walked

NAMES = st.sampled_from(["%LMQ%a", "%LMQ%b", "%LMQ", "a", "x" * 40, "x" * 41, "y" + "x" * 39, "", " ", "a/b", "ü", "a\x7f"])
NUMBERS = st.sampled_from(["0", "7", "007", "123456789012345678", "1234567890123456789", "", "-1", "+1", "1a", " 1", "١"])
PLAIN = re.compile(r"[!-.0-~]+")


@st.composite
def lists(draw: st.DrawFn) -> tuple[str, str]:
    """Names and numbers, mostly those that brokers write."""
    if draw(st.booleans()):
        names = draw(st.lists(st.sampled_from(["%LMQ%a", "%LMQ%b", "Other", "x" * 50]), min_size=1, max_size=6))
        return ",".join(names), ",".join(str(draw(st.integers(0, 10**18 - 1))) for _ in names)
    return ",".join(draw(st.lists(NAMES, max_size=4))), ",".join(draw(st.lists(NUMBERS, max_size=4)))


@st.composite
def blocks(draw: st.DrawFn) -> bytes:
    """Blocks of properties with these lists, other properties, lists that count for nothing, and several of one name."""
    others = ["TAGS\1a", "INNER_MULTI_DISPATCHED\1x", "INNER_MULTI\1x", "", INNER_MULTI_DISPATCH, "a\1"]
    pieces = draw(st.lists(st.sampled_from(others), max_size=3))
    for _ in range(draw(st.integers(0, 2))):
        names, numbers = draw(lists())
        pieces += [f"{INNER_MULTI_DISPATCH}\1{names}", f"{INNER_MULTI_QUEUE_OFFSET}\1{numbers}"]
    return ("\2".join(draw(st.permutations(pieces))) + draw(st.sampled_from(["", "\2"]))).encode()


def batch_of(blocks: list[bytes]) -> Batch:
    data = b"".join(encoded(properties=block, queue_id=number % 3) for number, block in enumerate(blocks))
    result = walked(data, batch=len(blocks) + 1)
    return Batch(result.records, result.keys, np.frombuffer(data, np.uint8), 0, Fault(0), Mark(0), Oddity(0))


def is_plain(properties: dict[str, str]) -> bool:
    """Whether a broker writes lists like that; without one of them there is nothing to read."""
    names, numbers = (properties.get(name) for name in (INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET))
    if names is None or numbers is None:
        return True
    return (
        len(names.split(",")) == len(numbers.split(","))
        and all(PLAIN.fullmatch(name) for name in names.split(","))
        and all(re.fullmatch("[0-9]{1,18}", number) for number in numbers.split(","))
    )


def expect_as_python_reads(blocks: list[bytes], reader: FurtherQueues) -> None:
    batch = batch_of(blocks)
    found = reader.read(batch, np.arange(len(blocks)))
    for row in range(len(blocks)):
        record = decode_record(batch.record_bytes(row))
        mine = found.queues[found.queues["row"] == row]
        read = [Entry(reader.queue(queue), number) for _, queue, number in mine.tolist()]
        assert (row in found.unusual) == (not is_plain(record.properties))
        assert read == ([] if row in found.unusual else list(entries(record)))
    assert found.queues["row"].tolist() == sorted(found.queues["row"].tolist())


@given(st.lists(blocks(), min_size=1, max_size=8))
def test_any_properties(blocks: list[bytes]) -> None:
    expect_as_python_reads(blocks, FurtherQueues(light=True))


def test_more_queues_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(further, "_CAPACITY", 8)
    reader = FurtherQueues(light=True)
    blocks = [
        "\2".join([
            f"{INNER_MULTI_DISPATCH}\1" + ",".join(f"%LMQ%{row * 5 + n}" for n in range(5)),
            f"{INNER_MULTI_QUEUE_OFFSET}\1" + ",".join(str(row) for _ in range(5)),
        ]).encode()
        for row in range(300)
    ]  # fmt: skip
    expect_as_python_reads(blocks, reader)
    assert reader.queue(1499) == ("%LMQ%1499", 0)


@pytest.mark.parametrize(("light", "queue_id"), [(True, 0), (False, 2)])
def test_the_queue_id_of_light_message_queues(light: bool, queue_id: int) -> None:
    block = f"{INNER_MULTI_DISPATCH}\1%LMQ%a,b\2{INNER_MULTI_QUEUE_OFFSET}\0013,4".encode()
    reader = FurtherQueues(light=light)
    found = reader.read(batch_of([block] * 3), np.array([2]))
    assert [(reader.queue(queue), number) for _, queue, number in found.queues.tolist()] == [(("%LMQ%a", queue_id), 3), (("b", 2), 4)]
