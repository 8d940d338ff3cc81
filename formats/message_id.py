"""The two message ids, upper-case hex of 16 or 28 bytes: place in the broker's log (offsetMsgId), id of the client (`UNIQ_KEY`).

Source: `MessageDecoder.createMessageId`, `MessageClientIDSetter`; fact sheet commitlog §2.10 (all releases).
"""

from __future__ import annotations

from construct import Bytes, Int16ub, Int32sb, Int64sb, Struct

from rmqstore.formats.host import parse_host

OFFSET_MESSAGE_ID_V4 = Struct(
    "address" / Bytes(4) * "IPv4 address of STOREHOST",
    "port" / Int32sb * "port of STOREHOST",
    "physical_offset" / Int64sb * "PHYSICALOFFSET of the record",
)

OFFSET_MESSAGE_ID_V6 = Struct(
    "address" / Bytes(16) * "IPv6 address of STOREHOST",
    "port" / Int32sb * "port of STOREHOST",
    "physical_offset" / Int64sb * "PHYSICALOFFSET of the record",
)

UNIQUE_KEY_V4 = Struct(
    "address" / Bytes(4) * "IPv4 address of the client; without a network the low 4 bytes of its clock",
    "process_id" / Int16ub * "low 16 bits of the client's process id",
    "class_loader_hash" / Int32sb * "hash of the class loader",
    "milliseconds" / Int32sb * "ms since the start of the month in the client's time zone",
    "counter" / Int16ub * "running number of the client",
)

UNIQUE_KEY_V6 = Struct(
    "address" / Bytes(16) * "IPv6 address of the client",
    "process_id" / Int16ub * "low 16 bits of the client's process id",
    "class_loader_hash" / Int32sb * "hash of the class loader",
    "milliseconds" / Int32sb * "ms since the start of the month in the client's time zone",
    "counter" / Int16ub * "running number of the client",
)


def encode_offset_message_id(store_host: str, physical_offset: int) -> str:
    """Return the offsetMsgId of a record: 32 hex characters for an IPv4 STOREHOST, 56 for IPv6."""
    address, port = parse_host(store_host)
    struct = OFFSET_MESSAGE_ID_V4 if len(address) == 4 else OFFSET_MESSAGE_ID_V6
    return bytes(struct.build({"address": address, "port": port, "physical_offset": physical_offset})).hex().upper()


def decode_offset_message_id(text: str) -> tuple[bytes, int, int]:
    """Return (address, port, physical offset) of an offsetMsgId. Raises ValueError for other text."""
    data = bytes.fromhex(text)
    struct = {one.sizeof(): one for one in (OFFSET_MESSAGE_ID_V4, OFFSET_MESSAGE_ID_V6)}.get(len(data))
    if struct is None or len(text) != 2 * len(data):
        raise ValueError(f"an offsetMsgId has 32 or 56 hexadecimal digits, not {len(text)} characters")
    fields = struct.parse(data)
    return fields.address, fields.port, fields.physical_offset
