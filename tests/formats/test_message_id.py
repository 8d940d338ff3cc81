"""Both message ids and the text of hosts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqstore.formats.host import format_host, parse_host
from rmqstore.formats.message_id import OFFSET_MESSAGE_ID_V4, OFFSET_MESSAGE_ID_V6, UNIQUE_KEY_V4, encode_offset_message_id

ADDRESSES = st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16)
INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)


def test_ids_that_a_broker_and_a_client_gave() -> None:
    # A client of 5.3.3 got these from a broker on 127.0.0.1:34369 for a record at physical offset 48.
    assert encode_offset_message_id("127.0.0.1:34369", 48) == "7F000001000086410000000000000030"
    key = UNIQUE_KEY_V4.parse(bytes.fromhex("C000020228144E0E2F2A6946BA4B0000"))
    assert (key.address, key.process_id, key.class_loader_hash) == (bytes([192, 0, 2, 2]), 0x2814, 0x4E0E2F2A)
    assert (key.milliseconds, key.counter) == (0x6946BA4B, 0)


@settings(deadline=None)
@given(address=ADDRESSES, port=INTS, offset=LONGS)
def test_offset_message_ids_have_every_field(address: bytes, port: int, offset: int) -> None:
    text = encode_offset_message_id(format_host(address, port), offset)
    found = {32: OFFSET_MESSAGE_ID_V4, 56: OFFSET_MESSAGE_ID_V6}[len(text)].parse(bytes.fromhex(text))
    assert (found.address, found.port, found.physical_offset) == (address, port, offset)
    assert text == text.upper()


@given(address=ADDRESSES, port=INTS)
def test_hosts_are_inverse(address: bytes, port: int) -> None:
    assert parse_host(format_host(address, port)) == (address, port)


def test_ipv6_hosts_stand_in_brackets() -> None:
    assert format_host(bytes.fromhex("fe800000000000000000000000000001"), 10911) == "[fe80::1]:10911"


@pytest.mark.parametrize("text", ["", "10.9.8.7", "fe80::1:10911", "[10.9.8.7]:1", "10.9.8.7:port", "host:1"])
def test_what_is_no_host(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_host(text)
