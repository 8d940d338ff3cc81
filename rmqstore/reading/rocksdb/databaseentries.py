"""Entries of RocksDB databases of a store, decoded by the use of the database and the column family."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from construct import Construct, ConstructError, Container

from rmqstore.formats import rocksdb
from rmqstore.store import fastjson
from rmqstore.store.rocksdb.databases import OFFSETS, REACHED_KEY, DatabaseUse

POP_MESSAGE = "pop_message"
_LONG = 8
_CONFIG_TABLES = {
    rocksdb.CONSUMER_OFFSETS: "consumer_offset",
    rocksdb.PULL_OFFSETS: "pull_offset",
    rocksdb.TOPICS: "topic",
    rocksdb.GROUPS: "group",
}
_INDEX_KINDS = {"K": "key", "T": "tag", "U": "unique_key"}


class Entry(NamedTuple):
    """One entry: its kind, and its key and value as values of JSON. Bytes of an unknown form are `{"hex": …}` or text."""

    kind: str
    key: Any
    value: Any


def decoded(use: DatabaseUse, family: str, key: bytes, value: bytes) -> Entry:
    """Return an entry; its kind is `other` if it has no form that is known of its family."""
    for decode in _DECODERS.get((use, family), _ANY):
        try:
            return decode(key, value)
        except (ConstructError, ValueError):
            continue
    return Entry("other", _text(key), _text(value))


def _queue_entry(key: bytes, value: bytes) -> Entry:
    return Entry("queue_entry", _named(rocksdb.QUEUE_KEY, key), _whole(rocksdb.QUEUE_ENTRY, value))


def _queue_end(key: bytes, value: bytes) -> Entry:
    return Entry("queue_end", _named(rocksdb.QUEUE_END_KEY, key), _whole(rocksdb.QUEUE_END, value))


def _index_entry(key: bytes, value: bytes) -> Entry:
    head = rocksdb.INDEX_HOUR.parse(key)
    place = _whole(rocksdb.INDEX_PLACE, head.rest[-_LONG:])
    nothing, topic, kind, *rest, end = head.rest[:-_LONG].decode().split("@")
    if nothing or end or not rest or kind not in _INDEX_KINDS or (kind == "U") != (len(rest) == 1):
        raise ValueError("not of the index")
    text = "@".join(rest[:-1])  # a key can hold an @
    found = {"hour": head.hour, "topic": topic, "kind": _INDEX_KINDS[kind], "key": text or None, "unique_key": rest[-1], **place}
    return Entry("index_entry", found, _whole(rocksdb.INDEX_ENTRY, value))


def _timed_message(key: bytes, value: bytes) -> Entry:
    parsed = rocksdb.TIMELINE_KEY.parse(key)
    found = {"deliver_timestamp": parsed.deliver_timestamp, "unique_key": parsed.unique_key.decode()}
    return Entry("timed_message", found, _whole(rocksdb.TIMELINE_ENTRY, value))


def _half_message(key: bytes, value: bytes) -> Entry:
    parsed = rocksdb.HALF_KEY.parse(key)
    nothing, topic, transaction = parsed.rest.decode().split("@", 2)
    if nothing:
        raise ValueError("not of a transaction")
    found = {"physical_offset": parsed.physical_offset, "topic": topic, "transaction_id": transaction}
    return Entry("half_message", found, _whole(rocksdb.HALF_ENTRY, value))


def _pop_message(key: bytes, value: bytes) -> Entry:
    head = rocksdb.POP_TIME.parse(key)
    size = rocksdb.POP_PLACE.sizeof()
    group, topic, end = head.rest[:-size].decode().rsplit("@", 2)
    if end:
        raise ValueError("not of a queue")
    place = _whole(rocksdb.POP_PLACE, head.rest[-size:])
    return Entry(POP_MESSAGE, {"visibility_timestamp": head.visibility_timestamp, "group": group, "topic": topic, **place}, _json(value))


def _progress(names: Mapping[bytes, str]) -> Callable[[bytes, bytes], Entry]:
    def decode(key: bytes, value: bytes) -> Entry:
        if key not in names or len(value) != _LONG:
            raise ValueError("no progress")
        return Entry("progress", names[key], int.from_bytes(value, "big", signed=True))

    return decode


def _configured(key: bytes, value: bytes) -> Entry:
    return Entry("config", key.decode(), _json(value))


def _configured_v2(key: bytes, value: bytes) -> Entry:
    head = rocksdb.CONFIG_HEAD.parse(key)
    table = _CONFIG_TABLES.get(head.table)
    if table is None:
        raise ValueError("no table")
    if head.record == rocksdb.DATA_VERSION:
        return Entry("data_version", {"table": table}, _whole(rocksdb.CONFIG_VERSION, value))
    if head.record != rocksdb.DATA:
        raise ValueError("no record")
    if head.table in (rocksdb.TOPICS, rocksdb.GROUPS):
        if value[:1] != bytes([rocksdb.JSON_VALUE]):
            raise ValueError("not JSON")
        return Entry("config", {"table": table, "name": rocksdb.CONFIG_NAME.parse(head.rest).name.decode()}, _json(value[1:]))
    if len(value) != _LONG:
        raise ValueError("no offset")
    return Entry("config", {"table": table, **_named(rocksdb.CONFIG_OFFSET, head.rest)}, int.from_bytes(value, "big", signed=True))


_NUMBERS = {rocksdb.LAST_OFFSET_KEY: "last_physical_offset", rocksdb.LAST_TIME_KEY: "last_store_timestamp"}
_TIMES = {rocksdb.SCANNED_KEY: "scanned_queue_offset", rocksdb.DELIVERED_KEY: "delivered_timestamp"}
_REACHED = {REACHED_KEY: "dispatched_offset"}
_ANY: tuple[Callable[[bytes, bytes], Entry], ...] = (_configured,)
_DECODERS: Mapping[tuple[DatabaseUse, str], tuple[Callable[[bytes, bytes], Entry], ...]] = {
    (DatabaseUse.QUEUES, "default"): (_queue_entry,),
    (DatabaseUse.QUEUES, OFFSETS): (_progress(_REACHED), _queue_end),
    (DatabaseUse.MESSAGES, "default"): (_progress(_NUMBERS), _index_entry),
    (DatabaseUse.MESSAGES, "timer"): (_progress(_TIMES), _timed_message),
    (DatabaseUse.MESSAGES, "trans"): (_progress(_NUMBERS), _half_message),
    (DatabaseUse.POP, "popState"): (_pop_message,),
    (DatabaseUse.CONFIGURATION, "default"): (_configured_v2, _configured),
}


def _whole(struct: Construct[Any, Any], data: bytes) -> dict[str, Any]:
    """Return the fields of a structure of fixed size. Raises ValueError for another size, ConstructError."""
    if len(data) != struct.sizeof():
        raise ValueError("another size")
    return _fields(struct.parse(data))


def _named(struct: Construct[Any, Any], data: bytes) -> dict[str, Any]:
    """Return the fields of a structure with names. Raises ValueError, ConstructError."""
    return _fields(struct.parse(data))


def _fields(parsed: Container[Any]) -> dict[str, Any]:
    left_out = ("_io", "length", "group_length", "topic_length")
    shown = {name: value for name, value in parsed.items() if name not in left_out and not name.startswith("separator")}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in shown.items()}


def _json(value: bytes) -> Any:
    return fastjson.parse(value).value


def _text(data: bytes) -> Any:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"hex": data.hex()}
    return text if text.isprintable() else {"hex": data.hex()}
