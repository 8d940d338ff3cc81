"""The broker's own check of one record, step by step, including what it accepts wrongly (fact sheet commit log §3).

Source: `CommitLog.checkMessageAndReturnSize`. Recovery, the search for the first file and the dispatcher all use it. The compiled walker
takes valid records; this check is for the bytes at which the walker stops.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqstore.formats import properties as names
from rmqstore.formats.crc import body_crc, property_crc
from rmqstore.formats.javahash import LONG_MAX, LONG_MIN, decode_java_utf8, java_split, parse_java_integer
from rmqstore.formats.layout import fixed_layout
from rmqstore.formats.message import (
    BLANK_MAGIC,
    MESSAGE_MAGIC_V1,
    MESSAGE_MAGIC_V2,
    RECORD_PREFIX,
    record_head,
    smallest_record,
    topic_length_width,
)
from rmqstore.formats.properties import decode_property_crc, parse_properties
from rmqstore.formats.record import tags_code
from rmqstore.formats.sysflag import SysFlag
from rmqstore.prediction.blockers import BlockerCode, BrokerKilled
from rmqstore.prediction.options import Options
from rmqstore.versions import Profile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PREFIX = fixed_layout(RECORD_PREFIX)
_MAGIC_END = _PREFIX["magic_code"].end
_SHORT_MIN, _SHORT_MAX = -(2**15), 2**15 - 1
_STORE_TIMESTAMP = {born_v6: fixed_layout(record_head(born_v6))["store_timestamp"].offset for born_v6 in (False, True)}
REUSED_BUFFER = 1 << 20
HEAD_LENGTH: int = record_head(born_v6=True, store_v6=True).sizeof()
"""Bytes from which `first_record_header` takes its fields."""

# A TOTALSIZE of this many bytes does not fit into the heap of a broker that has 3 GiB; up to it, the array is allocated and freed.
# With 8 GiB (the start script's default) every TOTALSIZE fits, so the answer "does not start" is the careful one.
HEAP_LIMIT = 0x7C00_0000


@dataclass(frozen=True, slots=True)
class Request:
    """The fields of a valid record for the dispatchers (fact sheet queues §1). `physical_offset` is the field, not the place."""

    topic: str
    queue_id: int
    physical_offset: int
    size: int
    tags_code: int
    store_timestamp: int
    queue_offset: int
    sys_flag: int
    properties: dict[str, str]
    base_offset: int
    batch_size: int


@dataclass(frozen=True, slots=True)
class Checked:
    """Result of the check: `success` with a request is a record, with size 0 the end of the file; a failure has the TOTALSIZE or −1.

    `position` is the position of the reader's buffer afterwards, `reason` what failed.
    """

    success: bool
    size: int
    position: int
    request: Request | None = None
    reason: str = ""


class _Failed(Exception):
    """The check fails with −1: a rule is broken, or Java would throw while reading."""


class RecordCheck:
    """The check of one release under one configuration, as one of its callers uses it (fact sheet commit log §3.4)."""

    def __init__(
        self, profile: Profile, options: Options, delay_levels: tuple[int, ...], *, crc: bool, dup_info: bool, read_body: bool
    ) -> None:
        self._profile = profile
        self._delay_levels = delay_levels
        self._dup_info = dup_info
        self._read_body = read_body
        self.verifies_property_crc = crc and profile.verifies_property_crc and options.force_verify_prop_crc
        self.verifies_body_crc = crc and not self.verifies_property_crc
        self.decodes_all = dup_info

    @classmethod
    def of_recovery(cls, profile: Profile, options: Options) -> RecordCheck:
        """Return the check as recovery and the search for the first file call it: with body and CRC as configured."""
        levels = options.known_delay_levels if profile.delay_table_in_recovery else ()
        dup_info = profile.checks_dup_info and options.duplication_enable
        return cls(profile, options, levels, crc=options.check_crc_on_recover, dup_info=dup_info, read_body=True)

    @classmethod
    def of_dispatch(cls, profile: Profile, options: Options) -> RecordCheck:
        """Return the check as the dispatcher calls it after the start: no CRC, the body skipped."""
        return cls(profile, options, options.known_delay_levels, crc=False, dup_info=False, read_body=False)

    @property
    def delay_levels(self) -> tuple[int, ...]:
        """Return the delay in ms of level 1, 2, … as far as the caller knows them."""
        return self._delay_levels

    @property
    def reads_v2(self) -> bool:
        """Return whether V2 records are accepted."""
        return self._profile.reads_v2

    @property
    def reads_ipv6(self) -> bool:
        """Return whether hosts of 20 bytes are known."""
        return self._profile.ipv6_hosts

    def at(self, data: NDArray[np.uint8], position: int) -> Checked:
        """Check the bytes from `position` of `data`, which ends where the caller's buffer ends."""
        reader = _Reader(data, position)
        try:
            return self._read(reader)
        except _Failed as failure:
            return Checked(False, -1, reader.position, reason=str(failure))

    def _read(self, reader: _Reader) -> Checked:
        start = reader.position
        profile = self._profile
        if profile.checks_remaining and reader.remaining <= 4:
            raise _Failed(f"{reader.remaining} bytes are left")
        size = reader.integer(4)
        if profile.checks_remaining and reader.remaining < size - 4:
            raise _Failed(f"TOTALSIZE is {size}, {reader.remaining + 4} bytes are left")
        magic = reader.integer(4) & 0xFFFF_FFFF
        if magic == BLANK_MAGIC:
            return Checked(True, 0, reader.position)
        if magic != MESSAGE_MAGIC_V1 and not (magic == MESSAGE_MAGIC_V2 and profile.reads_v2):
            raise _Failed(f"found a illegal magic code 0x{magic:x}")
        reader.allocate(self._allocation(size))
        stored_crc = reader.integer(4)
        queue_id = reader.integer(4)
        reader.integer(4)
        queue_offset = reader.integer(8)
        physical_offset = reader.integer(8)
        sys_flag = reader.integer(4)
        reader.integer(8)
        hosts = sys_flag if profile.ipv6_hosts else 0
        reader.content(20 if hosts & SysFlag.BORN_HOST_V6 else 8)
        store_timestamp = reader.integer(8)
        reader.content(20 if hosts & SysFlag.STORE_HOST_V6 else 8)
        reader.integer(4)
        reader.integer(8)
        body_length = reader.integer(4)
        if body_length > 0:
            if self._read_body:
                body = reader.content(body_length)
                if self.verifies_body_crc and body_crc(body) != stored_crc:
                    raise _Failed("CRC check failed: the body is not that of BODYCRC")
            else:
                reader.skip(body_length)
        topic_length = reader.integer(topic_length_width(magic))
        topic = decode_java_utf8(reader.content(topic_length))
        properties_length = reader.integer(2)
        properties = parse_properties(reader.content(properties_length)) if properties_length > 0 else {}
        if properties_length > 0 and self._dup_info and len(java_split(properties.get(names.DUP_INFO, ""), "_")) != 2:
            raise _Failed("DupInfo in properties check failed")
        code = tags_code(topic, properties, store_timestamp, self._delay_levels)
        if code is None:
            raise _Failed("DELAY of a schedule message is no number")
        if self.verifies_property_crc:
            self._verify_property_crc(reader, size, properties)
        read = smallest_record(magic, hosts) + max(body_length, 0) + topic_length + max(properties_length, 0)
        if read != size:
            text = f"[BUG]read total count not equals msg total size. totalSize={size}, readTotalCount={read}"
            return Checked(False, size, reader.position, reason=text)
        base_offset, batch_size = self._batch(properties, queue_offset)
        request = Request(
            topic, queue_id, physical_offset, size, code, store_timestamp, queue_offset, sys_flag, properties, base_offset, batch_size
        )
        return Checked(True, size, start + size, request)

    def _allocation(self, size: int) -> int:
        """Return the number of bytes of the array that fields are copied into."""
        if size < 0:
            raise _Failed(f"TOTALSIZE is {size}")
        if size >= HEAP_LIMIT:
            text = f"OutOfMemoryError for a TOTALSIZE of {size} bytes (with a heap of up to 3 GiB; a larger one may hold it)"
            raise BrokerKilled(BlockerCode.OUT_OF_MEMORY, text)
        return max(size, REUSED_BUFFER) if self._profile.reuses_check_buffer else size

    def _verify_property_crc(self, reader: _Reader, size: int, properties: dict[str, str]) -> None:
        stored = properties.get(names.CRC32)
        expected = -1 if stored is None else decode_property_crc(stored)
        if expected < 0 or (expected == 0 and self._profile.property_crc_zero_fails):
            raise _Failed("failed to check message CRC, not found CRC in properties")
        begin = reader.position - size
        covered = size - names.CRC_BLOCK_LENGTH
        if begin < 0 or covered < 0:
            raise _Failed("TOTALSIZE does not fit the fields")
        if property_crc(reader.at(begin, covered)) != expected:
            raise _Failed("failed to check message CRC")

    def _batch(self, properties: dict[str, str], queue_offset: int) -> tuple[int, int]:
        """Return first queue offset and number of messages of an inner batch; a plain record is one message."""
        number, base = properties.get(names.INNER_NUM), properties.get(names.INNER_BASE)
        if not self._profile.parses_inner_batch or number is None or base is None:
            return queue_offset, 1
        batch_size = parse_java_integer(number, _SHORT_MIN, _SHORT_MAX)
        base_offset = parse_java_integer(base, LONG_MIN, LONG_MAX)
        if batch_size is None or base_offset is None:
            raise _Failed("INNER_NUM or INNER_BASE is no number")
        return base_offset, batch_size


class _Reader:
    """A Java ByteBuffer over the rest of a file, and the array its bytes are copied through: both have bounds that throw."""

    __slots__ = ("_capacity", "_data", "position")

    def __init__(self, data: NDArray[np.uint8], position: int) -> None:
        self._data = data
        self._capacity = 0
        self.position = position

    @property
    def remaining(self) -> int:
        return int(self._data.size) - self.position

    def allocate(self, capacity: int) -> None:
        self._capacity = capacity

    def integer(self, width: int) -> int:
        return int.from_bytes(self._take(width), "big", signed=True)

    def content(self, length: int) -> bytes:
        """Return bytes that are copied into the allocated array."""
        if length < 0 or length > self._capacity:
            raise _Failed(f"a field of {length} bytes in a record of {self._capacity}")
        return self._take(length)

    def skip(self, length: int) -> None:
        if length > self.remaining:
            raise _Failed(f"a field of {length} bytes, {self.remaining} are left")
        self.position += length

    def at(self, position: int, length: int) -> bytes:
        return self._data[position : position + length].tobytes()

    def _take(self, length: int) -> bytes:
        if length > self.remaining:
            # The position of the buffer does not change when it underflows.
            raise _Failed(f"a field of {length} bytes, {self.remaining} are left")
        taken = self.at(self.position, length)
        self.position += length
        return taken


@dataclass(frozen=True, slots=True)
class FirstRecord:
    """Fields of a file's first bytes that are taken without any check (`isMappedFileMatchedRecover` up to 5.3.3)."""

    magic: int
    physical_offset: int
    store_timestamp: int


def first_record_header(head: bytes, *, ipv6_hosts: bool) -> FirstRecord:
    """Read the fixed fields at the start of a file; `head` has HEAD_LENGTH bytes."""
    magic = int.from_bytes(head[_PREFIX["magic_code"].offset : _MAGIC_END], "big")
    physical = _PREFIX["physical_offset"]
    sys_flag = int.from_bytes(head[_PREFIX["sys_flag"].offset : _PREFIX["sys_flag"].end], "big")
    time = _STORE_TIMESTAMP[ipv6_hosts and bool(sys_flag & SysFlag.BORN_HOST_V6)]
    return FirstRecord(magic, _long_at(head, physical.offset), _long_at(head, time))


def _long_at(data: bytes, offset: int) -> int:
    return int(struct.unpack_from(">q", data, offset)[0])
