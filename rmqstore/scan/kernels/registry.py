"""The table in which compiled code finds topics and queues by their names, and enters those that are new.

An entry is a cache line with the last 32 bytes of the topic, so most lookups are one cache line and no loop. A topic has an entry of its
own, without a queue. `QueueRegistry` provides the memory, and enters the names that compiled code leaves to it.
"""

from __future__ import annotations

import numpy as np

from rmqstore.formats.naming import SCHEDULE_TOPIC, is_legal_topic
from rmqstore.scan.kernels.declare import inlined, kernel, part
from rmqstore.scan.kernels.raw import copy_bytes, java_hash_utf8, native32, native64, store32, store64, tail32, u8
from rmqstore.scan.kernels.rows import field_offset, fields_writer, row_copier

ENTRY_DTYPE = np.dtype(
    [
        ("tail", "i8", (4,)),  # the last 32 bytes of the topic, zeros before a shorter one
        ("length_and_queue", "i8"),  # length of the topic in bytes, above it the queue id
        ("text", "i8"),  # address of all bytes of the topic
        ("topic", "i4"),  # dense number
        ("queue", "i4"),  # dense number of (topic, queue id), 0 in the entry of a topic; -1: the entry is free
        ("hash", "i4"),  # Java hash of `topic#`, where the hash of an index key begins
        ("marks", "i4"),  # TopicMark bits
    ]
)
QUEUE_NAME_DTYPE = np.dtype([("topic", "i4"), ("queue_id", "i4")])
TOPIC_NAME_DTYPE = np.dtype([("text", "i8"), ("length", "i8")])  # address and bytes

# Exchanged between compiled code and `QueueRegistry`: int64 words. TEXT is the address where the next topic is kept, TEXT_END the end of
# that memory.
TABLE, MASK, USED, TOPIC_START, TOPIC_LENGTH, FAULTS, MARKS, ODDITIES, LAST_TIME, LAST_HOST = range(10)
LAYOUTS, QUEUE_NAMES, QUEUES, TOPIC_NAMES, TOPICS, TEXT, TEXT_END = range(10, 17)
STATE_WORDS = 17

SCHEDULED_TOPIC = 1
ILLEGAL_TOPIC = 2
MALFORMED_TOPIC = 4

GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
# Odd multipliers for the words of a topic; any would do.
_MIX = tuple((GOLDEN * factor) % (1 << 63) | 1 for factor in (3, 5, 7, 11, 13))
_MIX_A, _MIX_B, _MIX_C, _MIX_D, _MIX_E = _MIX

_ENTRY_BYTES = ENTRY_DTYPE.itemsize
_TAIL, _LENGTH_AND_QUEUE, _TEXT, _TOPIC, QUEUE, _HASH, _TOPIC_MARKS = (
    field_offset(ENTRY_DTYPE, name) for name in ("tail", "length_and_queue", "text", "topic", "queue", "hash", "marks")
)
# Words of the shared state as byte offsets.
_TABLE, _MASK, _USED, _NEW_START, _NEW_LENGTH = (8 * word for word in (TABLE, MASK, USED, TOPIC_START, TOPIC_LENGTH))
_QUEUE_NAMES, _QUEUES, _TOPIC_NAMES, _TOPICS = (8 * word for word in (QUEUE_NAMES, QUEUES, TOPIC_NAMES, TOPICS))
_NEXT_TEXT, _TEXT_END = 8 * TEXT, 8 * TEXT_END

_TOPIC_ALONE = 1 << 31
"""Bit of the length in the entry of a topic; a topic of so many bytes does not fit into a record."""
_TEXT_SLACK = 8
_write_queue_name, _QUEUE_NAME_BYTES = fields_writer(QUEUE_NAME_DTYPE), QUEUE_NAME_DTYPE.itemsize
_write_topic_name, _TOPIC_NAME_BYTES = fields_writer(TOPIC_NAME_DTYPE), TOPIC_NAME_DTYPE.itemsize
_copy_entry = row_copier(ENTRY_DTYPE)

# Bit n of the words: whether byte n is legal in a topic.
_LEGAL_LOW, _LEGAL_HIGH = (
    sum(1 << byte for byte in range(64) if is_legal_topic(bytes([byte + first]))) - (1 << 64 if is_legal_topic(bytes([63 + first])) else 0)
    for first in (0, 64)
)
_SCHEDULE_LENGTH = len(SCHEDULE_TOPIC)
_HASH_MARK = ord("#")


@inlined
def _place(state: int, a: int, b: int, c: int, d: int, length_and_queue: int) -> int:
    """Return the number of the first place in the table for an entry."""
    mixed = a * _MIX_A + b * _MIX_B + c * _MIX_C + d * _MIX_D + length_and_queue * _MIX_E
    mixed = (mixed ^ (mixed >> 32)) * GOLDEN
    return (mixed >> 40) & native64(state, _MASK)


@inlined
def _find(state: int, base: int, topic_start: int, length: int, length_and_queue: int) -> int:
    """Return the address of an entry in the table, or of the free entry where it belongs."""
    a, b, c, d = tail32(base, topic_start + length, length)
    table = native64(state, _TABLE)
    mask = native64(state, _MASK)
    slot = _place(state, a, b, c, d, length_and_queue)
    while True:
        entry = table + slot * _ENTRY_BYTES
        if native32(entry, QUEUE) < 0:
            return entry
        # One branch for all words: it is nearly always the same way.
        different = (native64(entry, _TAIL) ^ a) | (native64(entry, _TAIL + 8) ^ b)
        different |= (native64(entry, _TAIL + 16) ^ c) | (native64(entry, _TAIL + 24) ^ d)
        if (different | (native64(entry, _LENGTH_AND_QUEUE) ^ length_and_queue)) == 0:
            # A longer topic is compared from its start, in words that may reach into the tail.
            text = native64(entry, _TEXT)
            i = 0
            while i < length - 32 and native64(text, i) == native64(base, topic_start + i):
                i += 8
            if i >= length - 32:
                return entry
        slot = (slot + 1) & mask


@inlined
def find_queue(state: int, base: int, topic_start: int, length: int, queue_id: int) -> int:
    """Return the address of the entry of (topic, queue id) in the table of names, or of the free entry where it belongs."""
    return _find(state, base, topic_start, length, length | (queue_id << 32))


@inlined
def _has_room(state: int, length: int) -> bool:
    """Return whether a queue with a topic of so many bytes can be entered: the table is at most half full, and its text fits."""
    fits = native64(state, _NEXT_TEXT) + length + _TEXT_SLACK <= native64(state, _TEXT_END)
    return fits and (native64(state, _USED) + 2) * 2 <= native64(state, _MASK) + 1


@inlined
def _fill(entry: int, base: int, end: int, length: int, length_and_queue: int, text: int, topic: int, queue: int, topic_hash: int) -> None:
    a, b, c, d = tail32(base, end, length)
    store64(entry, _TAIL, a)
    store64(entry, _TAIL + 8, b)
    store64(entry, _TAIL + 16, c)
    store64(entry, _TAIL + 24, d)
    store64(entry, _LENGTH_AND_QUEUE, length_and_queue)
    store64(entry, _TEXT, text)
    store32(entry, _TOPIC, topic)
    store32(entry, QUEUE, queue)
    store32(entry, _HASH, topic_hash)


@part
def _enter(state: int, base: int, start: int, length: int, queue_id: int, topic_hash: int, marks: int) -> int:
    """Enter a queue that is not in the table, which has room, and return the address of its entry.

    `topic_hash` and `marks` are for a topic that is new.
    """
    end = start + length
    named = _find(state, base, start, length, length | _TOPIC_ALONE)
    if native32(named, QUEUE) < 0:
        topic = native64(state, _TOPICS)
        text = native64(state, _NEXT_TEXT)
        store64(state, _NEXT_TEXT, text + copy_bytes(base, start, end, text, 0))
        _write_topic_name(native64(state, _TOPIC_NAMES) + topic * _TOPIC_NAME_BYTES, text, length)
        store64(state, _TOPICS, topic + 1)
        _fill(named, base, end, length, length | _TOPIC_ALONE, text, topic, 0, topic_hash)
        store32(named, _TOPIC_MARKS, marks)
        store64(state, _USED, native64(state, _USED) + 1)
    topic = native32(named, _TOPIC)
    queue = native64(state, _QUEUES)
    _write_queue_name(native64(state, _QUEUE_NAMES) + queue * _QUEUE_NAME_BYTES, topic, queue_id)
    store64(state, _QUEUES, queue + 1)
    entry = find_queue(state, base, start, length, queue_id)
    _fill(entry, base, end, length, length | (queue_id << 32), native64(named, _TEXT), topic, queue, native32(named, _HASH))
    store32(entry, _TOPIC_MARKS, native32(named, _TOPIC_MARKS))
    store64(state, _USED, native64(state, _USED) + 1)
    return entry


@part
def enter_found(state: int, base: int, topic_start: int, length: int, queue_id: int) -> int:
    """Enter a queue that was not found, and return the address of its entry.

    Returns 0 for a topic with a mark, and where there is no room: then `QueueRegistry.learn` takes the topic from the window.
    """
    plain = length > 0 and length != _SCHEDULE_LENGTH and _has_room(state, length)
    position = topic_start
    while plain and position < topic_start + length:
        byte = u8(base, position)
        word = _LEGAL_LOW if byte < 64 else _LEGAL_HIGH
        plain = byte < 128 and ((word >> (byte & 63)) & 1) != 0
        position += 1
    if not plain:
        store64(state, _NEW_START, topic_start)
        store64(state, _NEW_LENGTH, length)
        return 0
    hashed, _ = java_hash_utf8(np.int64(0), base, topic_start, topic_start + length)
    return _enter(state, base, topic_start, length, queue_id, hashed * 31 + _HASH_MARK, 0)


@kernel
def enter_queue(state: int, topic: int, length: int, queue_id: int, topic_hash: int, marks: int) -> int:
    """Return the dense number of a queue, entered if it is new; there has to be room.

    Args: state = address of `QueueRegistry.state`; topic = address of the topic, with 32 readable bytes before it; topic_hash = Java hash
    of `topic#`; marks = TopicMark bits.
    """
    entry = find_queue(state, topic, 0, length, queue_id)
    if native32(entry, QUEUE) < 0:
        entry = _enter(state, topic, 0, length, queue_id, topic_hash, marks)
    return native32(entry, QUEUE)


@kernel
def move_entries(state: int, entries: int, count: int) -> None:
    """Copy the entries of an earlier table, `count` at an address, into the free one of the state."""
    table = native64(state, _TABLE)
    mask = native64(state, _MASK)
    for number in range(count):
        entry = entries + number * _ENTRY_BYTES
        if native32(entry, QUEUE) >= 0:
            a, b, c, d = native64(entry, _TAIL), native64(entry, _TAIL + 8), native64(entry, _TAIL + 16), native64(entry, _TAIL + 24)
            slot = _place(state, a, b, c, d, native64(entry, _LENGTH_AND_QUEUE))
            while native32(table + slot * _ENTRY_BYTES, QUEUE) >= 0:
                slot = (slot + 1) & mask
            _copy_entry(table + slot * _ENTRY_BYTES, entry)
