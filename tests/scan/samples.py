"""Records that differ in everything the walker has a branch for."""

from __future__ import annotations

from typing import Any

from rmqstore.formats import record
from rmqstore.formats.crc import body_crc, property_crc
from rmqstore.formats.naming import SCHEDULE_TOPIC
from rmqstore.formats.properties import CRC_BLOCK_LENGTH, build_properties, property_crc_block
from rmqstore.formats.record import SysFlag

NOW = 1_700_000_000_000
V4, V6 = "10.9.8.7:10911", "[fe80::1]:10911"


def fields(
    *,
    body: bytes = b"hello",
    topic: bytes = b"TopicA",
    properties: dict[str, str] | bytes | None = None,
    magic_code: int = record.MESSAGE_MAGIC_V1,
    born_host: str = V4,
    store_host: str = V4,
    sys_flag: int = 0,
    **others: Any,
) -> dict[str, Any]:
    """Fields of a plausible record as the MESSAGE declaration names them; `properties` as a mapping or as the block itself."""
    hosts = (SysFlag.BORN_HOST_V6 if born_host == V6 else 0) | (SysFlag.STORE_HOST_V6 if store_host == V6 else 0)
    return {
        "magic_code": magic_code,
        "body_crc": body_crc(body),
        "queue_id": 3,
        "flag": 0,
        "queue_offset": 7,
        "physical_offset": 0,
        "sys_flag": sys_flag | hosts,
        "born_timestamp": NOW - 5,
        "born_host": born_host,
        "store_timestamp": NOW,
        "store_host": store_host,
        "reconsume_times": 0,
        "prepared_transaction_offset": 0,
        "body": body,
        "topic": topic,
        "properties": properties if isinstance(properties, bytes) else build_properties(properties or {}),
    } | others


def encoded(**changes: Any) -> bytes:
    """The bytes of one record of these fields."""
    return bytes(record.MESSAGE.build(fields(**changes)))


def with_property_crc(**changes: Any) -> bytes:
    """A record of these fields that ends with the right property CRC."""
    block = fields(**changes)["properties"]
    covered = encoded(**changes | {"properties": block + bytes(CRC_BLOCK_LENGTH)})[:-CRC_BLOCK_LENGTH]
    return covered + property_crc_block(property_crc(covered))


def varied() -> dict[str, bytes]:
    """One record of every kind, by a name that says its kind."""
    keyed = {"UNIQ_KEY": "0A0908", "KEYS": "k1 k2  k3", "TAGS": "TagA"}
    return {
        "plain": encoded(),
        "empty": encoded(body=b"", topic=b"", properties=b""),
        "keys": encoded(properties=keyed),
        "v2": encoded(magic_code=record.MESSAGE_MAGIC_V2, topic=b"T" * 200, properties=keyed),
        "v2-ipv6": encoded(magic_code=record.MESSAGE_MAGIC_V2, born_host=V6, store_host=V6, properties={"TAGS": "TagA"}),
        "ipv6": encoded(born_host=V6, store_host=V6, properties=keyed),
        "born-ipv6": encoded(born_host=V6),
        "store-ipv6": encoded(store_host=V6),
        "unicode": encoded(topic=b"Thema", properties={"TAGS": "grün", "KEYS": "schlüssel 日本 😀"}),
        "delayed": encoded(topic=SCHEDULE_TOPIC.encode(), properties={"DELAY": "3", "TAGS": "TagA"}),
        "batch": encoded(properties={"INNER_NUM": "12", "INNER_BASE": "100"}, sys_flag=int(SysFlag.INNER_BATCH)),
        "dispatch": encoded(properties={"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b", "INNER_MULTI_QUEUE_OFFSET": "1,2"}),
        "prepared": encoded(sys_flag=int(SysFlag.TRANSACTION_PREPARED), properties=keyed),
        "rollback": encoded(sys_flag=int(SysFlag.TRANSACTION_ROLLBACK), properties=keyed),
        "property-crc": with_property_crc(properties=keyed),
        "long-properties": encoded(properties={f"name{number}": "v" * number for number in range(1, 16)} | keyed),
    }
