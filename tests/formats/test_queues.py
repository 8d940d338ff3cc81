"""Units of consume queues, ext queues and batch queues, and the names of their files."""

from __future__ import annotations

import pytest
from construct import ConstructError
from hypothesis import given
from hypothesis import strategies as st

from rmqstore.formats import batchconsumequeue, consumequeue, consumequeue_ext
from rmqstore.formats.delay import DEFAULT_DELAY_LEVELS, deliver_timestamp, parse_delay_levels
from rmqstore.formats.naming import offset_to_file_name


def test_a_unit_that_5_3_3_wrote() -> None:
    raw = bytes.fromhex("0000000000001a0c00000134000000000027a807")
    unit = consumequeue.UNIT.parse(raw)
    assert (unit.physical_offset, unit.size, unit.tags_code) == (6668, 308, 2598919)
    assert consumequeue.UNIT.build(unit) == raw


def test_special_units() -> None:
    assert consumequeue.PRE_BLANK.hex() == "00000000000000007fffffff0000000000000000"
    assert consumequeue.ZERO_UNIT.hex() == "00" * 20


@pytest.mark.parametrize(("configured", "expected"), [(6_000_000, 6_000_000), (1, 20), (400, 400), (401, 420)])
def test_queue_files_hold_whole_units(configured: int, expected: int) -> None:
    assert consumequeue.file_size(configured) == expected


def test_default_lengths() -> None:
    assert consumequeue.DEFAULT_FILE_SIZE == 6_000_000
    assert batchconsumequeue.DEFAULT_FILE_SIZE == 13_800_000
    assert consumequeue_ext.DEFAULT_FILE_SIZE == 50_331_648


def test_an_ext_unit_that_5_3_3_wrote() -> None:
    raw = bytes.fromhex("0022000000000000007a000001a1fd76ed75000e55332ce664d5a3db6edb75011339")
    unit = consumequeue_ext.UNIT.parse(raw)
    assert (unit.size, unit.tags_code, unit.msg_store_time, unit.bit_map_size) == (34, 122, 1795253792117, 14)
    assert unit.filter_bit_map.hex() == "55332ce664d5a3db6edb75011339"
    assert consumequeue_ext.UNIT.build(unit) == raw


@pytest.mark.parametrize("raw", ["0021" + "00" * 16 + "000e" + "00" * 14, "ffff" + "00" * 18, "0014" + "00" * 16 + "ffff", "0000"])
def test_an_ext_unit_with_inconsistent_lengths_is_refused(raw: str) -> None:
    with pytest.raises(ConstructError):
        consumequeue_ext.UNIT.parse(bytes.fromhex(raw))


def test_ext_addresses() -> None:
    # The first unit of queue TopicA 0 in a store of 5.3.3 holds 8000000000000000.
    assert consumequeue_ext.encode_address(0) == -(2**63)
    assert consumequeue_ext.is_address(-2147483649)
    assert not any(map(consumequeue_ext.is_address, (-2147483648, 0, 2598919, 1795253792117)))


@given(offset=st.integers(0, 2**62))
def test_ext_addresses_are_inverse(offset: int) -> None:
    address = consumequeue_ext.encode_address(offset)
    assert consumequeue_ext.is_address(address)
    assert consumequeue_ext.decode_address(address) == offset


def test_a_batch_unit_that_5_1_4_wrote() -> None:
    raw = bytes.fromhex("0000000000000c310000029affffffff80000000000001a1fd76cade00000000000000010002ffffffff00000000")
    unit = batchconsumequeue.UNIT.parse(raw)
    assert (unit.physical_offset, unit.size, unit.tags_code, unit.store_time) == (3121, 666, -(2**31), 1795253783262)
    assert (unit.msg_base_offset, unit.batch_size, unit.compacted_offset, unit.reserved) == (1, 2, -1, 0)
    assert batchconsumequeue.UNIT.build(unit) == raw


def test_the_end_unit_of_a_sparse_queue() -> None:
    assert batchconsumequeue.SPARSE_END.hex() == "ff" * 8 + "00" * 4 + "00" * 8 + "00" * 8 + "00" * 8 + "00" * 2 + "ff" * 4 + "00" * 4


def test_delay_levels() -> None:
    seconds = [1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200]
    assert list(DEFAULT_DELAY_LEVELS) == [second * 1000 for second in seconds]
    assert parse_delay_levels("2d 3s ") == (172_800_000, 3_000)
    assert [deliver_timestamp(7, level, (10, 20)) for level in (-1, 0, 1, 2, 3)] == [None, None, 17, 27, 27]
    assert deliver_timestamp(7, 1, ()) is None


def test_times_of_delay_wrap_around_as_in_java() -> None:
    assert deliver_timestamp(2**63 - 10, 1, (10,)) == -(2**63)
    assert parse_delay_levels("9223372036854775807s") == (-1000,)


@pytest.mark.parametrize("text", ["", "1", "s", "1s  2s", " 1s", "1x", "1.5s", "1s,2s"])
def test_delay_levels_that_keep_a_broker_from_starting(text: str) -> None:
    with pytest.raises(ValueError, match="delay level"):
        parse_delay_levels(text)


def test_file_names() -> None:
    assert offset_to_file_name(1073741824) == "00000000001073741824"
