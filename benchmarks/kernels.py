"""Compiled writers of records, queue units and index items, patched into templates that the declarations built.

They share nothing with the kernels that read a store, so a store that `rmqstore verify` accepts says something about both.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
from numba import njit

TOPICS = 8
TAGS = 8
QUEUES_PER_TOPIC = 8
MESSAGES_PER_MS = 20
UNIQUE_TIME_DIGITS = 8
UNIQUE_COUNTER_DIGITS = 4
KEY_DIGITS = 12
UNIT_BYTES = 20
ITEM_BYTES = 20

# One key of a message as the index wants it, in the order of the log.
KEY_DTYPE = np.dtype([("hash", "i4"), ("physical_offset", "i8"), ("store_timestamp", "i8")])

# Where a template is patched (bytes from its start), and what the index and the queue take from it.
TEMPLATE_DTYPE = np.dtype(
    [
        ("size", "i8"),
        ("unique_start", "i8"),  # the whole unique key
        ("unique_end", "i8"),  # behind its last digit
        ("key_start", "i8"),
        ("key_end", "i8"),
        ("topic_hash", "u4"),  # Java hash of `topic#`
        ("tags_code", "i8"),
    ]
)

# The same for all templates: where the fields before the body lie.
HEAD_DTYPE = np.dtype(
    [(name, "i8") for name in ("body_crc", "queue_id", "queue_offset", "physical_offset", "born_timestamp", "store_timestamp", "body")]
)


class Full(IntEnum):
    """Why `write_records` returned."""

    BUFFER = 0
    FILE = 1
    LIMIT = 2


_BUFFER, _FILE, _LIMIT = (int(reason) for reason in Full)


@njit(cache=True, inline="always")
def _put(out: Any, at: int, width: int, value: int) -> None:
    for i in range(width):
        out[at + i] = np.uint8((value >> (8 * (width - 1 - i))) & 0xFF)


@njit(cache=True)
def _put_hex(out: Any, end: int, digits: int, value: int) -> None:
    for i in range(digits):
        nibble = (value >> (4 * i)) & 0xF
        out[end - 1 - i] = np.uint8(nibble + (48 if nibble < 10 else 55))


@njit(cache=True)
def _put_decimal(out: Any, end: int, digits: int, value: int) -> None:
    for i in range(digits):
        out[end - 1 - i] = np.uint8(48 + value % 10)
        value //= 10


@njit(cache=True)
def _mix(number: int) -> int:
    """SplitMix64: spreads consecutive numbers over topics, queues, tags and bodies."""
    z = np.uint64(number) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((z ^ (z >> np.uint64(31))) >> np.uint64(1))


@njit(cache=True)
def _key_hash(out: Any, start: int, end: int, topic_hash: int) -> int:
    """Absolute Java hash of `topic#key`; the bytes are ASCII. The one value without an absolute value counts as 0."""
    h = np.uint32(topic_hash)
    for i in range(start, end):
        h = h * np.uint32(31) + np.uint32(out[i])
    signed = np.int32(h)
    if signed < 0:
        signed = np.int32(-signed)
    return np.int64(max(signed, np.int32(0)))


@njit(cache=True, nogil=True)
def write_records(
    out: Any,
    state: Any,
    file_end: int,
    limit: int,
    first_timestamp: int,
    templates: Any,
    shapes: Any,
    head: Any,
    bodies: Any,
    crcs: Any,
    queue_offsets: Any,
    units: Any,
    unit_counts: Any,
    keys: Any,
) -> tuple[int, int, int]:
    """Writes records to `out` (uint8) until it, the file or the log is full; returns (bytes, keys, Full).

    `state` = int64[2]: [physical offset, number of messages], updated. `file_end`, `limit` = physical offsets behind the mapped file and
    behind the log. `templates` = uint8[topic * TAGS + tag, width], `shapes` = TEMPLATE_DTYPE, `head` = one HEAD_DTYPE; `bodies` =
    uint8[n, body length] with n a power of two, `crcs` = their BODYCRC. `queue_offsets` = int64[queue], updated. `units` =
    uint8[queue, n, 20] and `unit_counts` = int64[queue] take the queue units, `keys` (KEY_DTYPE) the keys; both are large enough.
    """
    at = 0
    key_count = 0
    offset = state[0]
    number = state[1]
    body_length = bodies.shape[1]
    tail = head[0].body + body_length
    while True:
        mixed = _mix(number)
        topic = mixed % TOPICS
        queue_id = (mixed >> 8) % QUEUES_PER_TOPIC
        template = topic * TAGS + (mixed >> 16) % TAGS
        body = (mixed >> 24) & (bodies.shape[0] - 1)
        shape = shapes[template]
        size = shape.size
        if offset + size > limit:
            reason = _LIMIT
            break
        if offset + size + 8 > file_end:
            reason = _FILE
            break
        if at + size > out.size:
            reason = _BUFFER
            break
        queue = topic * QUEUES_PER_TOPIC + queue_id
        store_timestamp = first_timestamp + number // MESSAGES_PER_MS
        out[at : at + head[0].body] = templates[template, : head[0].body]
        out[at + head[0].body : at + tail] = bodies[body]
        out[at + tail : at + size] = templates[template, tail:size]
        _put(out, at + head[0].body_crc, 4, np.int64(crcs[body]))
        _put(out, at + head[0].queue_id, 4, queue_id)
        _put(out, at + head[0].queue_offset, 8, queue_offsets[queue])
        _put(out, at + head[0].physical_offset, 8, offset)
        _put(out, at + head[0].born_timestamp, 8, store_timestamp - 1 - (mixed >> 40) % 3)
        _put(out, at + head[0].store_timestamp, 8, store_timestamp)
        counter_start = at + shape.unique_end - UNIQUE_COUNTER_DIGITS
        _put_hex(out, counter_start, UNIQUE_TIME_DIGITS, number // MESSAGES_PER_MS)
        _put_hex(out, at + shape.unique_end, UNIQUE_COUNTER_DIGITS, number)
        _put_decimal(out, at + shape.key_end, KEY_DIGITS, number)
        unit = units[queue, unit_counts[queue]]
        _put(unit, 0, 8, offset)
        _put(unit, 8, 4, size)
        _put(unit, 12, 8, shape.tags_code)
        unit_counts[queue] += 1
        queue_offsets[queue] += 1
        for start, end in ((shape.unique_start, shape.unique_end), (shape.key_start, shape.key_end)):
            key = keys[key_count]
            key.hash = np.int32(_key_hash(out, at + start, at + end, shape.topic_hash))
            key.physical_offset = offset
            key.store_timestamp = store_timestamp
            key_count += 1
        at += size
        offset += size
        number += 1
    state[0] = offset
    state[1] = number
    return at, key_count, reason


@njit(cache=True, nogil=True)
def put_keys(items: Any, slots: Any, header: Any, keys: Any, capacity: int) -> int:
    """Puts keys (KEY_DTYPE) into an index file as the broker does, until it is full; returns how many.

    `items` = uint8[n, 20] for the items written now, `slots` = int32[slots], `header` = int64[6]: begin and end timestamp, begin and end
    physical offset, used slots, number of the next item; both updated. `capacity` = places for items, of which the first stays empty.
    """
    done = 0
    while done < keys.size and header[5] < capacity:
        key = keys[done]
        slot = key.hash % slots.size
        previous = slots[slot]
        seconds = np.int64(0)
        if header[0] > 0:
            seconds = max((key.store_timestamp - header[0]) // 1000, 0)
        item = items[done]
        _put(item, 0, 4, np.int64(key.hash))
        _put(item, 4, 8, key.physical_offset)
        _put(item, 12, 4, seconds)
        _put(item, 16, 4, np.int64(previous))
        slots[slot] = header[5]
        # Only now, as in the broker: the time of the first item of a rolled file counts from the end of the file before.
        if header[5] <= 1:
            header[0] = key.store_timestamp
            header[2] = key.physical_offset
        if previous == 0:
            header[4] += 1
        header[5] += 1
        header[1] = key.store_timestamp
        header[3] = key.physical_offset
        done += 1
    return done
