"""The compiled record walker: commit-log bytes to columns.

Offsets, widths and magic numbers come from the declarations in `rmqstore.formats.record`; a property test gives both the same bytes
and requires the same answer. One call walks as many records as fit into the batch and stops with an exact reason.
"""

from __future__ import annotations

import numpy as np

from rmqstore.formats.sysflag import KNOWN_SYS_FLAGS
from rmqstore.scan.columns import KEY_DTYPE, RECORD_DTYPE, Check, Fault, Mark, Oddity, Stop
from rmqstore.scan.kernels import registry
from rmqstore.scan.kernels.declare import inlined, kernel, part
from rmqstore.scan.kernels.layout import NAME_END, PROPERTY_END, fits, layout_of, learn, read_places, write_places
from rmqstore.scan.kernels.offsets import (
    BODY_CRC,
    BORN_HOST,
    BORN_HOST_V6,
    END_MAGIC_CODE,
    ENTRY_BODY,
    ENTRY_HEADER_SIZE,
    ENTRY_MAGIC,
    ENTRY_MAGIC_CODE,
    ENTRY_POSITION,
    ENTRY_SIZE,
    HOST_V4_WIDTH,
    HOST_V6_WIDTH,
    MAGIC,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MIN_SIZE,
    PHYSICAL_OFFSET,
    PREFIX_ROWS,
    STORE_HOST_V6,
    SYS_FLAG,
)
from rmqstore.scan.kernels.raw import (
    be16,
    be32,
    be32u,
    be64,
    crc32,
    equal_mask64,
    find_byte,
    java_hash_utf8,
    native32,
    native64,
    prefetch_once,
    store64,
    trailing_zeros,
    u8,
)
from rmqstore.scan.kernels.registry import GOLDEN, QUEUE, enter_found, find_queue
from rmqstore.scan.kernels.rows import field_offset, fields_reader, fields_writer

_V6_EXTRA = HOST_V6_WIDTH - HOST_V4_WIDTH
_MAX_COMPRESSION = 3

_SPACE = np.uint64(0x2020202020202020)


def _word(text: bytes) -> int:
    return int.from_bytes(text, "big")


# Property names are distinguished by their first five bytes, some of them by four more.
_TAGS, _KEYS, _UNIQ, _DELAY = _word(b"TAGS\1"), _word(b"KEYS\1"), _word(b"UNIQ_"), _word(b"DELAY")
_INNER, _CRC = _word(b"INNER"), _word(b"__CRC")
_UNIQ_KEY, _INNER_MULTI, _INNER_NUM, _INNER_BASE, _CRC32 = (_word(text) for text in (b"KEY\1", b"_MUL", b"_NUM", b"_BAS", b"32#\1"))
_PROPERTY_CRC_LENGTH = 20

# How far ahead of the record (bytes) its successors are prefetched: memory answers while this one is decoded.
_AHEAD = 6144

_read_prefix = fields_reader(PREFIX_ROWS, "body_crc", "queue_id", "flag", "queue_offset", "physical_offset", "sys_flag", "born_timestamp")
_write_record, _RECORD_BYTES = fields_writer(RECORD_DTYPE), RECORD_DTYPE.itemsize
_write_key, _KEY_BYTES = fields_writer(KEY_DTYPE), KEY_DTYPE.itemsize

_TOPIC, _TOPIC_HASH, _TOPIC_MARKS = (field_offset(registry.ENTRY_DTYPE, name) for name in ("topic", "hash", "marks"))
# Words of the shared state as byte offsets.
_FAULTS, _MARKS, _ODDITIES, _LAST_TIME, _LAST_HOST, _LAYOUTS = (
    8 * word for word in (registry.FAULTS, registry.MARKS, registry.ODDITIES, registry.LAST_TIME, registry.LAST_HOST, registry.LAYOUTS)
)
_SCHEDULED_TOPIC, _ILLEGAL_TOPIC, _MALFORMED_TOPIC = registry.SCHEDULED_TOPIC, registry.ILLEGAL_TOPIC, registry.MALFORMED_TOPIC

_STOP_TRUNCATED, _STOP_BLANK, _STOP_ZERO = int(Stop.TRUNCATED), int(Stop.BLANK), int(Stop.END_OF_DATA)
_STOP_MAGIC, _STOP_SMALL, _STOP_BEYOND = int(Stop.ILLEGAL_MAGIC), int(Stop.SIZE_TOO_SMALL), int(Stop.SIZE_BEYOND_FILE)
_STOP_BODY, _STOP_TOPIC, _STOP_PROPERTIES = int(Stop.BODY_LENGTH), int(Stop.TOPIC_LENGTH), int(Stop.PROPERTIES_LENGTH)
_STOP_MISMATCH, _STOP_WINDOW, _STOP_FULL = int(Stop.SIZE_MISMATCH), int(Stop.WINDOW_END), int(Stop.BATCH_FULL)
_STOP_QUEUE, _STOP_KEYS = int(Stop.UNKNOWN_QUEUE), int(Stop.KEYS_FULL)
_CHECK_CRC, _CHECK_PROPERTY_CRC, _CHECK_KEYS = int(Check.BODY_CRC), int(Check.PROPERTY_CRC), int(Check.KEYS)
_F_CRC, _F_PHY, _F_PROPCRC, _F_QUEUE = int(Fault.BODY_CRC), int(Fault.PHYSICAL_OFFSET), int(Fault.PROPERTY_CRC), int(Fault.QUEUE_ID)
_F_SYS, _F_STORE, _F_BORN, _F_PREPARED = (
    int(Fault.SYS_FLAG),
    int(Fault.STORE_TIMESTAMP),
    int(Fault.BORN_TIMESTAMP),
    int(Fault.PREPARED_OFFSET),
)
_F_TOPIC, _F_COMPRESSION, _F_DELAY = int(Fault.TOPIC), int(Fault.COMPRESSION), int(Fault.DELAY)
_F_HOST, _F_RECONSUME, _F_PROPERTIES = int(Fault.HOST), int(Fault.RECONSUME_TIMES), int(Fault.PROPERTIES)
_M_DISPATCH, _M_INNER, _M_TEXT = int(Mark.MULTI_DISPATCH), int(Mark.INNER_BATCH), int(Mark.MALFORMED_TEXT)
_M_SCHEDULED, _M_PROPCRC = int(Mark.SCHEDULED), int(Mark.PROPERTY_CRC)
_TIME_GOES_BACK, _HOST_CHANGES, _COMMITS = int(Oddity.TIME_GOES_BACK), int(Oddity.HOST_CHANGES), int(Oddity.COMMITS)

# A clock that runs ahead of the broker's by more than this many ms is a damaged field, not a client's clock.
_BORN_AHEAD_LIMIT = 10 * 365 * 86_400_000


@inlined
def _signed(state: int) -> int:
    """Return a hash of 0 … 2^32-1 as the signed number that Java has."""
    return state - 0x100000000 if state > 0x7FFFFFFF else state


@inlined
def _key_hash(state: int) -> int:
    """Return the hash that an index entry stores: abs() of the signed hash, 0 for the one value without an absolute."""
    if state < 0x80000000:
        return state
    return 0 if state == 0x80000000 else 0x100000000 - state


@inlined
def _mix_host(base: int, start: int, length: int) -> int:
    """Return a 32-bit number of the host bytes (8 or 20)."""
    word = native64(base, start)
    if length > 8:
        word ^= native64(base, start + 8) * GOLDEN
        word ^= be32u(base, start + 16) << 17
    word *= GOLDEN
    return (word >> 32) & 0xFFFFFFFF


@part
def _compressed_body_fits(base: int, start: int, length: int, sys_flag: int) -> bool:
    """Return whether the first body bytes are those of the compression that SYSFLAG names."""
    kind = (sys_flag >> 8) & 7
    if kind == 1:
        return length >= 4 and be32u(base, start) == 0x04224D18
    if kind == 2:
        return length >= 4 and be32u(base, start) == 0x28B52FFD
    if length < 2:
        return False
    head = (u8(base, start) << 8) | u8(base, start + 1)
    return (head & 0x0F00) == 0x0800 and head % 31 == 0


@part
def _decimal(base: int, start: int, end: int) -> tuple[int, bool]:
    """Return a signed 32-bit decimal as Java's Integer.parseInt reads it; (value, valid)."""
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


@part
def _property_crc_matches(base: int, start: int, size: int, digits: int, digits_end: int) -> bool:
    """Compare the digits of a property CRC, least significant first, with the record without its last 20 bytes; wraps as Java does."""
    value = 0
    for position in range(digits_end - 1, digits - 1, -1):
        value = (value * 10 + u8(base, position) - 48) & 0xFFFFFFFF
    return (crc32(base, start, size - _PROPERTY_CRC_LENGTH) & 0x7FFFFFFF) == value


@inlined
def structure_head(base: int, at: int, end: int, file_end: int) -> tuple[int, int, int, int, int]:
    """Run the first half of the structural check, up to BODYLEN: (reason, size, smallest size, body start, body length).

    `end` is the end of the readable bytes, `file_end` of the file (both relative to base, end <= file_end). The order of the checks is
    that of `rmqstore.formats.record.decode_record`. The second half is after the body: callers that need the body's CRC compute it in
    between, because reading forward is what memory is fast at.
    """
    if at + 8 > file_end:
        return _STOP_TRUNCATED, 0, 0, 0, 0
    if at + 8 > end:
        return _STOP_WINDOW, 0, 0, 0, 0
    size = be32(base, at)
    magic = be32u(base, at + MAGIC)
    smallest = MIN_SIZE
    if magic != MAGIC_V1:
        if magic == MAGIC_BLANK:
            return _STOP_BLANK, size, 0, 0, 0
        if magic != MAGIC_V2:
            if magic == 0 and size == 0:
                return _STOP_ZERO, size, 0, 0, 0
            return _STOP_MAGIC, size, 0, 0, 0
        smallest += 1
    if size < smallest:
        return _STOP_SMALL, size, 0, 0, 0
    wide = smallest - MIN_SIZE
    if at + SYS_FLAG + 4 <= file_end:
        if at + SYS_FLAG + 4 > end:
            return _STOP_WINDOW, size, 0, 0, 0
        sys_flag = be32(base, at + SYS_FLAG)
        if sys_flag & (BORN_HOST_V6 | STORE_HOST_V6):
            if sys_flag & BORN_HOST_V6:
                smallest += _V6_EXTRA
            if sys_flag & STORE_HOST_V6:
                smallest += _V6_EXTRA
            if size < smallest:
                return _STOP_SMALL, size, 0, 0, 0
    if at + size > file_end:
        return _STOP_BEYOND, size, 0, 0, 0
    if at + size > end:
        return _STOP_WINDOW, size, 0, 0, 0
    # From here every fixed field is inside [at, at + size).
    body = at + smallest - 3 - wide
    body_length = be32(base, body - 4)
    if body_length < 0 or smallest + body_length > size:
        return _STOP_BODY, size, smallest, body, body_length
    return 0, size, smallest, body, body_length


@inlined
def structure_tail(base: int, at: int, size: int, smallest: int, body: int, body_length: int) -> tuple[int, int, int]:
    """Run the second half of the structural check: (reason, topic start, properties start)."""
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


@inlined
def structure(base: int, at: int, end: int, file_end: int) -> tuple[int, int, int, int, int, int]:
    """Run both halves of the structural check: (reason, size, body start, body length, topic start, properties start)."""
    reason, size, smallest, body, body_length = structure_head(base, at, end, file_end)
    topic = properties = 0
    if reason == 0:
        reason, topic, properties = structure_tail(base, at, size, smallest, body, body_length)
    return reason, size, body, body_length, topic, properties


@part
def _dledger_entry(base: int, at: int, end: int, file_end: int) -> tuple[int, int]:
    """Check the header of a DLedger entry: (reason, end of the entry). A reason other than 0 means that no entry begins here."""
    if at + 8 > file_end:
        return _STOP_TRUNCATED, at
    if at + 8 > end:
        return _STOP_WINDOW, at
    magic = be32(base, at + ENTRY_MAGIC)
    size = be32(base, at + ENTRY_SIZE)
    if magic == END_MAGIC_CODE:
        return _STOP_BLANK, at + size
    if magic != ENTRY_MAGIC_CODE:
        return (_STOP_ZERO if magic == 0 and size == 0 else _STOP_MAGIC), at
    if size < ENTRY_HEADER_SIZE + MIN_SIZE:
        return _STOP_SMALL, at
    if at + size > file_end:
        return _STOP_BEYOND, at
    if at + size > end:
        return _STOP_WINDOW, at
    if be32(base, at + ENTRY_BODY) != size - ENTRY_HEADER_SIZE:
        return _STOP_BODY, at
    return 0, at + size


@inlined
def _separators(base: int, start: int, stop: int, readable: int) -> int:
    """Return a mask: bit i is set when byte start + i (i < 64) ends a property before `stop`; bytes from `readable` on are not touched.

    The 64 bytes before `readable` must be readable.
    """
    over = start + 64 - readable
    if over > 0:
        mask = (equal_mask64(base, start - over, PROPERTY_END) >> over) & ((1 << (64 - over)) - 1)
    else:
        mask = equal_mask64(base, start, PROPERTY_END)
    if stop - start < 64:
        mask &= (1 << (stop - start)) - 1
    return mask


@kernel
def walk(
    base: int,
    at: int,
    end: int,
    file_end: int,
    origin: int,
    lead: int,
    checks: int,
    delays: int,
    levels: int,
    state: int,
    records: int,
    count: int,
    capacity: int,
    keys: int,
    key_count: int,
    key_capacity: int,
) -> tuple[int, int, int, int]:
    """Walk records from `at` on and fill the columns.

    Args: base = address of the window; at, end, file_end = bytes relative to it (end = end of the mapped bytes, file_end = end of the
    file); origin = physical offset of the window's first byte; lead = bytes before every record: 0, or those of a DLedger entry
    header; checks = Check bits; delays = address of int64[levels + 1], ms per delay level; state = address of `QueueRegistry.state`;
    records, keys = addresses of rows of RECORD_DTYPE and KEY_DTYPE, to be filled from `count` and `key_count` up to their capacities.
    Returns (position where it stopped, records, keys, Stop). UNKNOWN_QUEUE: `QueueRegistry.learn` what the state points to, then continue.
    """
    want_keys = (checks & _CHECK_KEYS) != 0
    want_crc = (checks & _CHECK_CRC) != 0
    all_faults = all_marks = all_oddities = 0
    last_time = native64(state, _LAST_TIME)
    last_host = native64(state, _LAST_HOST)
    layouts = native64(state, _LAYOUTS)
    stop = _STOP_FULL
    frame = at
    while count < capacity:
        limit = file_end
        if lead != 0:
            stop, limit = _dledger_entry(base, frame, end, file_end)
            if stop != 0:
                break
            stop = _STOP_FULL
        at = frame + lead
        reason, size, smallest, body, body_length = structure_head(base, at, end, limit)
        if reason != 0:
            stop = reason
            break
        # Prefetch some records ahead: without it every jump would wait for memory. Eight lines a turn: records of about
        # the same size take the same number of turns, which the processor predicts.
        for line in range(at + _AHEAD, at + _AHEAD + size, 512):
            prefetch_once(base, line)
            prefetch_once(base, line + 64)
            prefetch_once(base, line + 128)
            prefetch_once(base, line + 192)
            prefetch_once(base, line + 256)
            prefetch_once(base, line + 320)
            prefetch_once(base, line + 384)
            prefetch_once(base, line + 448)
        faults = 0
        stored_crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born_timestamp = _read_prefix(base + at)
        if want_crc:
            if body_length > 0:
                if (crc32(base, body, body_length) & 0x7FFFFFFF) != stored_crc:
                    faults |= _F_CRC
            elif stored_crc != 0:
                faults |= _F_CRC
        reason, topic_start, properties = structure_tail(base, at, size, smallest, body, body_length)
        if reason == 0 and lead != 0 and at + size != limit:
            reason = _STOP_MISMATCH
        if reason != 0:
            stop = reason
            break
        topic_length = properties - 2 - topic_start
        entry = find_queue(state, base, topic_start, topic_length, queue_id)
        if native32(entry, QUEUE) < 0:
            entry = enter_found(state, base, topic_start, topic_length, queue_id)
            if entry == 0:
                stop = _STOP_QUEUE
                break
        queue = native32(entry, QUEUE)
        marks = 0
        if physical_offset != origin + at:
            faults |= _F_PHY
        if lead != 0 and be64(base, frame + ENTRY_POSITION) != origin + frame:
            faults |= _F_PHY
        if queue_id < 0:
            faults |= _F_QUEUE
        if (sys_flag & ~KNOWN_SYS_FLAGS) != 0 or ((sys_flag >> 8) & 7) > _MAX_COMPRESSION:
            faults |= _F_SYS
        born_host_length = HOST_V6_WIDTH if sys_flag & BORN_HOST_V6 else HOST_V4_WIDTH
        store_host_length = HOST_V6_WIDTH if sys_flag & STORE_HOST_V6 else HOST_V4_WIDTH
        store_time_at = at + BORN_HOST + born_host_length
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
        topic_marks = native32(entry, _TOPIC_MARKS)
        if topic_marks & _ILLEGAL_TOPIC:
            faults |= _F_TOPIC
        if topic_marks & _MALFORMED_TOPIC:
            marks |= _M_TEXT
        if (sys_flag & 1) != 0 and not _compressed_body_fits(base, body, body_length, sys_flag):
            faults |= _F_COMPRESSION
        properties_end = at + size
        batch_size = 1
        block_length = properties_end - properties
        layout = layout_of(layouts, base, properties, block_length)
        if fits(layout, base, properties, block_length):
            places = read_places(layout)
            tags_start, tags_end = properties + places[0], properties + places[1]
            keys_start, keys_end = properties + places[2], properties + places[3]
            unique_start, unique_end = properties + places[4], properties + places[5]
            delay_start, delay_end = properties + places[6], properties + places[7]
            crc_start, crc_end = properties + places[8], properties + places[9]
            marks |= places[10]
        else:
            tags_start = tags_end = keys_start = keys_end = unique_start = unique_end = properties
            delay_start = delay_end = crc_start = crc_end = properties
            seen = np.int64(0)
            p = properties
            block = properties
            mask = _separators(base, block, properties_end, end)
            while p < properties_end:
                while mask == 0:
                    block += 64
                    if block >= properties_end:
                        break
                    mask = _separators(base, block, properties_end, end)
                next_p = properties_end
                if mask != 0:
                    next_p = block + trailing_zeros(mask)
                    mask &= mask - 1
                if next_p - p >= 6:
                    # The five bytes from p on are in the middle of eight that are inside the record.
                    name = (be64(base, p - 2) >> 8) & 0xFFFFFFFFFF
                    if name == _TAGS:
                        tags_start = p + 5
                        tags_end = next_p
                    elif name == _KEYS:
                        keys_start = p + 5
                        keys_end = next_p
                    elif name == _UNIQ:
                        if next_p - p >= 10 and be32u(base, p + 5) == _UNIQ_KEY:
                            unique_start = p + 9
                            unique_end = next_p
                    elif name == _DELAY:
                        if next_p - p >= 7 and u8(base, p + 5) == NAME_END:
                            delay_start = p + 6
                            delay_end = next_p
                    elif name == _INNER and next_p - p >= 10:
                        second = be32u(base, p + 5)
                        if second == _INNER_MULTI:
                            seen |= _M_DISPATCH
                        elif second == _INNER_NUM:
                            seen |= _M_INNER
                            if next_p - p >= 11 and u8(base, p + 9) == NAME_END:
                                number, valid = _decimal(base, p + 10, next_p)
                                # Of several with a value the last one counts, right or wrong.
                                batch_size = number if valid and 0 < number <= 32767 else 1
                        elif second == _INNER_BASE:
                            seen |= _M_INNER
                    elif name == _CRC and next_p - p >= 10 and be32u(base, p + 5) == _CRC32:
                        seen |= _M_PROPCRC
                        crc_start = p + 9
                        crc_end = next_p
                p = next_p + 1
            marks |= seen
            if (seen & _M_INNER) == 0 and learn(layout, base, properties, block_length):
                write_places(
                    layout,
                    tags_start - properties,
                    tags_end - properties,
                    keys_start - properties,
                    keys_end - properties,
                    unique_start - properties,
                    unique_end - properties,
                    delay_start - properties,
                    delay_end - properties,
                    crc_start - properties,
                    crc_end - properties,
                    seen,
                )
        # Brokers with %LMQ% queues leave bytes of an earlier message, or zeros, after the last property (seen in 5.2.0).
        ends_in_zero = block_length > 0 and u8(base, properties_end - 1) == 0 and (marks & _M_DISPATCH) == 0
        if ends_in_zero or (block_length > 0 and u8(base, properties) == 0):
            faults |= _F_PROPERTIES
        if (marks & _M_PROPCRC) and (checks & _CHECK_PROPERTY_CRC):
            if not _property_crc_matches(base, at, size, crc_start, crc_end):
                faults |= _F_PROPCRC
        tags_code = 0
        if tags_end > tags_start:
            # A plain 0 would be a type of its own, and the hash compiled again for it.
            hashed, well_formed = java_hash_utf8(np.int64(0), base, tags_start, tags_end)
            tags_code = _signed(hashed)
            if not well_formed:
                marks |= _M_TEXT
        if (topic_marks & _SCHEDULED_TOPIC) and delay_end > delay_start:
            level, valid = _decimal(base, delay_start, delay_end)
            if not valid:
                faults |= _F_DELAY
            elif level > 0 and levels > 0:
                marks |= _M_SCHEDULED
                tags_code = store_timestamp + native64(delays, 8 * min(level, levels))
        first_key = key_count
        if want_keys and transaction != 0xC:
            # The unique key, then every key between blanks, then the tag with `T#` before it.
            seed = native32(entry, _TOPIC_HASH) & 0xFFFFFFFF
            start = unique_start
            finish = unique_end
            p = keys_start
            is_tag = 0
            while key_count < key_capacity:
                if finish > start:
                    hashed, well_formed = java_hash_utf8(seed, base, start, finish)
                    if not well_formed:
                        marks |= _M_TEXT
                    _write_key(keys + key_count * _KEY_BYTES, _key_hash(hashed), count, is_tag)
                    key_count += 1
                if p < keys_end:
                    start = p
                    finish = find_byte(base, p, keys_end, _SPACE)
                    p = finish + 1
                elif is_tag == 0:
                    is_tag = 1
                    seed = (seed * 31 + 84) * 31 + 35
                    start = tags_start
                    finish = tags_end
                else:
                    break
            if key_count >= key_capacity:
                # The record is walked again when there is room.
                key_count = first_key
                stop = _STOP_KEYS
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
        _write_record(
            records + count * _RECORD_BYTES,
            origin + at,
            physical_offset,
            queue_offset,
            store_timestamp,
            born_timestamp,
            prepared,
            tags_code,
            size,
            queue_id,
            sys_flag,
            flag,
            stored_crc,
            reconsume_times,
            body_length,
            properties_end - properties,
            native32(entry, _TOPIC),
            queue,
            host,
            faults,
            marks,
            key_count - first_key,
            batch_size,
        )
        count += 1
        frame = at + size
    store64(state, _LAST_TIME, last_time)
    store64(state, _LAST_HOST, last_host)
    store64(state, _FAULTS, native64(state, _FAULTS) | all_faults)
    store64(state, _MARKS, native64(state, _MARKS) | all_marks)
    store64(state, _ODDITIES, native64(state, _ODDITIES) | all_oddities)
    return frame, count, key_count, stop


@kernel
def resync(base: int, at: int, end: int, file_end: int, origin: int, displaced: int) -> tuple[int, int]:
    """Return the next plausible place at or after `at`: (position, Stop).

    NONE: a record with consistent lengths, PHYSICALOFFSET = position and a matching body CRC. BLANK: a BLANK whose size is exactly the
    rest of the file; nothing after it counts. WINDOW_END: nothing found before `position`, continue there with more bytes.
    TRUNCATED: nothing up to the end of the file. With `displaced` (1), records of any PHYSICALOFFSET count, and no BLANK.
    """
    first = np.uint64(0xDADADADADADADADA)
    other = np.uint64(0xCBCBCBCBCBCBCBCB)
    next_first = at + MAGIC - 1
    next_other = at + MAGIC - 1
    limit = end
    while True:
        if next_first < at + MAGIC:
            next_first = find_byte(base, at + MAGIC, limit, first)
        if next_other < at + MAGIC:
            next_other = find_byte(base, at + MAGIC, limit, other)
        found = min(next_first, next_other)
        if found + 4 > limit:
            if end < file_end:
                return max(at, limit - 7), _STOP_WINDOW
            return file_end, _STOP_TRUNCATED
        start = found - MAGIC
        reason, size, body, body_length, _, _ = structure(base, start, end, file_end)
        if reason == _STOP_BLANK and size == file_end - start and displaced == 0:
            return start, _STOP_BLANK
        if reason == _STOP_WINDOW:
            return start, _STOP_WINDOW
        if reason == 0 and (displaced != 0 or be64(base, start + PHYSICAL_OFFSET) == origin + start):
            stored = be32u(base, start + BODY_CRC)
            if (crc32(base, body, body_length) & 0x7FFFFFFF) == stored:
                return start, 0
        at = start + 1
