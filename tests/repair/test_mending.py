"""Mending one field of a record: what checksum and lengths prove comes back as it was, and nothing is invented."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rmqstore.formats import record
from rmqstore.formats.crc import body_crc
from rmqstore.formats.layout import Field
from rmqstore.formats.sysflag import SysFlag, TransactionType
from rmqstore.repair.log import corrections
from rmqstore.repair.log.future import LostUnit
from tests.support.storeview import record_fields

POSITION = 5_000_000
FIELDS: dict[str, Any] = {
    "magic_code": record.MESSAGE_MAGIC_V1,
    "body_crc": body_crc(b"some body of a message" * 3),
    "queue_id": 3,
    "flag": 0,
    "queue_offset": 41,
    "physical_offset": POSITION,
    "sys_flag": 0,
    "born_timestamp": 1_700_000_000_000,
    "born_host": "10.1.2.3:50000",
    "store_timestamp": 1_700_000_000_001,
    "store_host": "10.9.8.7:10911",
    "reconsume_times": 0,
    "prepared_transaction_offset": 0,
    "body": b"some body of a message" * 3,
    "topic": b"TopicA",
    "properties": b"TAGS\x01TagA\x02KEYS\x01k1 k2\x02",
}
SOUND = bytes(record.MESSAGE.build(FIELDS))
UNIT = LostUnit("TopicA", 3, 41, POSITION, len(SOUND))


def with_value(field: Field, value: int) -> bytes:
    return SOUND[: field.offset] + (value % (1 << 8 * field.width)).to_bytes(field.width, "big") + SOUND[field.end :]


@pytest.mark.parametrize("name", ["total_size", "magic_code", "body_length", "topic_length", "properties_length"])
@given(st.data())
def test_a_structural_field_comes_back(name: str, data: st.DataObject) -> None:
    field = record_fields(SOUND, 0)[name]
    harmed = with_value(field, data.draw(st.integers(0, (1 << 8 * field.width) - 1)))
    assume(harmed != SOUND)
    change = corrections.of_structure(harmed, POSITION, [UNIT])
    assert change is not None
    assert change.applied(harmed) == SOUND


@pytest.mark.parametrize(("queue_offset", "kind"), [(41, TransactionType.NONE), (0, TransactionType.ROLLBACK)])
def test_a_record_with_a_queue_offset_is_in_a_queue(queue_offset: int, kind: TransactionType) -> None:
    """That no queue holds it says nothing then: the queue is lost. All 112 prepared and rolled back sample records have 0."""
    sound = record.MESSAGE.build({**FIELDS, "queue_offset": queue_offset, "sys_flag": int(kind)})
    place = record_fields(sound, 0)["sys_flag"]
    harmed = sound[: place.offset] + b"\xff" * 4 + sound[place.end :]
    change = corrections.of_structure(harmed, POSITION, (), lambda: TransactionType.ROLLBACK)
    assert change is not None
    assert change.applied(harmed) == sound


@pytest.mark.parametrize("bits", [SysFlag.BORN_HOST_V6, SysFlag.STORE_HOST_V6])
def test_a_bit_that_makes_a_host_longer_comes_back(bits: int) -> None:
    harmed = with_value(record_fields(SOUND, 0)["sys_flag"], bits)
    change = corrections.of_structure(harmed, POSITION)
    assert change is not None
    assert change.applied(harmed) == SOUND


@given(st.integers(0, len(SOUND) - 1), st.integers(0, len(SOUND) - 1), st.integers(1, 255), st.integers(1, 255))
def test_what_is_mended_is_proven(first: int, second: int, mask: int, other: int) -> None:
    """Whatever two bytes are damaged: a change is made only if body, place and lengths agree on it."""
    harmed = bytearray(SOUND)
    harmed[first] ^= mask
    harmed[second] ^= other
    change = corrections.of_structure(bytes(harmed), POSITION)
    if change is not None:
        decoded = record.decode_record(change.applied(bytes(harmed)))
        assert (decoded.physical_offset, decoded.size) == (POSITION, len(SOUND))
        assert body_crc(decoded.body) == decoded.body_crc


def test_zeros_over_the_end_of_a_record_make_no_shorter_one() -> None:
    """The properties are gone, and so is their length; TOTALSIZE and queue unit agree on where the record ended."""
    fields = record_fields(SOUND, 0)
    harmed = SOUND[: fields["properties_length"].offset].ljust(len(SOUND), b"\0")
    shorter = fields["properties_length"].end
    assert corrections.of_structure(harmed[:shorter], POSITION, [UNIT]) is None
    assert corrections.of_structure(harmed, POSITION, [UNIT]) is None


def test_another_place_is_never_mended() -> None:
    assert corrections.of_structure(with_value(record_fields(SOUND, 0)["magic_code"], 0), POSITION + 1) is None


@given(st.binary(max_size=300))
def test_hostile_bytes_are_no_record(data: bytes) -> None:
    assert corrections.of_structure(data, POSITION) is None
    assert all(0 < size <= len(data) for size in corrections.sizes_at(data))


DECODED = record.decode_record(SOUND)


def test_the_spare_bit_of_a_body_crc_is_cleared_and_nothing_else() -> None:
    change = corrections.of_body_crc(replace(DECODED, body_crc=DECODED.body_crc - 2**31))
    assert change is not None
    assert change.applied(with_value(record_fields(SOUND, 0)["body_crc"], DECODED.body_crc - 2**31)) == SOUND
    assert corrections.of_body_crc(replace(DECODED, body_crc=DECODED.body_crc ^ 1)) is None
    assert corrections.of_body_crc(DECODED) is None


def test_an_empty_body_has_the_crc_0() -> None:
    change = corrections.of_body_crc(replace(DECODED, body=b"", body_crc=7))
    assert change is not None
    assert change.new == bytes(4)


@pytest.mark.parametrize(
    ("unit", "field"),
    [
        (replace(UNIT, queue_id=2), "QUEUEID"),
        (replace(UNIT, queue_offset=40), "QUEUEOFFSET"),
        (replace(UNIT, topic="TopicB"), "TOPIC"),
        (replace(UNIT, queue_id=2, queue_offset=40), None),
        (replace(UNIT, topic="Topic-of-another-length"), None),
        (replace(UNIT, queue_id=2, size=UNIT.size + 1), None),
        (UNIT, None),
    ],
)
def test_one_unit_tells_one_field(unit: LostUnit, field: str | None) -> None:
    change = corrections.of_queue_position(SOUND, DECODED, [unit])
    assert (None if change is None else change.field) == field
    if change is not None:
        mended = record.decode_record(change.applied(SOUND))
        assert (mended.topic, mended.queue_id, mended.queue_offset) == (unit.topic, unit.queue_id, unit.queue_offset)


def test_two_units_tell_nothing() -> None:
    assert corrections.of_queue_position(SOUND, DECODED, [replace(UNIT, queue_id=2), replace(UNIT, queue_id=1)]) is None


@pytest.mark.parametrize(("bits", "prepared", "true"), [(0xC, 0, 0), (0x4, 0, 0), (0xC, 900, 0x8), (0x0, 0, None), (0x8, 900, None)])
def test_the_transaction_type_of_a_record_in_a_queue(bits: int, prepared: int, true: int | None) -> None:
    harmed = replace(DECODED, sys_flag=bits, prepared_transaction_offset=prepared)
    change = corrections.of_sys_flag(harmed, compressed=True, queued=True)
    assert (None if change is None else int.from_bytes(change.new, "big")) == true
