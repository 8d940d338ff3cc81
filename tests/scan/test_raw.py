"""Byte search, Java hashes and CRC-32 of compiled code against what Python says."""

from __future__ import annotations

import zlib

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numba import njit

from rmqstore.formats.javahash import java_hash
from rmqstore.scan import machinecode
from rmqstore.scan.kernels.raw import crc32, find_byte, first_nonzero, java_hash_utf8

machinecode.add_symbols()  # for what is compiled in this process

EIGHT_TIMES = 0x0101010101010101


@njit
def _find(base: int, start: int, end: int, pattern: int) -> int:
    return find_byte(base, start, end, pattern)


@njit
def _hash(state: int, base: int, start: int, end: int) -> tuple[int, bool]:
    return java_hash_utf8(state, base, start, end)


@njit
def _crc(base: int, start: int, length: int) -> int:
    return crc32(base, start, length)


def address(data: bytes) -> tuple[np.ndarray, int]:
    """The bytes in memory that must be kept, and their address."""
    memory = np.frombuffer(data + b"\x00", np.uint8)
    return memory, memory.ctypes.data


def hash_of(data: bytes, state: int = 0) -> tuple[int, bool]:
    memory, base = address(b"\x7f\xff" * 16 + data)
    value, well_formed = _hash(state, base, 32, 32 + len(data))
    del memory
    return int(value) % 2**32, well_formed


@given(st.binary(max_size=80), st.integers(0, 255), st.integers(0, 20))
@example(b"\x80\x81" * 20, 0x01, 0)
@example(b"\x01\x00" * 20, 0x00, 0)
@settings(deadline=None)
def test_find_byte(data: bytes, byte: int, start: int) -> None:
    memory, base = address(data)
    start = min(start, len(data))

    found = _find(base, start, len(data), np.uint64(byte * EIGHT_TIMES))

    position = data.find(bytes([byte]), start)
    assert found == (position if position >= 0 else len(data))
    assert memory.size == len(data) + 1


@given(st.integers(0, 200), st.binary(max_size=3), st.integers(0, 70), st.integers(0, 10))
@settings(deadline=None)
def test_first_nonzero(zeros: int, rest: bytes, behind: int, start: int) -> None:
    data = bytes(zeros) + rest + bytes(behind)
    memory, base = address(data)
    start = min(start, len(data))

    expected = next((position for position in range(start, len(data)) if data[position]), len(data))

    assert first_nonzero(base, start, len(data)) == expected
    assert memory.size == len(data) + 1


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
@example("")
@example("😀" * 5)
@example("Aa" * 8 + "é")
@example("polygenelubricants")  # the hash is the smallest integer
@settings(deadline=None)
def test_hash_of_text(text: str) -> None:
    assert hash_of(text.encode()) == (java_hash(text) % 2**32, True)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), st.text(st.characters(exclude_categories=["Cs"]), max_size=12))
@settings(deadline=None)
def test_a_hash_goes_on_where_another_ended(first: str, second: str) -> None:
    assert hash_of(second.encode(), hash_of(first.encode())[0]) == (java_hash(first + second) % 2**32, True)


@given(st.binary(max_size=24))
@example(b"abcdefgh\xed\xa0\x80")
@example(b"abcdefg\xc0\x80")
@example(b"\xf4\x90\x80\x80")
@example(b"\xe0\x80\x80")
@example(b"\xf0\x8f\xbf\xbf")
@example(b"abcdefghabc\xe2\x82")
@settings(deadline=None)
def test_bytes_are_text_for_the_kernel_when_they_are_for_python(data: bytes) -> None:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        assert not hash_of(data)[1]
    else:
        assert hash_of(data) == (java_hash(text) % 2**32, True)


@given(st.binary(max_size=300), st.integers(0, 40))
@settings(deadline=None)
def test_crc(data: bytes, start: int) -> None:
    memory, base = address(data)
    start = min(start, len(data))

    assert int(_crc(base, start, len(data) - start)) % 2**32 == zlib.crc32(data[start:])
    assert memory.size == len(data) + 1


def test_crc_of_many_bytes() -> None:
    data = np.random.default_rng(3).integers(0, 256, 1 << 20, np.uint8)
    for length in (1, 63, 64, 65, 4095, 4096, 4097, data.size):
        assert int(_crc(data.ctypes.data, 0, length)) % 2**32 == zlib.crc32(data[:length].tobytes())
