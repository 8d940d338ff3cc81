"""The timer's files."""

from __future__ import annotations

import pytest
from construct import ConstructError

from rmqstore.formats import timer


def test_a_unit_that_5_3_3_wrote() -> None:
    raw = bytes.fromhex("00000034000000000000000000000001000001a1fd83e16800000bb800000000002d3bfa000001ab05b0b9830000000000000000")
    unit = timer.LOG_UNIT.parse(raw)
    assert (unit.size, unit.prev_pos, unit.magic, unit.write_time, unit.delay) == (52, 0, timer.UnitMagic.DEFAULT, 1795254641000, 3000)
    assert (unit.offset_py, unit.size_py, unit.topic_hash, unit.reserved) == (2964474, 427, 95467907, 0)
    assert timer.LOG_UNIT.build(unit) == raw


def test_a_blank_that_5_5_1_wrote() -> None:
    raw = bytes.fromhex("0000001c0000000000000000cbd43194")
    assert timer.LOG_BLANK.parse(raw).size == 28
    assert timer.LOG_BLANK.build({"size": 28, "prev_pos": 0}) == raw
    assert raw[12:] == bytes([0xCB, 0xD4, 0x31, 0x94])


def test_the_blank_magic_as_java_computes_it() -> None:
    assert timer.LOG_BLANK_MAGIC == 0xBBCCDDEE ^ (1880681586 + 8)


def test_a_unit_is_no_blank() -> None:
    with pytest.raises(ConstructError):
        timer.LOG_BLANK.parse(bytes.fromhex("00000034000000000000000000000001"))


def test_a_slot_that_5_3_3_wrote() -> None:
    slot = timer.WHEEL_SLOT.parse(bytes.fromhex("000000006b01697400000000000000000000000000001fe40000001a00000000"))
    assert (slot.time, slot.first_pos, slot.last_pos, slot.num, slot.magic) == (0x6B016974, 0, 8164, 26, 0)
    # It stands in slot 208244 of a wheel of 1000 ms.
    assert slot.time % timer.WHEEL_SLOTS == 208_244


def test_a_timercheck_that_5_3_3_wrote() -> None:
    raw = bytes.fromhex("000001a1fd84f2d8000000000000397c000000000000011b000000000000011b0000000000000000000001a1fd84f3d6000000000000003e")
    check = timer.parse_check(raw)
    assert (check.last_read_time_ms, check.last_timer_log_flush_pos) == (1795254711000, 14716)
    assert (check.last_timer_queue_offset, check.master_timer_queue_offset) == (283, 283)
    assert (check.data_version_state_version, check.data_version_timestamp, check.data_version_counter) == (0, 1795254711254, 62)
    assert timer.CHECK.build(check) == raw + bytes(4096 - 56)


def test_a_short_timercheck_is_continued_with_zeros() -> None:
    check = timer.parse_check(bytes(7) + b"\5")
    assert (check.last_read_time_ms, check.data_version_counter) == (5, 0)


@pytest.mark.parametrize(("file_size", "expected"), [(104_857_600, 104_857_532), (8192, 8112)])
def test_the_last_unit_of_a_file(file_size: int, expected: int) -> None:
    assert timer.last_unit_position(file_size) == expected


def test_lengths() -> None:
    assert timer.WHEEL_FILE_SIZE == 38_707_200
    assert timer.DEFAULT_LOG_FILE_SIZE == 104_857_600
