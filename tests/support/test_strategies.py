"""The strategies give what they promise."""

from __future__ import annotations

from hypothesis import given

from rmqstore.formats.record import decode_record
from tests.support import strategies


@given(strategies.records())
def test_records_are_valid(data: bytes) -> None:
    assert decode_record(data).size == len(data)


@given(strategies.logs())
def test_logs_are_whole_records_at_home(data: bytes) -> None:
    position = 0
    while position < len(data):
        found = decode_record(data, position)
        assert found.physical_offset == position
        position += found.size
