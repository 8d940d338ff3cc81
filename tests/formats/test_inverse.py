"""Building and parsing are inverse for every declared structure."""

from __future__ import annotations

import importlib
import pkgutil
import struct as python_struct
from collections.abc import Iterator
from typing import Any

import pytest
from construct import Const, Struct
from hypothesis import given, settings
from hypothesis import strategies as st

import rmqstore.formats
from rmqstore.formats import consumequeue_ext, message
from rmqstore.formats.layout import Field, fixed_layout, static_size, struct_format, type_name


def declared_structures() -> Iterator[tuple[str, Struct]]:
    """Every structure of every format module once, by `module.NAME`."""
    seen: set[int] = set()
    for module in pkgutil.iter_modules(rmqstore.formats.__path__):
        for name, value in vars(importlib.import_module(f"rmqstore.formats.{module.name}")).items():
            if isinstance(value, Struct) and name.isupper() and id(value) not in seen:
                seen.add(id(value))
                yield f"{module.name}.{name}", value


def bytes_of(size: int) -> st.SearchStrategy[bytes]:
    """Exactly `size` bytes, of which a long rest is the same byte."""
    fills = st.sampled_from([b"\0", b"\x7f", b"\xff"])
    return st.builds(lambda start, fill: start.ljust(size, fill), st.binary(max_size=min(size, 60)), fills)


def has_constant(struct: Struct) -> bool:
    def wrapped(member: Any) -> Iterator[Any]:
        while member is not None:
            yield member
            member = getattr(member, "subcon", None)

    return any(isinstance(layer, Const) for member in struct.subcons for layer in wrapped(member))


# Many structures times many examples: a fixed layout hides nothing that thirty examples of it do not show.
FEW = settings(max_examples=30, deadline=None)
STRUCTURES = dict(declared_structures())
STATIC = {name: struct for name, struct in STRUCTURES.items() if static_size(struct) is not None}
FREE = {name: struct for name, struct in STATIC.items() if not has_constant(struct)}
LONGS = st.integers(-(2**63), 2**63 - 1)
INTS = st.integers(-(2**31), 2**31 - 1)
TEXTS = st.binary(max_size=300)
ROCKSDB_KEYS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "rocksdb.QUEUE_KEY": {"topic": TEXTS, "queue_id": INTS, "queue_offset": LONGS},
    "rocksdb.QUEUE_END_KEY": {"topic": TEXTS, "kind": st.sampled_from([b"max", b"min"]), "queue_id": INTS},
    "rocksdb.CONFIG_HEAD": {"prefix": st.just(1), "table": st.integers(0, 9), "record": st.integers(0, 3), "rest": TEXTS},
    "rocksdb.CONFIG_NAME": {"name": TEXTS},
    "rocksdb.TIMELINE_KEY": {"deliver_timestamp": LONGS, "unique_key": TEXTS},
    "rocksdb.INDEX_HOUR": {"hour": LONGS, "rest": TEXTS},
    "rocksdb.HALF_KEY": {"physical_offset": LONGS, "rest": TEXTS},
    "rocksdb.POP_TIME": {"visibility_timestamp": LONGS, "rest": TEXTS},
    "rocksdb.CONFIG_OFFSET": {"group": TEXTS, "topic": TEXTS, "queue_id": INTS},
}
"""Keys of varying length, and their values without lengths."""


def test_the_structures_are_found() -> None:
    assert len(STRUCTURES) > 25
    assert {"message.MESSAGE", "consumequeue_ext.UNIT", "abort.ABORT", *ROCKSDB_KEYS} == set(STRUCTURES) - set(STATIC)


@pytest.mark.parametrize("name", sorted(FREE))
@FEW
@given(data=st.data())
def test_any_bytes_are_built_as_they_were_parsed(name: str, data: st.DataObject) -> None:
    struct = FREE[name]
    size = struct.sizeof()
    raw = data.draw(bytes_of(size))
    assert struct.build(struct.parse(raw)) == raw


@pytest.mark.parametrize("name", sorted(ROCKSDB_KEYS))
@FEW
@given(data=st.data())
def test_keys_are_parsed_as_they_were_built(name: str, data: st.DataObject) -> None:
    values = {field: data.draw(strategy) for field, strategy in ROCKSDB_KEYS[name].items()}
    lengths = {"length": "name" if "name" in values else "topic", "group_length": "group", "topic_length": "topic"}
    measured = {length: len(values[of]) for length, of in lengths.items() if of in values}
    parsed = STRUCTURES[name].parse(STRUCTURES[name].build(values | measured))
    assert {field: parsed[field] for field in values} == values


def values_of(member: Any) -> st.SearchStrategy[Any]:
    kind = type_name(member)
    if kind == "bytes":
        size = static_size(member)
        assert size is not None
        return bytes_of(size)
    bits = int(kind[1:])
    return st.integers(0, 2**bits - 1) if kind.startswith("u") else st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


@pytest.mark.parametrize("name", sorted(FREE))
@FEW
@given(data=st.data())
def test_any_values_are_parsed_as_they_were_built(name: str, data: st.DataObject) -> None:
    struct = FREE[name]
    values = {member.name: data.draw(values_of(member)) for member in struct.subcons}
    parsed = struct.parse(struct.build(values))
    assert {key: parsed[key] for key in values} == values


@pytest.mark.parametrize("name", sorted(FREE))
@FEW
@given(data=st.data())
def test_layout_and_struct_format_read_what_the_declaration_reads(name: str, data: st.DataObject) -> None:
    struct = FREE[name]
    size = struct.sizeof()
    raw = data.draw(bytes_of(size))
    parsed = struct.parse(raw)
    assert python_struct.unpack(struct_format(struct), raw) == tuple(parsed[member.name] for member in struct.subcons)
    for field, place in fixed_layout(struct).items():
        value = parsed[field]
        expected = value if isinstance(value, bytes) else value.to_bytes(place.width, "big", signed=value < 0)
        assert raw[place.offset : place.end] == expected


@settings(deadline=None)
@given(tags_code=LONGS, store_time=LONGS, bit_map=st.binary(max_size=200), behind=st.binary(max_size=9))
def test_ext_units(tags_code: int, store_time: int, bit_map: bytes, behind: bytes) -> None:
    raw = consumequeue_ext.UNIT.build({"tags_code": tags_code, "msg_store_time": store_time, "filter_bit_map": bit_map})
    assert len(raw) == 20 + len(bit_map)
    parsed = consumequeue_ext.UNIT.parse(raw + behind)
    assert (parsed.size, parsed.tags_code, parsed.msg_store_time, parsed.filter_bit_map) == (len(raw), tags_code, store_time, bit_map)
    assert consumequeue_ext.UNIT.build(parsed) == raw


V4 = st.ip_addresses(v=4).map(str)
V6 = st.ip_addresses(v=6).map(lambda ip: f"[{ip}]")
INTS = st.integers(-(2**31), 2**31 - 1)


@st.composite
def messages(draw: st.DrawFn) -> dict[str, Any]:
    """Values of a record, the lengths left to the declaration."""
    magic = draw(st.sampled_from([message.MESSAGE_MAGIC_V1, message.MESSAGE_MAGIC_V2]))
    sys_flag = draw(INTS)
    hosts = {name: f"{draw(V6 if sys_flag & bit else V4)}:{draw(INTS)}" for name, bit in (("born_host", 0x10), ("store_host", 0x20))}
    integers = {
        member.name: draw(values_of(member))
        for member in message.record_head().subcons
        if member.name not in {"total_size", "magic_code", "sys_flag", "born_host", "store_host", "body_length"}
    }
    lengths = {
        "body": draw(st.binary(max_size=300)),
        "topic": draw(st.binary(max_size=127 if magic == message.MESSAGE_MAGIC_V1 else 300)),
        "properties": draw(st.binary(max_size=300)),
    }
    return {**integers, **hosts, **lengths, "magic_code": magic, "sys_flag": sys_flag}


@settings(deadline=None)
@given(values=messages())
def test_records(values: dict[str, Any]) -> None:
    raw = message.MESSAGE.build(values)
    parsed = message.MESSAGE.parse(raw)
    assert {name: parsed[name] for name in values} == values
    assert parsed.total_size == len(raw)
    assert message.MESSAGE.build(parsed) == raw


def test_the_field_behind_an_ipv6_host_moves_by_twelve_bytes() -> None:
    assert fixed_layout(message.record_head())["body_length"] == Field(84, 4)
    assert fixed_layout(message.record_head(born_v6=True))["store_timestamp"] == Field(68, 8)
    assert fixed_layout(message.record_head(born_v6=True, store_v6=True))["body_length"] == Field(108, 4)


def test_a_layout_needs_static_sizes() -> None:
    with pytest.raises(ValueError, match="born_host"):
        fixed_layout(message.MESSAGE)
    with pytest.raises(ValueError, match="born_host"):
        struct_format(message.MESSAGE)
