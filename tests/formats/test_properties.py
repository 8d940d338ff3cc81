"""The property block and the checksums."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqstore.formats.crc import NAMED_CRCS, body_crc
from rmqstore.formats.properties import (
    CRC_BLOCK_LENGTH,
    build_properties,
    decode_property_crc,
    encode_property_crc,
    parse_properties,
    property_crc_block,
)

TEXT = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=20)


@settings(deadline=None)
@given(properties=st.dictionaries(TEXT, TEXT), trailing=st.booleans())
def test_parsing_and_building_are_inverse(properties: dict[str, str], trailing: bool) -> None:
    block = build_properties(properties, trailing)
    assert parse_properties(block) == properties
    assert build_properties(parse_properties(block), trailing) == block
    assert block.endswith(b"\x02") is (trailing and bool(properties))


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        # Batch records of 4.9.8 and 5.3.3 with the same properties.
        (b"WAIT\x01true\x02TAGS\x01TagB\x02CLUSTER\x01DefaultCluster", {"WAIT": "true", "TAGS": "TagB", "CLUSTER": "DefaultCluster"}),
        (b"WAIT\x01true\x02TAGS\x01TagB\x02CLUSTER\x01DefaultCluster\x02", {"WAIT": "true", "TAGS": "TagB", "CLUSTER": "DefaultCluster"}),
        (b"", {}),
        (b"\x02\x02", {}),
        (b"a\x01b\x02a\x01c", {"a": "c"}),
        (b"a\x01b\x01c", {"a": "b\x01c"}),
        (b"a\x01\x02\x01b\x02c\x02d\x01e", {"d": "e"}),
        (b"a\x01\xff", {"a": "\ufffd"}),
    ],
)
def test_reader_rules(block: bytes, expected: dict[str, str]) -> None:
    assert parse_properties(block) == expected


@pytest.mark.parametrize("properties", [{"": "a"}, {"a": ""}, {"a\x01": "b"}, {"a": "b\x02"}, {"a": "b" * 32767}])
def test_what_a_block_cannot_hold(properties: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"propert"):
        build_properties(properties)


@pytest.mark.parametrize(("crc", "digits"), [(2147483647, b"7463847412"), (123, b"3210000000"), (0, b"0000000000")])
def test_property_crc_digits_stand_in_reverse(crc: int, digits: bytes) -> None:
    assert encode_property_crc(crc) == digits
    assert decode_property_crc(digits.decode()) == crc


@given(crc=st.integers(0, 2**31 - 1))
def test_property_crc_is_inverse(crc: int) -> None:
    assert decode_property_crc(encode_property_crc(crc).decode()) == crc
    assert len(property_crc_block(crc)) == CRC_BLOCK_LENGTH == 20


def test_property_crc_wraps_like_a_java_int() -> None:
    assert decode_property_crc("8463847412") == -(2**31)
    assert decode_property_crc("0") == 0


@pytest.mark.parametrize("name", ["body_crc", "property_crc", "epoch_crc"])
def test_named_crcs_are_crc32_without_the_top_bit(name: str) -> None:
    # The check value of CRC-32 is CBF43926.
    assert NAMED_CRCS[name](b"123456789") == 0x4BF43926
    assert NAMED_CRCS[name](b"") == 0


@settings(deadline=None)
@given(data=st.binary(max_size=100))
def test_crc_of_any_buffer(data: bytes) -> None:
    assert body_crc(data) == body_crc(bytearray(data)) == body_crc(memoryview(data)) == zlib.crc32(data) & 0x7FFFFFFF
