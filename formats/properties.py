"""The property block of a record: `name 0x01 value 0x02 …`, and the property CRC that may end it.

Source: `MessageDecoder.string2messageProperties`, `messageProperties2String`; fact sheet commitlog §2.6, §2.7.
Writers up to 4.9.0 and from 5.2.0 end the block with 0x02, 4.9.1 to 5.1.4 do not. Property CRC since 5.2.0.
"""

from __future__ import annotations

from collections.abc import Mapping

from rmqstore.formats.crc import property_crc
from rmqstore.formats.javahash import decode_java_utf8

NAME_VALUE_SEPARATOR = "\x01"
PROPERTY_SEPARATOR = "\x02"
MAX_LENGTH = 32767

KEYS = "KEYS"
TAGS = "TAGS"
UNIQ_KEY = "UNIQ_KEY"
WAIT = "WAIT"
DELAY = "DELAY"
REAL_TOPIC = "REAL_TOPIC"
REAL_QID = "REAL_QID"
RETRY_TOPIC = "RETRY_TOPIC"
CLUSTER = "CLUSTER"
TRAN_MSG = "TRAN_MSG"
PGROUP = "PGROUP"
TRANSACTION_ID = "__transactionId__"
TRANS_OFFSET = "TRANS_OFFSET"
TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
TRAN_PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"
INNER_NUM = "INNER_NUM"
INNER_BASE = "INNER_BASE"
INNER_MULTI_DISPATCH = "INNER_MULTI_DISPATCH"
INNER_MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET"
DUP_INFO = "DUP_INFO"
TIMER_OUT_MS = "TIMER_OUT_MS"
TIMER_ROLL_TIMES = "TIMER_ROLL_TIMES"
TIMER_DEL_UNIQKEY = "TIMER_DEL_UNIQKEY"
CRC32 = "__CRC32#"

CRC_DIGITS = 10
CRC_BLOCK_LENGTH = len(CRC32) + 1 + CRC_DIGITS + 1


def parse_properties(block: bytes | bytearray | memoryview) -> dict[str, str]:
    """Return the properties as brokers read them: pieces without name, separator or value are ignored, the last of a name wins."""
    properties: dict[str, str] = {}
    for piece in decode_java_utf8(block).split(PROPERTY_SEPARATOR):
        name, _, value = piece.partition(NAME_VALUE_SEPARATOR)
        if name and value:
            properties[name] = value
    return properties


def build_properties(properties: Mapping[str, str], trailing: bool = True) -> bytes:
    """Return the block of the properties in the order given; `trailing`: it ends with 0x02.

    Raises ValueError for what a block cannot hold: an empty name or value, a separator inside of one, more than 32767 bytes.
    """
    for name, value in properties.items():
        if not name or not value or NAME_VALUE_SEPARATOR in name or PROPERTY_SEPARATOR in name + value:
            raise ValueError(f"the property {name!r} with the value {value!r} cannot be stored")
    text = PROPERTY_SEPARATOR.join(f"{name}{NAME_VALUE_SEPARATOR}{value}" for name, value in properties.items())
    block = (text + (PROPERTY_SEPARATOR if trailing and text else "")).encode()
    if len(block) > MAX_LENGTH:
        raise ValueError(f"a property block has at most {MAX_LENGTH} bytes, not {len(block)}")
    return block


def encode_property_crc(crc: int) -> bytes:
    """Return ten ASCII digits of a CRC, least significant digit first, padded with `0` on the right."""
    return str(crc)[::-1].ljust(CRC_DIGITS, "0").encode()


def decode_property_crc(digits: str) -> int:
    """Return the CRC of its text as the broker computes it: multiply and add from the last character to the first, 32-bit wrap, signed."""
    value = 0
    for character in reversed(digits):
        value = (value * 10 + ord(character) - ord("0")) & 0xFFFF_FFFF
    return value - 2**32 if value >= 2**31 else value


def property_crc_block(crc: int) -> bytes:
    """Return the 20 bytes that end the property block of a record with property CRC."""
    return f"{CRC32}{NAME_VALUE_SEPARATOR}".encode() + encode_property_crc(crc) + PROPERTY_SEPARATOR.encode()


def property_crc_matches(record: bytes | memoryview, properties: Mapping[str, str]) -> bool | None:
    """Return whether the property CRC among `properties` is that of the record's bytes; None if the record carries none."""
    stored = properties.get(CRC32)
    if stored is None:
        return None
    return decode_property_crc(stored) == property_crc(record[: max(0, len(record) - CRC_BLOCK_LENGTH)])
