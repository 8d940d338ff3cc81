"""Both message ids and the text of hosts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqstore.formats.host import format_host, parse_host
from rmqstore.formats.message_id import (
    OffsetMessageId,
    UniqueKey,
    decode_offset_message_id,
    decode_unique_key,
    encode_offset_message_id,
    encode_unique_key,
)

ADDRESSES = st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16)
INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
SHORTS = st.integers(0, 2**16 - 1)


def test_ids_that_a_broker_and_a_client_gave() -> None:
    # A client of 5.3.3 got these from a broker on 127.0.0.1:34369 for a record at physical offset 48.
    assert decode_offset_message_id("7F000001000086410000000000000030") == OffsetMessageId("127.0.0.1:34369", 48)
    assert decode_unique_key("C000020228144E0E2F2A6946BA4B0000") == UniqueKey(bytes([192, 0, 2, 2]), 0x2814, 0x4E0E2F2A, 0x6946BA4B, 0)


@settings(deadline=None)
@given(address=ADDRESSES, port=INTS, offset=LONGS)
def test_offset_message_ids_are_inverse(address: bytes, port: int, offset: int) -> None:
    text = encode_offset_message_id(format_host(address, port), offset)
    assert len(text) == {4: 32, 16: 56}[len(address)]
    assert decode_offset_message_id(text) == OffsetMessageId(format_host(address, port), offset)
    assert text == text.upper()


@settings(deadline=None)
@given(key=st.builds(UniqueKey, ADDRESSES, SHORTS, INTS, INTS, SHORTS))
def test_unique_keys_are_inverse(key: UniqueKey) -> None:
    assert decode_unique_key(encode_unique_key(key)) == key


@pytest.mark.parametrize("text", ["", "7F", "zz" * 16, "7F000001000086410000000000000030 ", "7F" * 17, " 7" * 16])
def test_what_is_no_message_id(text: str) -> None:
    with pytest.raises(ValueError, match="hex"):
        decode_offset_message_id(text)


@given(address=ADDRESSES, port=INTS)
def test_hosts_are_inverse(address: bytes, port: int) -> None:
    assert parse_host(format_host(address, port)) == (address, port)


def test_ipv6_hosts_stand_in_brackets() -> None:
    assert format_host(bytes.fromhex("fe800000000000000000000000000001"), 10911) == "[fe80::1]:10911"


@pytest.mark.parametrize("text", ["", "10.9.8.7", "fe80::1:10911", "[10.9.8.7]:1", "10.9.8.7:port", "host:1"])
def test_what_is_no_host(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_host(text)
