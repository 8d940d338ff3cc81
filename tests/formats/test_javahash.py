"""Java's strings: hashes, malformed UTF-8, integers."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rmqstore.formats.javahash import LONG_MAX, LONG_MIN, decode_java_utf8, index_key_hash, java_hash, parse_java_integer


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("TagA", 2598919),
        ("标签", 857175),
        ("polygenelubricants", -(2**31)),
        ("\U0001f600", 31 * 0xD83D + 0xDE00),
        ("\ud800", 0xD800),
    ],
)
def test_java_hash(text: str, expected: int) -> None:
    assert java_hash(text) == expected


def test_index_keys_of_a_record_that_a_broker_wrote() -> None:
    # Items 1, 2 and 4 of the index of a store of 5.4.0; the record is PLAIN_5_4_0 of test_record.py.
    keys = ["9DC573C02EC14D35473B157B5209FFA9", "dup", "k0"]
    assert [index_key_hash("Orders", key) for key in keys] == [0x6E40AC0A, 0x5B234C7F, 0x60282763]


def test_the_hash_without_absolute_value_counts_as_zero() -> None:
    # "polygenelubricants" hashes to Integer.MIN_VALUE; these are a topic and a key that do so with the sign between them.
    topic, key = min_value_key()
    assert java_hash(f"{topic}#{key}") == -(2**31)
    assert index_key_hash(topic, key) == 0


def min_value_key() -> tuple[str, str]:
    """A topic and a key whose index key hashes to −2³¹: the last two units are solved for."""
    for first in range(0x20, 0xD800):
        key = chr(first) * 4
        rest = (-(2**31) - java_hash(f"t#{key}") * 31**2) % 2**32
        high, low = divmod(rest, 31)
        if 0x20 <= high < 0xD800:
            return "t", key + chr(high) + chr(low)
    raise AssertionError("no such key")


def jdk_decode(data: bytes) -> str:
    """`String.decodeUTF8_UTF16` of JDK 17, step by step."""
    out: list[str] = []
    position, end = 0, len(data)

    def continues(byte: int) -> bool:
        return byte & 0xC0 == 0x80

    while position < end:
        b1 = data[position]
        position += 1
        left = end - position
        if b1 < 0x80:
            out.append(chr(b1))
        elif b1 >> 5 == 0b110 and b1 & 0x1E:
            if left < 1:
                out.append("\ufffd")
                break
            if continues(data[position]):
                out.append(chr((b1 & 0x1F) << 6 | data[position] & 0x3F))
                position += 1
            else:
                out.append("\ufffd")
        elif b1 >> 4 == 0b1110:
            if left >= 2:
                b2, b3 = data[position], data[position + 1]
                if (b1 == 0xE0 and b2 & 0xE0 == 0x80) or not continues(b2):
                    out.append("\ufffd")
                elif not continues(b3):
                    out.append("\ufffd")
                    position += 1
                else:
                    unit = (b1 & 0x0F) << 12 | (b2 & 0x3F) << 6 | b3 & 0x3F
                    out.append("\ufffd" if 0xD800 <= unit <= 0xDFFF else chr(unit))
                    position += 2
                continue
            out.append("\ufffd")
            if left == 1 and ((b1 == 0xE0 and data[position] & 0xE0 == 0x80) or not continues(data[position])):
                continue
            break
        elif b1 >> 3 == 0b11110:
            bad_second = left >= 1 and (
                (b1 == 0xF0 and not 0x90 <= data[position] <= 0xBF)
                or (b1 == 0xF4 and data[position] & 0xF0 != 0x80)
                or not continues(data[position])
            )
            if left >= 3:
                b2, b3, b4 = data[position : position + 3]
                point = (b1 & 0x07) << 18 | (b2 & 0x3F) << 12 | (b3 & 0x3F) << 6 | b4 & 0x3F
                if continues(b2) and continues(b3) and continues(b4) and 0x10000 <= point <= 0x10FFFF:
                    out.append(chr(point))
                    position += 3
                else:
                    out.append("\ufffd")
                    position += 0 if b1 > 0xF4 or bad_second else 1 if not continues(b3) else 2
                continue
            out.append("\ufffd")
            if b1 > 0xF4 or bad_second:
                continue
            position += 1
            if position < end and not continues(data[position]):
                continue
            break
        else:
            out.append("\ufffd")
    return "".join(out)


INTERESTING = st.sampled_from(
    [0x41, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC3, 0xE0, 0xE1, 0xED, 0xEF, 0xF0, 0xF1, 0xF4, 0xF5, 0xF8, 0xFF]
)


@settings(max_examples=1500, deadline=None)
@given(data=st.lists(INTERESTING | st.integers(0, 255), max_size=10).map(bytes))
@example(data=bytes.fromhex("eda080"))
@example(data=bytes.fromhex("eda0"))
@example(data=bytes.fromhex("eda041"))
@example(data=bytes.fromhex("f48fbfbf"))
def test_malformed_utf8_is_decoded_as_the_jdk_decodes_it(data: bytes) -> None:
    assert decode_java_utf8(data) == jdk_decode(data)


def test_an_encoded_surrogate_is_one_character() -> None:
    assert decode_java_utf8(memoryview(b"a\xed\xa0\x80b")) == "a\ufffdb"


@pytest.mark.parametrize(
    ("text", "expected"), [("7", 7), ("+7", 7), ("-7", -7), ("007", 7), ("٣", 3), ("2147483647", 2**31 - 1), ("-2147483648", -(2**31))]
)
def test_java_integers(text: str, expected: int) -> None:
    assert parse_java_integer(text) == expected


@pytest.mark.parametrize("text", ["", " 7", "7 ", "1_0", "0x1", "1.0", "+", "--1", "2147483648", "-2147483649", "7\n"])
def test_what_is_no_java_integer(text: str) -> None:
    assert parse_java_integer(text) is None


def test_java_longs() -> None:
    assert parse_java_integer(str(2**63 - 1), LONG_MIN, LONG_MAX) == 2**63 - 1
    assert parse_java_integer(str(2**63), LONG_MIN, LONG_MAX) is None
