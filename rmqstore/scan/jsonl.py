"""Compiled JSON: commit-log bytes straight to the JSON lines of `dump`, without a Python object per record.

This is the second of two ways to the same text; the first one is `rmqstore.dump.message`, and a property test checks that they agree
byte for byte. Records that need judgement (damage, malformed UTF-8, repeated property names, IPv6 hosts) are not written here: the
kernel stops before them and its caller uses the first way.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from rmqstore.formats.naming import SCHEDULE_TOPIC
from rmqstore.formats.properties import DELAY, KEYS, TAGS, UNIQ_KEY
from rmqstore.jsonschema import SCHEMA
from rmqstore.scan.kernels.declare import kernel, part
from rmqstore.scan.kernels.offsets import (
    BODY_CRC,
    BORN_HOST,
    BORN_HOST_V6,
    BORN_TIMESTAMP,
    FLAG,
    HOST_V4_WIDTH,
    MAGIC,
    MAGIC_V1,
    MAGIC_V2,
    MIN_SIZE,
    PHYSICAL_OFFSET,
    QUEUE_ID,
    QUEUE_OFFSET,
    SIZE,
    STORE_HOST_V6,
    SYS_FLAG,
)
from rmqstore.scan.kernels.raw import (
    HIGH_BITS,
    LOW_BITS,
    be32,
    be32u,
    be64,
    crc32,
    find_byte,
    java_hash_utf8,
    le64,
    native64,
    store8,
    store64,
    trailing_zeros,
    u8,
)
from rmqstore.scan.kernels.record import structure
from rmqstore.scan.kernels.rows import fields_reader, fields_writer

_STORE_TIMESTAMP = BORN_HOST + HOST_V4_WIDTH
_STORE_HOST = _STORE_TIMESTAMP + 8
_RECONSUME_TIMES = _STORE_HOST + HOST_V4_WIDTH
_PREPARED = _RECONSUME_TIMES + 4
_V6 = BORN_HOST_V6 | STORE_HOST_V6

MAX_PROPERTIES = 64
# Room for one record in the output: labels and numbers, six characters for each byte of text, four more for each property.
_FIXED_ROOM = 1280
_TOPIC_ROOM = 6
_PROPERTIES_ROOM = 14
SMALLEST_OUTPUT = _FIXED_ROOM + 255 * _TOPIC_ROOM + 32767 * (_TOPIC_ROOM + _PROPERTIES_ROOM)
"""Bytes of output buffer with which every record can be written."""


class Ending(IntEnum):
    """Why the kernel returned."""

    DONE = 0  # at or after `last`
    ODD = 1  # the bytes at the returned position must be read the other way
    FULL = 2  # no room for the next record in the output


# The selected records; ranges are inclusive. Texts are addresses and lengths; the address 0 accepts any value.
_RANGES = ("queue_id_low", "queue_id_high", "queue_offset_low", "queue_offset_high", "store_timestamp_low", "store_timestamp_high")
# A key is equal to UNIQ_KEY or to one of the blank-separated KEYS.
_WANTED_TEXTS = ("topic", "topic_length", "tag", "tag_length", "key", "key_length")
WANTED_DTYPE = np.dtype([(name, "i8") for name in (*_RANGES, *_WANTED_TEXTS)])

# A property of one record: bytes from the start of the window, the first bytes of the name, and a fingerprint of the whole name.
SPAN_DTYPE = np.dtype([("name", "i8"), ("name_end", "i8"), ("value_end", "i8"), ("word", "i8"), ("fingerprint", "i8")])

_DONE, _ODD, _FULL = int(Ending.DONE), int(Ending.ODD), int(Ending.FULL)

_NAME_END = np.uint64(0x0101010101010101)
_PROPERTY_END = np.uint64(0x0202020202020202)
_BLANKS = np.uint64(0x2020202020202020)
_QUOTES = np.uint64(0x2222222222222222)
_BACKSLASHES = np.uint64(0x5C5C5C5C5C5C5C5C)
_UNICODE_ESCAPE = np.uint64(int.from_bytes(b"\\u000000", "little"))
_ZERO = np.uint64(0)
_HUNDRED_MILLION = np.uint64(100_000_000)
_DIGITS = 0x3030303030303030
_LAST_DIGIT = 1 << 56
_QUOTE, _BACKSLASH, _COMMA, _MINUS = b'"\\,-'


def _word(name: str) -> int:
    """Return a property name of up to eight characters as the integer that `_name_word` makes of its bytes."""
    return int.from_bytes(name.encode("ascii"), "little")


_TAGS_NAME, _KEYS_NAME, _UNIQ_KEY_NAME, _DELAY_NAME = _word(TAGS), _word(KEYS), _word(UNIQ_KEY), _word(DELAY)
_TAGS_LENGTH, _KEYS_LENGTH, _UNIQ_KEY_LENGTH, _DELAY_LENGTH = len(TAGS), len(KEYS), len(UNIQ_KEY), len(DELAY)
_SCHEDULE_TOPIC = np.frombuffer(SCHEDULE_TOPIC.encode("ascii"), np.uint8)


_INT32, _INT64, _MAGIC_CODE, _HOST, _BODY_LENGTH = range(5)
# The numbers and hosts at the front of an object, in the order of their keys: (key, kind, place in the record).
_FRONT = (
    ("physical_offset", _INT64, PHYSICAL_OFFSET),
    ("size", _INT32, SIZE),
    ("magic", _MAGIC_CODE, MAGIC),
    ("body_crc", _INT32, BODY_CRC),
    ("queue_id", _INT32, QUEUE_ID),
    ("flag", _INT32, FLAG),
    ("queue_offset", _INT64, QUEUE_OFFSET),
    ("sys_flag", _INT32, SYS_FLAG),
    ("born_timestamp", _INT64, BORN_TIMESTAMP),
    ("born_host", _HOST, BORN_HOST),
    ("store_timestamp", _INT64, _STORE_TIMESTAMP),
    ("store_host", _HOST, _STORE_HOST),
    ("reconsume_times", _INT32, _RECONSUME_TIMES),
    ("prepared_transaction_offset", _INT64, _PREPARED),
    ("body_length", _BODY_LENGTH, 0),
)
_FRONT_KINDS = np.array([kind for _, kind, _ in _FRONT], np.int64)
_FRONT_PLACES = np.array([place for _, _, place in _FRONT], np.int64)
_TEXTS = [
    *(("," if number else f'{{"type":"message","schema":{SCHEMA},') + f'"{key}":' for number, (key, _, _) in enumerate(_FRONT)),
    ',"topic":"',
    '","properties":{',
    '":"',
    '},"tags":',
    ',"keys":',
    ',"unique_key":',
    ',"offset_message_id":"',
    '","tags_code":',
    ',"position":',
    "}\n",
    "null",
]
# As numpy's numbers: a plain constant is a type of its own to the compiler, and every function that receives it is compiled again.
_TOPIC, _PROPERTIES, _COLON, _TAGS_KEY, _KEYS_KEY, _UNIQUE_KEY, _MESSAGE_ID, _TAGS_CODE, _POSITION, _END, _NULL = (
    np.int64(number) for number in range(len(_FRONT), len(_TEXTS))
)
_NOWHERE = _NOTHING = np.int64(0)
_TEXT_LENGTHS = np.array([len(text) for text in _TEXTS], np.int64)
_TEXT_WORDS = np.array([np.frombuffer(text.encode("ascii").ljust(48, b"\0"), np.int64) for text in _TEXTS])

_SPAN_SIZE = SPAN_DTYPE.itemsize
_read_ranges, _read_texts = fields_reader(WANTED_DTYPE, *_RANGES), fields_reader(WANTED_DTYPE, *_WANTED_TEXTS)
_read_span = fields_reader(SPAN_DTYPE, "name", "name_end", "value_end", "word")
_read_fingerprint = fields_reader(SPAN_DTYPE, "fingerprint")
_write_span = fields_writer(SPAN_DTYPE)

_SHORT_ESCAPES = {8: "b", 9: "t", 10: "n", 12: "f", 13: "r", 0x22: '"', 0x5C: "\\"}
# For each ASCII byte: 0 = itself, 1 = four-digit escape, else the character after the backslash.
_ESCAPES = np.array([ord(_SHORT_ESCAPES.get(code, "\1" if code < 32 else "\0")) for code in range(128)], np.int64)
_HEX_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_HOST_MARKS = np.frombuffer(b'...:"', np.uint8)
# By first byte from 0x80 on; 0 = no character begins with it.
_SEQUENCE_LENGTHS = np.array([0] * 66 + [2] * 30 + [3] * 16 + [4] * 5 + [0] * 11, np.int64)


@part
def _put_constant(out: int, at: int, text: int) -> int:
    """Write one of the constant texts; up to seven bytes more are touched."""
    length = _TEXT_LENGTHS[text]
    for word in range((length + 7) >> 3):
        store64(out, at + 8 * word, _TEXT_WORDS[text, word])
    return at + length


@part
def _digits(value: int) -> int:
    """Return eight decimal digits (0 to 9 each, the highest in the lowest byte) of an int64 from 0 to 10**8 - 1."""
    high = value // 10000
    word = high | ((value - high * 10000) << 32)
    hundreds = ((word * 10486) >> 20) & 0x0000007F0000007F
    word = hundreds | ((word - hundreds * 100) << 16)
    tens = ((word * 103) >> 10) & 0x000F000F000F000F
    return tens | ((word - tens * 10) << 8)


@part
def put_number(out: int, at: int, number: int) -> int:
    """Write an int64 as decimal text at out + at (up to 27 bytes are touched) and return the offset after it."""
    value = np.uint64(number)
    if number < 0:
        store8(out, at, _MINUS)
        at += 1
        value = _ZERO - value
    rest = np.int64(value // _HUNDRED_MILLION)
    low = np.int64(value % _HUNDRED_MILLION)
    top = rest // 100_000_000
    middle = rest - top * 100_000_000
    leading = top if top else (middle if rest else low)
    word = _digits(leading) | _DIGITS
    # All but the last of the eight digits may be leading zeros.
    zeros = trailing_zeros((word ^ _DIGITS) | _LAST_DIGIT) >> 3
    store64(out, at, word >> (8 * zeros))
    at += 8 - zeros
    if top:
        store64(out, at, _digits(middle) | _DIGITS)
        at += 8
    if rest:
        store64(out, at, _digits(low) | _DIGITS)
        at += 8
    return at


@part
def _put_hex(out: int, at: int, base: int, start: int) -> int:
    """Write four bytes as eight upper-case hexadecimal digits."""
    word = be32u(base, start)
    # Each nibble of the big-endian value into a byte of its own, the highest one into the lowest byte.
    nibbles = 0
    for index in range(8):
        nibbles |= ((word >> (28 - 4 * index)) & 15) << (8 * index)
    letters = ((nibbles + 0x0606060606060606) >> 4) & 0x0101010101010101
    store64(out, at, nibbles + _DIGITS + letters * 7)
    return at + 8


@part
def _put_host(out: int, at: int, base: int, start: int) -> int:
    """Write an IPv4 host as `"address:port"`."""
    store8(out, at, _QUOTE)
    at += 1
    for index in range(5):
        at = put_number(out, at, u8(base, start + index) if index < 4 else be32(base, start + 4))
        store8(out, at, _HOST_MARKS[index])
        at += 1
    return at


@part
def _sequence_length(base: int, start: int, end: int) -> int:
    """Return the bytes of the well-formed UTF-8 sequence at `start` whose first byte is above 0x7F; 0 if it is malformed."""
    lead = u8(base, start)
    length = _SEQUENCE_LENGTHS[lead - 128]
    if length == 0 or start + length > end:
        return 0
    point = lead
    for index in range(1, length):
        follow = u8(base, start + index)
        if follow & 0xC0 != 0x80:
            return 0
        point = point << 6 | follow & 0x3F
    # With the bits of the first byte on top: neither longer than needed, nor a surrogate, nor above U+10FFFF.
    if length == 3 and (point < 0xE0800 or 0xED800 <= point < 0xEE000):
        return 0
    if length == 4 and not 0x3C10000 <= point <= 0x3D0FFFF:
        return 0
    return length


@part
def put_text(out: int, at: int, base: int, start: int, end: int, readable: int) -> int:
    """Write the UTF-8 bytes [start, end) as the inside of a JSON string and return the offset after it, -1 if they are malformed.

    Bytes up to `readable` may be loaded. Up to 6 bytes per byte of text and 8 more are touched.
    """
    position = start
    while position < end:
        if position + 8 <= readable:
            word = le64(base, position)
            quotes = word ^ _QUOTES
            backslashes = word ^ _BACKSLASHES
            special = (quotes - LOW_BITS) & ~quotes
            special |= (backslashes - LOW_BITS) & ~backslashes
            special |= (word - _BLANKS) & ~word
            special = (special | word) & HIGH_BITS
            store64(out, at, word)
            clean = 8 if special == _ZERO else trailing_zeros(special) >> 3
            if clean >= end - position:
                return at + end - position
            position += clean
            at += clean
            if clean == 8:
                continue
        byte = u8(base, position)
        if byte >= 0x80:
            length = _sequence_length(base, position, end)
            if length == 0:
                return -1
            for index in range(length):
                store8(out, at + index, u8(base, position + index))
            at += length
            position += length
            continue
        position += 1
        short = _ESCAPES[byte]
        if short == 0:
            store8(out, at, byte)
            at += 1
        elif short > 1:
            store8(out, at, _BACKSLASH)
            store8(out, at + 1, short)
            at += 2
        else:
            store64(out, at, _UNICODE_ESCAPE)
            store8(out, at + 4, _HEX_DIGITS[byte >> 4])
            store8(out, at + 5, _HEX_DIGITS[byte & 15])
            at += 6
    return at


@part
def _put_property(out: int, at: int, key: int, base: int, start: int, end: int, readable: int) -> int:
    """Write a key and a property value as a JSON string, null if there is none; -1 if it is malformed."""
    at = _put_constant(out, at, key)
    if start == end:
        return _put_constant(out, at, _NULL)
    store8(out, at, _QUOTE)
    at = put_text(out, at + 1, base, start, end, readable)
    if at >= 0:
        store8(out, at, _QUOTE)
        at += 1
    return at


@part
def _name_word(base: int, start: int, end: int, readable: int) -> int:
    """Return the first up to eight bytes of [start, end) as an int64, the first one lowest."""
    length = end - start
    if length >= 8:
        return native64(base, start)
    if start + 8 <= readable:
        return native64(base, start) & ((1 << (8 * length)) - 1)
    word = 0
    for index in range(length):
        word |= u8(base, start + index) << (8 * index)
    return word


@part
def _equals(base: int, start: int, end: int, text: int, length: int) -> bool:
    if end - start != length:
        return False
    same = True
    for index in range(length):
        same = same and u8(base, start + index) == u8(text, index)
    return same


@part
def _has_key(base: int, start: int, end: int, key: int, length: int) -> bool:
    """Return whether one of the blank-separated keys in [start, end) is `key`."""
    while start < end:
        stop = find_byte(base, start, end, _BLANKS)
        if stop > start and _equals(base, start, stop, key, length):
            return True
        start = stop + 1
    return False


@part
def _is_schedule_topic(base: int, start: int, end: int) -> bool:
    same = end - start == _SCHEDULE_TOPIC.size
    for index in range(_SCHEDULE_TOPIC.size):
        same = same and u8(base, start + index) == _SCHEDULE_TOPIC[index]
    return same


@part
def _small_decimal(base: int, start: int, end: int) -> int:
    """Return a decimal number of one to nine digits, -1 for anything else."""
    if end - start < 1 or end - start > 9:
        return -1
    value = 0
    for position in range(start, end):
        digit = u8(base, position) - 48
        if digit < 0 or digit > 9:
            return -1
        value = value * 10 + digit
    return value


@part
def _split_properties(base: int, start: int, end: int, readable: int, spans: int) -> int:
    """Fill rows of SPAN_DTYPE of the kept properties; return their number, -1: malformed."""
    count = 0
    position = start
    while position < end:
        piece_end = find_byte(base, position, end, _PROPERTY_END)
        name_end = find_byte(base, position, piece_end, _NAME_END)
        if name_end > position and name_end + 1 < piece_end:
            if count == MAX_PROPERTIES:
                return -1
            length = name_end - position
            word = _name_word(base, position, name_end, readable)
            fingerprint = word ^ (length << 56)
            if length > 8:
                fingerprint = fingerprint * 0x1E3779B97F4A7C15 ^ native64(base, name_end - 8)
            for other in range(count):
                if _read_fingerprint(spans + other * _SPAN_SIZE) == fingerprint:
                    return -1
            _write_span(spans + count * _SPAN_SIZE, position, name_end, piece_end, word, fingerprint)
            count += 1
        position = piece_end + 1
    return count


@kernel
def write_messages(
    base: int, start: int, last: int, stop: int, origin: int, wanted: int, delays: int, levels: int, out: int, room: int, spans: int
) -> tuple[int, int, int, int]:
    """Write the records of a window as JSON lines, in order, up to the first stop.

    Args: base = address of the window; start, last, stop = bytes relative to it: a record begins at `start`, records from `last` on are
    left alone, no byte from `stop` on is read; origin = physical offset of the window's first byte; wanted = address of a row of
    WANTED_DTYPE; delays = address of int64[levels + 1], ms per delay level; out, room = address and bytes of the output, at least
    `SMALLEST_OUTPUT`; spans = address of MAX_PROPERTIES rows of SPAN_DTYPE to work in.
    Returns (position where it stopped, bytes written, records, Ending).
    """
    at = start
    written = 0
    count = 0
    room -= _FIXED_ROOM
    first_id, last_id, first_offset, last_offset, first_time, last_time = _read_ranges(wanted)
    wanted_topic, wanted_topic_length, wanted_tag, wanted_tag_length, wanted_key, wanted_key_length = _read_texts(wanted)
    while at < last:
        reason, size, body, body_length, topic, properties = structure(base, at, stop, stop)
        if reason != 0 or (be32(base, at + SYS_FLAG) & _V6) != 0:
            return at, written, count, _ODD
        physical_offset = be64(base, at + PHYSICAL_OFFSET)
        if physical_offset != origin + at:
            return at, written, count, _ODD
        stored_crc = be32u(base, at + BODY_CRC)
        if body_length > 0 and (np.int64(crc32(base, body, body_length)) & 0x7FFFFFFF) != stored_crc:
            return at, written, count, _ODD
        topic_end = properties - 2
        record_end = at + size
        queue_id = be32(base, at + QUEUE_ID)
        queue_offset = be64(base, at + QUEUE_OFFSET)
        store_timestamp = be64(base, at + _STORE_TIMESTAMP)
        if (
            queue_id < first_id
            or queue_id > last_id
            or queue_offset < first_offset
            or queue_offset > last_offset
            or store_timestamp < first_time
            or store_timestamp > last_time
            or not (wanted_topic == 0 or _equals(base, topic, topic_end, wanted_topic, wanted_topic_length))
        ):
            at = record_end
            continue
        property_count = _split_properties(base, properties, record_end, stop, spans)
        if property_count < 0:
            return at, written, count, _ODD
        tags_start = tags_end = keys_start = keys_end = unique_start = unique_end = delay_start = delay_end = _NOWHERE
        for index in range(property_count):
            name, name_end, value_end, word = _read_span(spans + index * _SPAN_SIZE)
            length = name_end - name
            if length > 8:
                continue
            if length == _TAGS_LENGTH and word == _TAGS_NAME:
                tags_start, tags_end = name_end + 1, value_end
            elif length == _KEYS_LENGTH and word == _KEYS_NAME:
                keys_start, keys_end = name_end + 1, value_end
            elif length == _UNIQ_KEY_LENGTH and word == _UNIQ_KEY_NAME:
                unique_start, unique_end = name_end + 1, value_end
            elif length == _DELAY_LENGTH and word == _DELAY_NAME:
                delay_start, delay_end = name_end + 1, value_end
        if not (wanted_tag == 0 or _equals(base, tags_start, tags_end, wanted_tag, wanted_tag_length)) or not (
            wanted_key == 0
            or _equals(base, unique_start, unique_end, wanted_key, wanted_key_length)
            or _has_key(base, keys_start, keys_end, wanted_key, wanted_key_length)
        ):
            at = record_end
            continue
        if written + (topic_end - topic) * _TOPIC_ROOM + (record_end - properties) * _PROPERTIES_ROOM > room:
            return at, written, count, _FULL
        tags_code = 0
        if tags_end > tags_start:
            hashed, well_formed = java_hash_utf8(_NOTHING, base, tags_start, tags_end)
            if not well_formed:
                return at, written, count, _ODD
            tags_code = (hashed ^ 0x80000000) - 0x80000000
        if delay_end > delay_start and _is_schedule_topic(base, topic, topic_end):
            level = _small_decimal(base, delay_start, delay_end)
            if level < 0:
                return at, written, count, _ODD
            level = min(level, levels)
            if level > 0:
                tags_code = store_timestamp + native64(delays, level * 8)
        o = written
        for index in range(_FRONT_KINDS.size):
            o = _put_constant(out, o, index)
            kind = _FRONT_KINDS[index]
            place = at + _FRONT_PLACES[index]
            if kind == _HOST:
                o = _put_host(out, o, base, place)
                continue
            if kind == _INT64:
                number = be64(base, place)
            elif kind == _INT32:
                number = be32(base, place)
            elif kind == _MAGIC_CODE:
                number = be32u(base, place)
            else:
                number = body_length
            o = put_number(out, o, number)
        o = put_text(out, _put_constant(out, o, _TOPIC), base, topic, topic_end, stop)
        if o < 0:
            return at, written, count, _ODD
        o = _put_constant(out, o, _PROPERTIES)
        for index in range(property_count):
            if index > 0:
                store8(out, o, _COMMA)
                o += 1
            store8(out, o, _QUOTE)
            name, name_end, value_end, word = _read_span(spans + index * _SPAN_SIZE)
            o = put_text(out, o + 1, base, name, name_end, stop)
            if o < 0:
                return at, written, count, _ODD
            o = put_text(out, _put_constant(out, o, _COLON), base, name_end + 1, value_end, stop)
            if o < 0:
                return at, written, count, _ODD
            store8(out, o, _QUOTE)
            o += 1
        # Tags and keys are values of properties that have just been found well-formed.
        o = _put_property(out, o, _TAGS_KEY, base, tags_start, tags_end, stop)
        o = _put_property(out, o, _KEYS_KEY, base, keys_start, keys_end, stop)
        o = _put_property(out, o, _UNIQUE_KEY, base, unique_start, unique_end, stop)
        o = _put_constant(out, o, _MESSAGE_ID)
        for word in range(2):
            o = _put_hex(out, o, base, at + _STORE_HOST + 4 * word)
        for word in range(2):
            o = _put_hex(out, o, base, at + PHYSICAL_OFFSET + 4 * word)
        o = put_number(out, _put_constant(out, o, _TAGS_CODE), tags_code)
        o = put_number(out, _put_constant(out, o, _POSITION), physical_offset)
        written = _put_constant(out, o, _END)
        count += 1
        at = record_end
    return at, written, count, _DONE


@kernel
def hop(base: int, start: int, last: int, end: int) -> int:
    """Step over records by their size alone and return the end of the last one that begins before `last` and is inside of [start, end)."""
    at = start
    while at < last and at + SYS_FLAG <= end:
        magic = be32u(base, at + MAGIC)
        size = be32(base, at)
        if (magic != MAGIC_V1 and magic != MAGIC_V2) or size < MIN_SIZE or size > end - at:
            break
        at += size
    return at
