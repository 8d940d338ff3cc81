"""Fillers: whatever the hole, the bytes that plug it are records to the walker, to the declaration and to the check of every release."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqstore.formats.properties import property_crc_matches
from rmqstore.formats.record import decode_record
from rmqstore.formats.sysflag import TransactionType
from rmqstore.prediction.log.record_check import RecordCheck
from rmqstore.prediction.options import Options
from rmqstore.repair.log.fillers import (
    FILLER_TOPIC,
    LARGEST_FILLER,
    LostRecord,
    Neighbour,
    Segment,
    Style,
    blank,
    filler,
    is_placeholder,
    lay_out,
)
from rmqstore.scan.columns import Fault, Stop
from rmqstore.store.brokerconf import BrokerConfig
from rmqstore.versions import PROFILES, Profile
from tests.scan.walking import walked

NEIGHBOURS = [Neighbour(1_700_000_000_123, "10.9.8.7:10911"), Neighbour(1_700_000_000_123, "[fe80::1]:10911")]
START = 1 << 33


def plugged(start: int, end: int, lost: list[LostRecord], style: Style, neighbour: Neighbour) -> bytes:
    """The bytes of a hole that was full of 0xFF."""
    data = bytearray(b"\xff" * (end - start))
    for segment in lay_out(start, end, lost, style):
        for patch in filler(segment, neighbour, style):
            data[patch.start - start : patch.end - start] = patch.data if patch.data is not None else bytes(patch.end - patch.start)
    return bytes(data)


def closed(data: bytes) -> bytes:
    """The bytes with a BLANK behind them."""
    return data + (blank(0, 64).data or b"") + bytes(56)


@st.composite
def holes(draw: st.DrawFn) -> tuple[int, list[LostRecord], Style]:
    """(length, records that stood there, some of them impossible, style)."""
    style = Style(draw(st.sampled_from([400, 1000, LARGEST_FILLER])), draw(st.booleans()), draw(st.booleans()))
    length = draw(st.integers(style.smallest, 3000))
    lost = []
    for _ in range(draw(st.integers(0, 6))):
        position = START + draw(st.integers(0, length))
        topic = draw(st.sampled_from(["TopicA", "T", "SCHEDULE_TOPIC_XXXX", "t" * 127, None]))
        lost.append(LostRecord(position, draw(st.integers(1, 800)), topic, draw(st.integers(0, 9)), draw(st.integers(0, 99))))
    return length, lost, style


@given(holes(), st.sampled_from(NEIGHBOURS))
def test_a_plugged_hole_walks_cleanly(hole: tuple[int, list[LostRecord], Style], neighbour: Neighbour) -> None:
    length, lost, style = hole
    data = plugged(START, START + length, lost, style, neighbour)

    found = walked(closed(data), origin=START)

    assert (found.position, found.stop) == (length, Stop.BLANK)
    assert Fault(int(np.bitwise_or.reduce(found.records["faults"]))) == Fault(0)
    assert found.records["size"].max() <= max(style.largest, 800 + style.smallest)
    assert set(found.records["store_timestamp"].tolist()) == {neighbour.store_timestamp}
    for position, size in zip(found.records["position"].tolist(), found.records["size"].tolist(), strict=True):
        raw = data[position - START : position - START + size]
        record = decode_record(raw)
        assert record.physical_offset == position
        assert record.body_crc_matches
        assert not record.body.strip(b"\0")
        assert property_crc_matches(raw, record.properties) is (True if style.property_crc else None)
        if record.transaction_type is TransactionType.ROLLBACK:
            assert FILLER_TOPIC.startswith(record.topic)


@given(holes(), st.sampled_from(NEIGHBOURS), st.sampled_from(PROFILES), st.booleans())
def test_the_check_of_every_release_reads_over_it(
    hole: tuple[int, list[LostRecord], Style], neighbour: Neighbour, profile: Profile, forced: bool
) -> None:
    length, lost, style = hole
    if forced and not style.property_crc:
        return
    options = Options.of(BrokerConfig.load(settings={"forceVerifyPropCRC": str(forced).lower()}))
    check = RecordCheck.of_recovery(profile, options)
    data = np.frombuffer(closed(plugged(START, START + length, lost, style, neighbour)), np.uint8)
    position = 0
    while position < length:
        found = check.at(data, position)
        assert found.request is not None, found.reason
        position += found.size
    assert check.at(data, position).size == 0


@given(holes())
def test_the_layout_covers_the_hole_and_keeps_known_places(hole: tuple[int, list[LostRecord], Style]) -> None:
    length, lost, style = hole
    segments = lay_out(START, START + length, lost, style)
    assert [segment.start for segment in segments] == [START, *(segment.end for segment in segments[:-1])]
    assert segments[-1].end == START + length
    assert all(segment.size >= style.smallest for segment in segments)
    for segment in segments:
        if segment.lost is not None:
            assert segment.start == segment.lost.start
            assert segment.end >= segment.lost.end


def test_a_lost_record_gets_a_filler_of_its_size() -> None:
    lost = [LostRecord(START + 300, 200, "T", 0, 7), LostRecord(START + 500, 400, "T", 0, 8)]
    found = [(segment.start - START, segment.size) for segment in lay_out(START, START + 1000, lost, Style())]
    assert found == [(0, 300), (300, 200), (500, 400), (900, 100)]


def test_a_gibibyte_becomes_fillers_of_at_most_4_mib() -> None:
    segments = lay_out(0, 1 << 30, [], Style())
    assert len(segments) == 256
    assert max(segment.size for segment in segments) == LARGEST_FILLER


def test_zeros_take_no_room_in_the_patches_of_a_filler() -> None:
    written = [patch for patch in filler(Segment(0, LARGEST_FILLER), NEIGHBOURS[0], Style()) if patch.data is not None]
    assert sum(patch.end - patch.start for patch in written) < 200


PLACES: Mapping[str, bool] = {
    "TopicA": True,
    "%RETRY%g": True,
    "SCHEDULE_TOPIC_XXXX": False,
    "RMQ_SYS_TRANS_HALF_TOPIC": False,
    "rmq_sys_wheel_timer": False,
}


@pytest.mark.parametrize(("topic", "stands_in"), PLACES.items())
def test_a_placeholder_stands_in_the_queue_of_the_lost_message(topic: str, stands_in: bool) -> None:
    style = Style(placeholders=True)
    segment = Segment(START, START + 500, LostRecord(START, 500, topic, 3, 41))
    assert is_placeholder(segment, style) is stands_in
    record = decode_record(plugged(START, START + 500, [segment.lost] if segment.lost else [], style, NEIGHBOURS[0]))
    if stands_in:
        assert (record.topic, record.queue_id, record.queue_offset) == (topic, 3, 41)
        assert record.transaction_type is TransactionType.NONE
        assert record.properties == {"RMQSTORE_PLACEHOLDER": "lost"}
    else:
        assert (record.topic, record.transaction_type) == (FILLER_TOPIC, TransactionType.ROLLBACK)


def test_a_record_that_is_too_small_for_a_placeholder_gets_a_filler() -> None:
    style = Style(placeholders=True)
    segment = Segment(0, 130, LostRecord(0, 130, "t" * 30, 0, 0))
    assert not is_placeholder(segment, style)
    assert decode_record(plugged(0, 130, [LostRecord(0, 130, "t" * 30, 0, 0)], style, NEIGHBOURS[0])).topic == FILLER_TOPIC
