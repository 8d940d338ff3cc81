"""The compiled record walker: commit-log bytes to columns.

Offsets, widths and magic numbers come from the declarations in `rmqstore.formats.record`; a property test feeds both with the same bytes
and demands the same answer. One call walks as many records as fit into the batch and stops with an exact reason.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from rmqstore.formats import record as declared
from rmqstore.formats.layout import fixed_layout
from rmqstore.scan.columns import Check, Fault, Mark, Oddity, Stop
from rmqstore.scan.crc import crc32
from rmqstore.scan.raw import (
    INTERNAL,
    be16,
    be32,
    be32u,
    be64,
    equal_mask32,
    find_byte,
    java_hash_utf8,
    native32,
    native64,
    prefetch,
    store8,
    store32,
    store64,
    trailing_zeros,
    u8,
)

_PREFIX = fixed_layout(declared.RECORD_PREFIX)
_MAGIC = _PREFIX["magic_code"].offset
_BODY_CRC = _PREFIX["body_crc"].offset
_QUEUE_ID = _PREFIX["queue_id"].offset
_FLAG = _PREFIX["flag"].offset
_QUEUE_OFFSET = _PREFIX["queue_offset"].offset
_PHYSICAL_OFFSET = _PREFIX["physical_offset"].offset
_SYS_FLAG = _PREFIX["sys_flag"].offset
_BORN_TIMESTAMP = _PREFIX["born_timestamp"].offset
_BORN_HOST = _BORN_TIMESTAMP + _PREFIX["born_timestamp"].width

_MAGIC_V1 = declared.MESSAGE_MAGIC_V1
_MAGIC_V2 = declared.MESSAGE_MAGIC_V2
_BLANK_MAGIC = declared.BLANK_MAGIC
_MIN_SIZE = declared.MIN_RECORD_SIZE_V1
_BORN_V6 = 0x10
_STORE_V6 = 0x20
_V6_EXTRA = 12
_KNOWN_SYS_FLAGS = 0x7FF
_MAX_COMPRESSION = 3

_SPACE = np.uint64(0x2020202020202020)
_NAME_END = 1


def _word(text: bytes) -> int:
    return int.from_bytes(text, "big")


_TAGS, _KEYS, _UNIQ, _UKEY = _word(b"TAGS"), _word(b"KEYS"), _word(b"UNIQ"), _word(b"_KEY")
_DELA, _INNE, _R_MU, _R_NU, _R_BA = _word(b"DELA"), _word(b"INNE"), _word(b"R_MU"), _word(b"R_NU"), _word(b"R_BA")
_CRC_A, _CRC_B = _word(b"__CR"), _word(b"C32#")
_SCHEDULE_TOPIC = np.frombuffer(b"SCHEDULE_TOPIC_XXXX", np.uint8)
_PROPERTY_CRC_LENGTH = 20

# How far ahead of the record (bytes) its successors are asked for: memory answers while this one is decoded.
_AHEAD = 4096
# Topic syntax of the brokers: letters, digits, `%`, `|`, `_`, `-`; `+` and `$` stand in names that brokers make.
_LEGAL_TOPIC_BYTE = np.zeros(256, np.bool_)
_LEGAL_TOPIC_BYTE[list(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%|_-+$")] = True
_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_TOPIC_SCHEDULE = 1
_TOPIC_ILLEGAL = 2

_STOP_TRUNCATED, _STOP_BLANK, _STOP_ZERO = int(Stop.TRUNCATED), int(Stop.BLANK), int(Stop.END_OF_DATA)
_STOP_MAGIC, _STOP_SMALL, _STOP_BEYOND = int(Stop.ILLEGAL_MAGIC), int(Stop.SIZE_TOO_SMALL), int(Stop.SIZE_BEYOND_FILE)
_STOP_BODY, _STOP_TOPIC, _STOP_PROPERTIES = int(Stop.BODY_LENGTH), int(Stop.TOPIC_LENGTH), int(Stop.PROPERTIES_LENGTH)
_STOP_MISMATCH, _STOP_WINDOW, _STOP_FULL, _STOP_NAMES = (
    int(Stop.SIZE_MISMATCH),
    int(Stop.WINDOW_END),
    int(Stop.BATCH_FULL),
    int(Stop.NAMES_FULL),
)
_CHECK_CRC, _CHECK_PROPERTY_CRC, _CHECK_KEYS = int(Check.BODY_CRC), int(Check.PROPERTY_CRC), int(Check.KEYS)
_F_CRC, _F_PHY, _F_PROPCRC, _F_QUEUE = int(Fault.BODY_CRC), int(Fault.PHYSICAL_OFFSET), int(Fault.PROPERTY_CRC), int(Fault.QUEUE_ID)
_F_SYS, _F_STORE, _F_BORN, _F_PREPARED = (
    int(Fault.SYS_FLAG),
    int(Fault.STORE_TIMESTAMP),
    int(Fault.BORN_TIMESTAMP),
    int(Fault.PREPARED_OFFSET),
)
_F_TOPIC, _F_COMPRESSION, _F_DELAY = int(Fault.TOPIC), int(Fault.COMPRESSION), int(Fault.DELAY)
_F_HOST, _F_RECONSUME = int(Fault.HOST), int(Fault.RECONSUME_TIMES)
_M_DISPATCH, _M_INNER, _M_TEXT = int(Mark.MULTI_DISPATCH), int(Mark.INNER_BATCH), int(Mark.MALFORMED_TEXT)
_TIME_GOES_BACK, _HOST_CHANGES, _COMMITS = int(Oddity.TIME_GOES_BACK), int(Oddity.HOST_CHANGES), int(Oddity.COMMITS)
_M_SCHEDULED, _M_PROPCRC = int(Mark.SCHEDULED), int(Mark.PROPERTY_CRC)

# A clock that runs ahead of the broker's by more than this many ms is a damaged field, not a client's clock.
_BORN_AHEAD_LIMIT = 10 * 365 * 86_400_000


class Names(NamedTuple):
    """Interned topics and queues of one scanner.

    `counts` = [topics, used bytes of heap, queues; of the last batch: all faults, marks and oddities; of its last record: store
    timestamp, store host]. Slots are open-addressing tables (power of two, -1 = empty). Compiled code gets the
    addresses of these arrays (`addresses`): arrays as arguments would cost it a reference count per call.
    """

    counts: npt.NDArray[np.int64]
    heap: npt.NDArray[np.uint8]  # topic bytes, one behind the other
    topic_start: npt.NDArray[np.int64]
    topic_length: npt.NDArray[np.int32]
    topic_hash: npt.NDArray[np.uint32]  # Java hash of "topic#"
    topic_marks: npt.NDArray[np.int32]
    topic_slots: npt.NDArray[np.int32]
    queue_topic: npt.NDArray[np.int32]
    queue_id: npt.NDArray[np.int32]
    queue_slots: npt.NDArray[np.int32]

    @property
    def addresses(self) -> tuple[int, ...]:
        """Addresses of the arrays in order, then topic capacity, heap capacity, topic slot mask, queue capacity, queue slot mask."""
        return (
            *(array.ctypes.data for array in self),
            self.topic_start.size,
            self.heap.size,
            self.topic_slots.size - 1,
            self.queue_topic.size,
            self.queue_slots.size - 1,
        )


_COUNTS, _HEAP, _TOPIC_START, _TOPIC_LENGTH, _TOPIC_HASH, _TOPIC_MARKS, _TOPIC_SLOTS, _QUEUE_TOPIC, _QUEUE_IDS, _QUEUE_SLOTS = range(10)
# Places in `counts`, in bytes.
_ALL_FAULTS, _ALL_MARKS, _ALL_ODDITIES, _LAST_TIME, _LAST_HOST = range(24, 64, 8)
_TOPIC_CAPACITY, _HEAP_CAPACITY, _TOPIC_MASK, _QUEUE_CAPACITY, _QUEUE_MASK = range(10, 15)


def make_names(topics: int = 4096, queues: int = 16384) -> Names:
    """Empty tables for at most `topics` topics and `queues` queues (powers of two)."""
    return Names(
        np.zeros(8, np.int64),
        np.zeros(topics * 256, np.uint8),
        np.zeros(topics, np.int64),
        np.zeros(topics, np.int32),
        np.zeros(topics, np.uint32),
        np.zeros(topics, np.int32),
        np.full(topics * 2, -1, np.int32),
        np.zeros(queues, np.int32),
        np.zeros(queues, np.int32),
        np.full(queues * 2, -1, np.int32),
    )


@njit(**INTERNAL)
def _topic_mix(base: int, start: int, length: int) -> int:
    """A 64-bit number of the topic bytes, for the slot table."""
    mixed = length * _GOLDEN
    position = start
    end = start + length
    while position + 8 <= end:
        mixed = (mixed ^ native64(base, position)) * _GOLDEN
        mixed ^= (mixed >> 29) & 0x7FFFFFFFF
        position += 8
    rest = 0
    if length >= 8:
        rest = native64(base, end - 8)
    else:
        while position < end:
            rest = (rest << 8) | u8(base, position)
            position += 1
    mixed = (mixed ^ rest) * _GOLDEN
    return mixed ^ ((mixed >> 32) & 0xFFFFFFFF)


@njit(**INTERNAL)
def _queue_mix(topic: int, queue_id: int) -> int:
    """A 64-bit number of (topic, queue id), for the slot table."""
    mixed = ((topic << 32) ^ (queue_id & 0xFFFFFFFF)) * _GOLDEN
    return mixed ^ ((mixed >> 31) & 0x1FFFFFFFF)


@njit(**INTERNAL)
def _same_bytes(left: int, right: int, length: int) -> bool:
    """Whether the bytes at two addresses are equal."""
    i = 0
    while i + 8 <= length:
        if native64(left, i) != native64(right, i):
            return False
        i += 8
    if length >= 8:
        return native64(left, length - 8) == native64(right, length - 8)
    while i < length:
        if u8(left, i) != u8(right, i):
            return False
        i += 1
    return True


@njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _intern_topic(base: int, start: int, length: int, names: tuple[int, ...]) -> int:
    """Dense number of the topic, -1 when the tables are full."""
    mask = names[_TOPIC_MASK]
    slot = _topic_mix(base, start, length) & mask
    heap = names[_HEAP]
    slots = names[_TOPIC_SLOTS]
    text = base + start
    while True:
        topic = native32(slots, slot * 4)
        if topic < 0:
            break
        if native32(names[_TOPIC_LENGTH], topic * 4) == length:
            stored = native64(names[_TOPIC_START], topic * 8)
            if _same_bytes(heap + stored, text, length):
                return topic
        slot = (slot + 1) & mask
    counts = names[_COUNTS]
    topic = native64(counts, 0)
    stored = native64(counts, 8)
    if topic >= names[_TOPIC_CAPACITY] or stored + length > names[_HEAP_CAPACITY]:
        return -1
    marks = 0
    if length == 0:
        marks |= _TOPIC_ILLEGAL
    schedule = length == _SCHEDULE_TOPIC.size
    for i in range(length):
        byte = u8(text, i)
        store8(heap, stored + i, byte)
        if not _LEGAL_TOPIC_BYTE[byte]:
            marks |= _TOPIC_ILLEGAL
        if schedule and byte != _SCHEDULE_TOPIC[i]:
            schedule = False
    if schedule:
        marks |= _TOPIC_SCHEDULE
    plain, well_formed = java_hash_utf8(np.int64(0), text, np.int64(0), length)
    if not well_formed:
        marks |= _TOPIC_ILLEGAL
    store64(names[_TOPIC_START], topic * 8, stored)
    store32(names[_TOPIC_LENGTH], topic * 4, length)
    store32(names[_TOPIC_HASH], topic * 4, plain * 31 + 35)
    store32(names[_TOPIC_MARKS], topic * 4, marks)
    store32(slots, slot * 4, topic)
    store64(counts, 0, topic + 1)
    store64(counts, 8, stored + length)
    return topic


@njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _intern_queue(topic: int, queue_id: int, names: tuple[int, ...]) -> int:
    """Dense number of the queue, -1 when the tables are full."""
    mask = names[_QUEUE_MASK]
    slot = _queue_mix(topic, queue_id) & mask
    slots = names[_QUEUE_SLOTS]
    topics = names[_QUEUE_TOPIC]
    ids = names[_QUEUE_IDS]
    while True:
        queue = native32(slots, slot * 4)
        if queue < 0:
            break
        if native32(topics, queue * 4) == topic and native32(ids, queue * 4) == queue_id:
            return queue
        slot = (slot + 1) & mask
    counts = names[_COUNTS]
    queue = native64(counts, 16)
    if queue >= names[_QUEUE_CAPACITY]:
        return -1
    store32(topics, queue * 4, topic)
    store32(ids, queue * 4, np.int32(queue_id))
    store32(slots, slot * 4, queue)
    store64(counts, 16, queue + 1)
    return queue


@njit(**INTERNAL)
def _signed(state: int) -> int:
    """A hash of 0 … 2^32-1 as the signed number that Java has."""
    return state - 0x100000000 if state > 0x7FFFFFFF else state


@njit(**INTERNAL)
def _key_hash(state: int) -> int:
    """The hash an index item stores: abs() of the signed hash, 0 for the one value without an absolute."""
    if state < 0x80000000:
        return state
    return 0 if state == 0x80000000 else 0x100000000 - state


@njit(**INTERNAL)
def _mix_host(base: int, start: int, length: int) -> int:
    """A 32-bit number of the host bytes (8 or 20)."""
    word = native64(base, start)
    if length > 8:
        word ^= native64(base, start + 8) * _GOLDEN
        word ^= be32u(base, start + 16) << 17
    word *= _GOLDEN
    return (word >> 32) & 0xFFFFFFFF


@njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _compressed_body_fits(base: int, start: int, length: int, sys_flag: int) -> bool:
    """Whether the first body bytes are those of the compression that SYSFLAG names."""
    kind = (sys_flag >> 8) & 7
    if kind == 1:
        return length >= 4 and be32u(base, start) == 0x04224D18
    if kind == 2:
        return length >= 4 and be32u(base, start) == 0x28B52FFD
    if length < 2:
        return False
    head = (u8(base, start) << 8) | u8(base, start + 1)
    return (head & 0x0F00) == 0x0800 and head % 31 == 0


@njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _decimal(base: int, start: int, end: int) -> tuple[int, bool]:
    """A signed 32-bit decimal as Java's Integer.parseInt reads it; (value, valid)."""
    negative = False
    if start < end and (u8(base, start) == 0x2D or u8(base, start) == 0x2B):
        negative = u8(base, start) == 0x2D
        start += 1
    if start >= end:
        return 0, False
    while end - start > 10 and u8(base, start) == 0x30:
        start += 1
    if end - start > 10:
        return 0, False
    value = 0
    for position in range(start, end):
        digit = u8(base, position) - 48
        if digit < 0 or digit > 9:
            return 0, False
        value = value * 10 + digit
    if negative:
        value = -value
    return value, -2147483648 <= value <= 2147483647


@njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _property_crc_matches(base: int, start: int, size: int, digits: int, digits_end: int) -> bool:
    """Compares the digits of a property CRC, least significant first, with the record without its last 20 bytes; wraps as Java does."""
    value = 0
    for position in range(digits_end - 1, digits - 1, -1):
        value = (value * 10 + u8(base, position) - 48) & 0xFFFFFFFF
    return (crc32(base, start, size - _PROPERTY_CRC_LENGTH) & 0x7FFFFFFF) == value


@njit(**INTERNAL)
def structure_head(base: int, at: int, end: int, file_end: int) -> tuple[int, int, int, int, int]:
    """The first half of the structural check, up to BODYLEN: (reason, size, smallest size, body start, body length).

    `end` is the end of the readable bytes, `file_end` of the file (both relative to base, end <= file_end). The order of the checks is
    that of `rmqstore.formats.record.decode_record`. The second half lies behind the body: whoever wants the body's CRC computes it in
    between, because reading forward is what memory is fast at.
    """
    if at + 8 > file_end:
        return _STOP_TRUNCATED, 0, 0, 0, 0
    if at + 8 > end:
        return _STOP_WINDOW, 0, 0, 0, 0
    size = be32(base, at)
    magic = be32u(base, at + _MAGIC)
    smallest = _MIN_SIZE
    if magic != _MAGIC_V1:
        if magic == _BLANK_MAGIC:
            return _STOP_BLANK, size, 0, 0, 0
        if magic != _MAGIC_V2:
            if magic == 0 and size == 0:
                return _STOP_ZERO, size, 0, 0, 0
            return _STOP_MAGIC, size, 0, 0, 0
        smallest += 1
    if size < smallest:
        return _STOP_SMALL, size, 0, 0, 0
    wide = smallest - _MIN_SIZE
    if at + _SYS_FLAG + 4 <= file_end:
        if at + _SYS_FLAG + 4 > end:
            return _STOP_WINDOW, size, 0, 0, 0
        sys_flag = be32(base, at + _SYS_FLAG)
        if sys_flag & (_BORN_V6 | _STORE_V6):
            if sys_flag & _BORN_V6:
                smallest += _V6_EXTRA
            if sys_flag & _STORE_V6:
                smallest += _V6_EXTRA
            if size < smallest:
                return _STOP_SMALL, size, 0, 0, 0
    if at + size > file_end:
        return _STOP_BEYOND, size, 0, 0, 0
    if at + size > end:
        return _STOP_WINDOW, size, 0, 0, 0
    # From here every fixed field lies inside [at, at + size).
    body = at + smallest - 3 - wide
    body_length = be32(base, body - 4)
    if body_length < 0 or smallest + body_length > size:
        return _STOP_BODY, size, smallest, body, body_length
    return 0, size, smallest, body, body_length


@njit(**INTERNAL)
def structure_tail(base: int, at: int, size: int, smallest: int, body: int, body_length: int) -> tuple[int, int, int]:
    """The second half of the structural check: (reason, topic start, properties start)."""
    wide = at + smallest - 3 - body
    topic = body + body_length + 1 + wide
    topic_length = be16(base, topic - 2) if wide else (u8(base, topic - 1) ^ 0x80) - 0x80
    if topic_length < 0 or smallest + body_length + topic_length > size:
        return _STOP_TOPIC, topic, 0
    properties = topic + topic_length + 2
    properties_length = be16(base, properties - 2)
    if properties_length < 0 or properties + properties_length > at + size:
        return _STOP_PROPERTIES, topic, properties
    if properties + properties_length != at + size:
        return _STOP_MISMATCH, topic, properties
    return 0, topic, properties


@njit(**INTERNAL)
def structure(base: int, at: int, end: int, file_end: int) -> tuple[int, int, int, int, int, int]:
    """Both halves of the structural check: (reason, size, body start, body length, topic start, properties start)."""
    reason, size, smallest, body, body_length = structure_head(base, at, end, file_end)
    topic = properties = 0
    if reason == 0:
        reason, topic, properties = structure_tail(base, at, size, smallest, body, body_length)
    return reason, size, body, body_length, topic, properties


@njit(**INTERNAL)
def _separators(base: int, start: int, stop: int, readable: int) -> int:
    """Bit i is set when byte start + i ends a property and lies before `stop`; bytes at `readable` and behind are not touched."""
    if start + 32 <= readable:
        mask = equal_mask32(base, start, 2)
    else:
        mask = 0
        for i in range(readable - start):
            if u8(base, start + i) == 2:
                mask |= 1 << i
    if stop - start < 32:
        mask &= (1 << (stop - start)) - 1
    return mask


@njit(nogil=True, cache=True)
def walk(
    base: int,
    at: int,
    end: int,
    file_end: int,
    origin: int,
    checks: int,
    delays: Any,
    names: tuple[int, ...],
    records: Any,
    keys: Any,
) -> tuple[int, int, int, int]:
    """Walks records from `at` on and fills the columns.

    Args: base = address of the window (uintp); at, end, file_end = bytes relative to it (end = end of the mapped bytes, file_end = end of
    the file); origin = physical offset of the window's first byte; checks = Check bits; delays = int64[] ms per delay level, index 0
    unused; records, keys = structured arrays of RECORD_DTYPE and KEY_DTYPE to fill.
    Returns (position where it stopped, records, keys, Stop).
    """
    count = 0
    key_count = 0
    capacity = records.size
    key_limit = keys.size - 64
    want_keys = (checks & _CHECK_KEYS) != 0
    want_crc = (checks & _CHECK_CRC) != 0
    counts = names[_COUNTS]
    all_faults = all_marks = all_oddities = 0
    last_time = native64(counts, _LAST_TIME)
    last_host = native64(counts, _LAST_HOST)
    stop = _STOP_FULL
    while count < capacity and key_count < key_limit:
        reason, size, smallest, body, body_length = structure_head(base, at, end, file_end)
        if reason != 0:
            stop = reason
            break
        # Memory is asked for the bytes some records ahead: without it every jump, and every page, would be waited for.
        for line in range(at + _AHEAD, at + _AHEAD + size, 64):
            prefetch(base, line)
        faults = 0
        stored_crc = be32u(base, at + _BODY_CRC)
        if want_crc:
            if body_length > 0:
                if (crc32(base, body, body_length) & 0x7FFFFFFF) != stored_crc:
                    faults |= _F_CRC
            elif stored_crc != 0:
                faults |= _F_CRC
        reason, topic_start, properties = structure_tail(base, at, size, smallest, body, body_length)
        if reason != 0:
            stop = reason
            break
        topic_length = properties - 2 - topic_start
        topic = _intern_topic(base, topic_start, topic_length, names)
        if topic < 0:
            stop = _STOP_NAMES
            break
        queue_id = be32(base, at + _QUEUE_ID)
        queue = _intern_queue(topic, queue_id, names)
        if queue < 0:
            stop = _STOP_NAMES
            break
        sys_flag = be32(base, at + _SYS_FLAG)
        marks = 0
        physical_offset = be64(base, at + _PHYSICAL_OFFSET)
        if physical_offset != origin + at:
            faults |= _F_PHY
        if queue_id < 0:
            faults |= _F_QUEUE
        if (sys_flag & ~_KNOWN_SYS_FLAGS) != 0 or ((sys_flag >> 8) & 7) > _MAX_COMPRESSION:
            faults |= _F_SYS
        born_timestamp = be64(base, at + _BORN_TIMESTAMP)
        born_host_length = 20 if sys_flag & _BORN_V6 else 8
        store_host_length = 20 if sys_flag & _STORE_V6 else 8
        store_time_at = at + _BORN_HOST + born_host_length
        store_timestamp = be64(base, store_time_at)
        store_host = store_time_at + 8
        if store_timestamp <= 0:
            faults |= _F_STORE
        if born_timestamp < 0 or born_timestamp > store_timestamp + _BORN_AHEAD_LIMIT:
            faults |= _F_BORN
        if be32u(base, store_time_at - 4) > 65535 or be32u(base, store_host + store_host_length - 4) > 65535:
            faults |= _F_HOST
        reconsume_at = store_host + store_host_length
        reconsume_times = be32(base, reconsume_at)
        if reconsume_times < 0:
            faults |= _F_RECONSUME
        prepared = be64(base, reconsume_at + 4)
        transaction = sys_flag & 0xC
        if prepared != 0 and (transaction == 0 or transaction == 4 or prepared < 0 or prepared >= origin + at):
            faults |= _F_PREPARED
        topic_marks = native32(names[_TOPIC_MARKS], topic * 4)
        if topic_marks & _TOPIC_ILLEGAL:
            faults |= _F_TOPIC
        if (sys_flag & 1) != 0 and not _compressed_body_fits(base, body, body_length, sys_flag):
            faults |= _F_COMPRESSION
        properties_end = at + size
        tags_start = tags_end = keys_start = keys_end = unique_start = unique_end = 0
        delay_start = delay_end = crc_start = crc_end = 0
        batch_size = 1
        p = properties
        block = properties
        mask = _separators(base, block, properties_end, end)
        while p < properties_end:
            while mask == 0:
                block += 32
                if block >= properties_end:
                    break
                mask = _separators(base, block, properties_end, end)
            next_p = properties_end
            if mask != 0:
                next_p = block + trailing_zeros(mask)
                mask &= mask - 1
            if next_p - p >= 6:
                head = be32u(base, p)
                if head == _TAGS:
                    if u8(base, p + 4) == _NAME_END:
                        tags_start = p + 5
                        tags_end = next_p
                elif head == _KEYS:
                    if u8(base, p + 4) == _NAME_END:
                        keys_start = p + 5
                        keys_end = next_p
                elif head == _UNIQ:
                    if next_p - p >= 10 and be32u(base, p + 4) == _UKEY and u8(base, p + 8) == _NAME_END:
                        unique_start = p + 9
                        unique_end = next_p
                elif head == _DELA:
                    if next_p - p >= 7 and u8(base, p + 4) == 0x59 and u8(base, p + 5) == _NAME_END:
                        delay_start = p + 6
                        delay_end = next_p
                elif head == _INNE and next_p - p >= 10:
                    second = be32u(base, p + 4)
                    if second == _R_MU:
                        marks |= _M_DISPATCH
                    elif second == _R_NU:
                        marks |= _M_INNER
                        if u8(base, p + 8) == 0x4D and u8(base, p + 9) == _NAME_END:
                            number, valid = _decimal(base, p + 10, next_p)
                            if valid and 0 < number <= 32767:
                                batch_size = number
                    elif second == _R_BA:
                        marks |= _M_INNER
                elif head == _CRC_A and next_p - p >= 10 and be32u(base, p + 4) == _CRC_B and u8(base, p + 8) == _NAME_END:
                    marks |= _M_PROPCRC
                    crc_start = p + 9
                    crc_end = next_p
            p = next_p + 1
        if (marks & _M_PROPCRC) and (checks & _CHECK_PROPERTY_CRC):
            if not _property_crc_matches(base, at, size, crc_start, crc_end):
                faults |= _F_PROPCRC
        tags_code = 0
        if tags_end > tags_start:
            state, well_formed = java_hash_utf8(np.int64(0), base, tags_start, tags_end)
            tags_code = _signed(state)
            if not well_formed:
                marks |= _M_TEXT
        if (topic_marks & _TOPIC_SCHEDULE) and delay_end > delay_start:
            level, valid = _decimal(base, delay_start, delay_end)
            if not valid:
                faults |= _F_DELAY
            elif level > 0 and delays.size > 1:
                marks |= _M_SCHEDULED
                if level > delays.size - 1:
                    level = delays.size - 1
                tags_code = store_timestamp + delays[level]
        first_key = key_count
        keys_fit = True
        if want_keys and transaction != 0xC:
            prefix = native32(names[_TOPIC_HASH], topic * 4) & 0xFFFFFFFF
            if unique_end > unique_start:
                state, well_formed = java_hash_utf8(prefix, base, unique_start, unique_end)
                if not well_formed:
                    marks |= _M_TEXT
                keys[key_count].hash = _key_hash(state)
                keys[key_count].record = count
                keys[key_count].is_tag = 0
                key_count += 1
            p = keys_start
            while p < keys_end:
                next_p = find_byte(base, p, keys_end, _SPACE)
                if next_p > p:
                    if key_count >= keys.size - 2:
                        keys_fit = False
                        break
                    state, well_formed = java_hash_utf8(prefix, base, p, next_p)
                    if not well_formed:
                        marks |= _M_TEXT
                    keys[key_count].hash = _key_hash(state)
                    keys[key_count].record = count
                    keys[key_count].is_tag = 0
                    key_count += 1
                p = next_p + 1
            if tags_end > tags_start:
                state = ((prefix * 31 + 84) * 31 + 35) & 0xFFFFFFFF
                state, well_formed = java_hash_utf8(state, base, tags_start, tags_end)
                keys[key_count].hash = _key_hash(state)
                keys[key_count].record = count
                keys[key_count].is_tag = 1
                key_count += 1
        if not keys_fit:
            # The record comes again with an empty table of keys; if it was the first one, with a larger one.
            key_count = first_key
            stop = _STOP_NAMES if count == 0 else _STOP_FULL
            break
        host = _mix_host(base, store_host, store_host_length)
        if store_timestamp < last_time:
            all_oddities |= _TIME_GOES_BACK
        if host != last_host:
            all_oddities |= _HOST_CHANGES
        if transaction == 8:
            all_oddities |= _COMMITS
        last_time = store_timestamp
        last_host = host
        all_faults |= faults
        all_marks |= marks
        row = records[count]
        row.position = origin + at
        row.physical_offset = physical_offset
        row.queue_offset = be64(base, at + _QUEUE_OFFSET)
        row.store_timestamp = store_timestamp
        row.born_timestamp = born_timestamp
        row.prepared_transaction_offset = prepared
        row.tags_code = tags_code
        row.size = size
        row.queue_id = queue_id
        row.sys_flag = sys_flag
        row.flag = be32(base, at + _FLAG)
        row.body_crc = stored_crc
        row.reconsume_times = reconsume_times
        row.body_length = body_length
        row.properties_length = properties_end - properties
        row.topic = topic
        row.queue = queue
        row.store_host = host
        row.faults = faults
        row.marks = marks
        row.key_count = key_count - first_key
        row.batch_size = batch_size
        count += 1
        at += size
    store64(counts, _LAST_TIME, last_time)
    store64(counts, _LAST_HOST, last_host)
    store64(counts, _ALL_FAULTS, all_faults)
    store64(counts, _ALL_MARKS, all_marks)
    store64(counts, _ALL_ODDITIES, all_oddities)
    return at, count, key_count, stop


@njit(nogil=True, cache=True)
def resync(base: int, at: int, end: int, file_end: int, origin: int) -> tuple[int, int]:
    """The next place at or behind `at` that is plausible: (position, Stop).

    NONE: a record with consistent lengths, PHYSICALOFFSET = position and a matching body CRC. BLANK: a BLANK whose size is exactly the
    rest of the file; nothing behind it counts. WINDOW_END: nothing found before `position`, go on there with more bytes.
    TRUNCATED: nothing up to the end of the file.
    """
    first = np.uint64(0xDADADADADADADADA)
    other = np.uint64(0xCBCBCBCBCBCBCBCB)
    next_first = at + _MAGIC - 1
    next_other = at + _MAGIC - 1
    limit = end
    while True:
        if next_first < at + _MAGIC:
            next_first = find_byte(base, at + _MAGIC, limit, first)
        if next_other < at + _MAGIC:
            next_other = find_byte(base, at + _MAGIC, limit, other)
        found = min(next_first, next_other)
        if found + 4 > limit:
            if end < file_end:
                return max(at, limit - 7), _STOP_WINDOW
            return file_end, _STOP_TRUNCATED
        start = found - _MAGIC
        reason, size, body, body_length, _, _ = structure(base, start, end, file_end)
        if reason == _STOP_BLANK and size == file_end - start:
            return start, _STOP_BLANK
        if reason == _STOP_WINDOW:
            return start, _STOP_WINDOW
        if reason == 0 and be64(base, start + _PHYSICAL_OFFSET) == origin + start:
            stored = be32u(base, start + _BODY_CRC)
            if (crc32(base, body, body_length) & 0x7FFFFFFF) == stored:
                return start, 0
        at = start + 1


def reinsert(names: Names) -> None:
    """Fills the empty slot tables of enlarged names from their topics and queues."""
    _reinsert(names.addresses)


@njit(cache=True)
def _reinsert(names: tuple[int, ...]) -> None:
    heap = names[_HEAP]
    counts = names[_COUNTS]
    slots = names[_TOPIC_SLOTS]
    mask = names[_TOPIC_MASK]
    for topic in range(native64(counts, 0)):
        start = native64(names[_TOPIC_START], topic * 8)
        slot = _topic_mix(heap, start, native32(names[_TOPIC_LENGTH], topic * 4)) & mask
        while native32(slots, slot * 4) >= 0:
            slot = (slot + 1) & mask
        store32(slots, slot * 4, topic)
    slots = names[_QUEUE_SLOTS]
    mask = names[_QUEUE_MASK]
    for queue in range(native64(counts, 16)):
        topic_of = native32(names[_QUEUE_TOPIC], queue * 4)
        slot = _queue_mix(topic_of, native32(names[_QUEUE_IDS], queue * 4)) & mask
        while native32(slots, slot * 4) >= 0:
            slot = (slot + 1) & mask
        store32(slots, slot * 4, queue)
