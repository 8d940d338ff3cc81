"""Hypothesis strategies for what stands in a store: fields, properties, whole records, damaged and hostile bytes."""

from __future__ import annotations

from typing import Any, Literal

from hypothesis import strategies as st

from rmqstore.formats import record
from rmqstore.formats.crc import body_crc
from rmqstore.formats.host import format_host
from rmqstore.formats.properties import build_properties
from rmqstore.formats.record import SysFlag

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
# lengths that a careless reader trips over
HOSTILE_LENGTHS = st.sampled_from([0, 1, -1, 4, 8, 59, 60, 90, 91, 2**15, 2**16, 2**29, 2**31 - 1, 2**31 - 16, -(2**31)])

_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1, max_size=6)


def properties() -> st.SearchStrategy[dict[str, str]]:
    """Properties that a block can hold, the names that matter to the store among them."""
    names = st.one_of(st.sampled_from(["KEYS", "TAGS", "UNIQ_KEY", "CLUSTER", "WAIT"]), _TEXT)
    return st.dictionaries(names, _TEXT, max_size=3)


def hosts(version: Literal[4, 6]) -> st.SearchStrategy[str]:
    """Host text of that IP version with any port that an i32 can hold."""
    return st.builds(lambda ip, port: format_host(ip.packed, port), st.ip_addresses(v=version), st.integers(0, 2**31 - 1))


@st.composite
def record_fields(draw: st.DrawFn) -> dict[str, Any]:
    """Fields of a record as the MESSAGE declaration names them, without those that are derived: V1 and V2, IPv4 and IPv6, any content."""
    magic = draw(st.sampled_from([record.MESSAGE_MAGIC_V1, record.MESSAGE_MAGIC_V2]))
    born_v6, store_v6 = draw(st.booleans()), draw(st.booleans())
    flags = draw(st.sampled_from([0, 1, 4, 8, 12, 0x40, 0xC0, 0x101, 0x201, 0x301]))
    body = draw(st.binary(max_size=60))
    topic = draw(st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=20))
    return {
        "magic_code": magic,
        "body_crc": body_crc(body),
        "queue_id": draw(st.integers(0, 2**31 - 1)),
        "flag": draw(INT32),
        "queue_offset": draw(st.integers(0, 2**63 - 1)),
        "physical_offset": draw(st.integers(0, 2**63 - 1)),
        "sys_flag": flags | (SysFlag.BORN_HOST_V6 if born_v6 else 0) | (SysFlag.STORE_HOST_V6 if store_v6 else 0),
        "born_timestamp": draw(INT64),
        "born_host": draw(hosts(6 if born_v6 else 4)),
        "store_timestamp": draw(INT64),
        "store_host": draw(hosts(6 if store_v6 else 4)),
        "reconsume_times": draw(INT32),
        "prepared_transaction_offset": draw(INT64),
        "body": body,
        "topic": topic.encode(),
        "properties": build_properties(draw(properties()), draw(st.booleans())),
    }


def records() -> st.SearchStrategy[bytes]:
    """Whole valid records."""
    return record_fields().map(record.MESSAGE.build)


@st.composite
def damaged(draw: st.DrawFn, source: st.SearchStrategy[bytes]) -> bytes:
    """Bytes of `source` with one to four small injuries: flipped bits, overwritten integers, cuts, zeros, repeats."""
    data = bytearray(draw(source))
    for _ in range(draw(st.integers(1, 4))):
        if not data:
            break
        position = draw(st.integers(0, len(data) - 1))
        match draw(st.sampled_from(["flip", "length", "zero", "cut", "repeat"])):
            case "flip":
                data[position] ^= 1 << draw(st.integers(0, 7))
            case "length":
                data[position : position + 4] = draw(HOSTILE_LENGTHS).to_bytes(4, "big", signed=True)
            case "zero":
                data[position : position + 32] = bytes(len(data[position : position + 32]))
            case "cut":
                del data[position:]
            case "repeat":
                data += data[position : position + 64]
    return bytes(data)


def logs() -> st.SearchStrategy[bytes]:
    """A few records one behind the other, as they lie in a file: PHYSICALOFFSET is their position."""
    return st.lists(record_fields(), max_size=4).map(_log)


def _log(fields: list[dict[str, Any]]) -> bytes:
    data = b""
    for one in fields:
        data += record.MESSAGE.build({**one, "physical_offset": len(data)})
    return data


def hostile_files() -> st.SearchStrategy[bytes]:
    """Anything a file may hold: noise, zeros, damaged logs."""
    return st.one_of(st.binary(max_size=4096), st.integers(0, 4096).map(bytes), damaged(logs()))
