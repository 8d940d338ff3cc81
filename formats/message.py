"""Declaration of a record of the commit log, and of the BLANK that closes a file.

Source: `MessageExtEncoder`; fact sheet commitlog §2.1, §2.2. V1 in all releases, V2 since 5.1.0, IPv6 since 4.6.0.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from construct import (
    Bytes,
    Check,
    Construct,
    Error,
    IfThenElse,
    Int8sb,
    Int16sb,
    Int32sb,
    Int32ub,
    Int64sb,
    Rebuild,
    Struct,
    Switch,
    len_,
    this,
)

from rmqstore.formats.host import HOST_V4, HOST_V6, host_text
from rmqstore.formats.sysflag import SysFlag

MESSAGE_MAGIC_V1 = 0xDAA320A7
MESSAGE_MAGIC_V2 = 0xDAA320AB
BLANK_MAGIC = 0xCBD43194

# Bytes that stay free at the end of a file: a record is written only if its size + 8 fits, so that a BLANK always fits.
BLANK_SIZE = 8

RECORD_PREFIX = Struct(
    "total_size" / Int32sb * "TOTALSIZE, length of the whole record",
    "magic_code" / Int32ub * "MAGICCODE, DAA320A7 (V1) or DAA320AB (V2)",
    "body_crc" / Int32sb * "BODYCRC, CRC-32 of the stored body with the top bit cleared, 0 for an empty body",
    "queue_id" / Int32sb * "QUEUEID",
    "flag" / Int32sb * "FLAG of the application",
    "queue_offset" / Int64sb * "QUEUEOFFSET, index of the message in its queue",
    "physical_offset" / Int64sb * "PHYSICALOFFSET, position of the record in the log",
    "sys_flag" / Int32sb * "SYSFLAG bits",
    "born_timestamp" / Int64sb * "BORNTIMESTAMP, clock of the client (ms)",
)

BLANK = Struct(
    "total_size" / Int32sb * "bytes left in the file, these 8 included",
    "magic_code" / Int32ub * "MAGICCODE, CBD43194",
)


def _head(born_host: Construct[Any, Any], store_host: Construct[Any, Any]) -> list[Construct[Any, Any]]:
    return [
        *RECORD_PREFIX.subcons,
        "born_host" / born_host * "BORNHOST, address and port (i32) of the client",
        "store_timestamp" / Int64sb * "STORETIMESTAMP, clock of the broker (ms)",
        "store_host" / store_host * "STOREHOST, address and port (i32) of the broker",
        "reconsume_times" / Int32sb * "RECONSUMETIMES",
        "prepared_transaction_offset" / Int64sb * "PREPAREDTRANSACTIONOFFSET, physical offset of the half message that a commit ends",
        "body_length" / Int32sb * "length of the body",
    ]


def record_head(born_v6: bool = False, store_v6: bool = False) -> Struct:
    """Return the static fields before the body for one combination of host widths: 88, 100 or 112 bytes."""
    return Struct(*_head(HOST_V6 if born_v6 else HOST_V4, HOST_V6 if store_v6 else HOST_V4))


def _host(v6_bit: int) -> Construct[Any, Any]:
    return IfThenElse(this.sys_flag & v6_bit, host_text(HOST_V6), host_text(HOST_V4))


_TOPIC_LENGTHS: dict[int, Any] = {MESSAGE_MAGIC_V1: Int8sb, MESSAGE_MAGIC_V2: Int16sb}


def topic_length_width(magic_code: int) -> int:
    """Return the width in bytes of TOPICLEN, a signed integer: 1 in V1, 2 in V2."""
    return int(_TOPIC_LENGTHS[magic_code].sizeof())


@cache
def _smallest(magic_code: int, born_v6: bool, store_v6: bool) -> int:
    return int(record_head(born_v6, store_v6).sizeof() + topic_length_width(magic_code) + Int16sb.sizeof())


def smallest_record(magic_code: int, sys_flag: int) -> int:
    """Return the size of a record with empty body, topic and properties: 91 (V1) or 92 (V2), +12 for each IPv6 host."""
    return _smallest(magic_code, bool(sys_flag & SysFlag.BORN_HOST_V6), bool(sys_flag & SysFlag.STORE_HOST_V6))


def _record_size(context: Any) -> int:
    return smallest_record(context.magic_code, context.sys_flag) + len(context.body) + len(context.topic) + len(context.properties)


def _derived(member: Any) -> Any:
    """Return a member whose lengths are computed when a record is built."""
    lengths = {"total_size": _record_size, "body_length": len_(this.body)}
    return member.name / Rebuild(member.subcon, lengths[member.name]) * member.docs if member.name in lengths else member


MESSAGE = Struct(
    *map(_derived, _head(_host(SysFlag.BORN_HOST_V6), _host(SysFlag.STORE_HOST_V6))),
    "body" / Bytes(this.body_length) * "body as the client sent it, compressed or not",
    "topic_length"
    / Rebuild(Switch(this.magic_code, _TOPIC_LENGTHS, default=Error), len_(this.topic))
    * "length of the topic: i8 in V1, i16 in V2",
    "topic" / Bytes(this.topic_length) * "topic, UTF-8",
    "properties_length" / Rebuild(Int16sb, len_(this.properties)) * "length of the property block",
    "properties" / Bytes(this.properties_length) * "property block",
    Check(lambda context: context.total_size == _record_size(context)),
)

MIN_RECORD_SIZE_V1 = smallest_record(MESSAGE_MAGIC_V1, 0)
