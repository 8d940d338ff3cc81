"""Keys and values in RocksDB: consume queues, and the configuration of `configManagerVersion=v2`.

Sources: `RocksDBConsumeQueueTable`, `RocksDBConsumeQueueOffsetTable`, `ConfigHelper`; fact sheet queues §8.2, §8.3, §9.2. All numbers are
big-endian. Configuration of v1 has no binary form: the key is a name, the value JSON.
"""

from __future__ import annotations

from construct import Bytes, Const, GreedyBytes, Int8ub, Int16ub, Int32sb, Int64sb, Int64ub, Struct, Terminated, this
from construct import Int32ub as Length

_SEPARATOR = b"\x01"

QUEUE_KEY = Struct(
    "length" / Length * "bytes of the topic",
    "separator_1" / Const(_SEPARATOR) * "01",
    "topic" / Bytes(this.length) * "topic, UTF-8",
    "separator_2" / Const(_SEPARATOR) * "01",
    "queue_id" / Int32sb * "queue id",
    "separator_3" / Const(_SEPARATOR) * "01",
    "queue_offset" / Int64sb * "queue offset",
    Terminated,
)

QUEUE_ENTRY = Struct(
    "physical_offset" / Int64sb * "physical offset of the record in the commit log",
    "size" / Int32sb * "TOTALSIZE of the record",
    "tags_code" / Int64sb * "hash of TAGS; deliver time (ms) in the schedule topic",
    "store_timestamp" / Int64sb * "STORETIMESTAMP of the record, ms",
)

QUEUE_END_KEY = Struct(
    "length" / Length * "bytes of the topic",
    "separator_1" / Const(_SEPARATOR) * "01",
    "topic" / Bytes(this.length) * "topic, UTF-8",
    "separator_2" / Const(_SEPARATOR) * "01",
    "kind" / Bytes(3) * "`max`: the last entry of the queue; `min`: the first one that was served last",
    "separator_3" / Const(_SEPARATOR) * "01",
    "queue_id" / Int32sb * "queue id",
    Terminated,
)

QUEUE_END = Struct(
    "physical_offset" / Int64sb * "physical offset of the record of that entry",
    "queue_offset" / Int64sb * "queue offset of that entry",
)

CONSUMER_OFFSETS, PULL_OFFSETS, TOPICS, GROUPS = 1, 2, 3, 4
"""Tables of v2."""
DATA_VERSION, DATA = 1, 2
"""Records of a table."""
JSON_VALUE = 1
"""The only format of a value of topics and groups."""

CONFIG_HEAD = Struct(
    "prefix" / Const(1, Int8ub) * "1",
    "table" / Int16ub * "1 consumer offsets, 2 pull offsets, 3 topics, 4 subscription groups",
    "record" / Int8ub * "1 data version, 2 data",
    "rest" / GreedyBytes * "`data_version`, or the key of a record",
)

CONFIG_NAME = Struct(
    "length" / Int16ub * "bytes of the name",
    "name" / Bytes(this.length) * "topic or group, UTF-8",
    Terminated,
)

CONFIG_OFFSET = Struct(
    "group_length" / Int16ub * "bytes of the group",
    "group" / Bytes(this.group_length) * "group, UTF-8",
    "separator_1" / Const(_SEPARATOR) * "01",
    "topic_length" / Int16ub * "bytes of the topic",
    "topic" / Bytes(this.topic_length) * "topic, UTF-8",
    "separator_2" / Const(_SEPARATOR) * "01",
    "queue_id" / Int32sb * "queue id",
    Terminated,
)

CONFIG_VERSION = Struct(
    "state_version" / Int64sb * "state version of the controller mode",
    "timestamp" / Int64sb * "ms",
    "counter" / Int64ub * "changes",
)

TIMELINE_KEY = Struct(
    "deliver_timestamp" / Int64sb * "TIMER_OUT_MS of the message (ms)",
    "unique_key" / GreedyBytes * "UNIQ_KEY of the message",
)
"""Family `timer` of rocksdbstore (≥5.4.0, timerRocksDBEnable; sheet of the newer releases §7.2)."""

TIMELINE_ENTRY = Struct(
    "size" / Int32sb * "TOTALSIZE of the record",
    "physical_offset" / Int64sb * "physical offset of the record in the commit log",
)

SCANNED_KEY = b"sys_topic_scan_offset_checkpoint"
"""Key of the next queue offset of rmq_sys_wheel_timer that is read."""
DELIVERED_KEY = b"timeline_checkpoint"
"""Key of the time (ms) up to which messages were delivered."""
