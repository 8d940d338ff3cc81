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

INDEX_HOUR = Struct(
    "hour" / Int64sb * "store time rounded down to an hour (ms)",
    "rest" / GreedyBytes * "`@topic@K@key@uniqKey@`, `@topic@T@tag@uniqKey@` or `@topic@U@uniqKey@`, and 8 bytes: the physical offset",
)
"""Family `default` of rocksdbstore (≥5.4.0, indexRocksDBEnable; sheet of the newer releases §5.2)."""

INDEX_PLACE = Struct("physical_offset" / Int64sb * "physical offset of the record in the commit log")

INDEX_ENTRY = Struct("store_timestamp" / Int64sb * "STORETIMESTAMP of the record, ms")

HALF_KEY = Struct(
    "physical_offset" / Int64sb * "physical offset of the half message",
    "rest" / GreedyBytes * "`@topic@transactionId`",
)
"""Family `trans` of rocksdbstore (≥5.4.0, transRocksDBEnable; sheet of the newer releases §7.3)."""

HALF_ENTRY = Struct(
    "check_times" / Int32sb * "how often the producer was asked",
    "size" / Int32sb * "TOTALSIZE of the half message",
)

LAST_OFFSET_KEY = b"lastOffsetPy"
"""Key of the physical offset of the last message of the index, and of that of the transactions."""
LAST_TIME_KEY = b"lastStoreTimeStamp"
"""Key of its store time (ms)."""

POP_TIME = Struct(
    "visibility_timestamp" / Int64sb * "time after which the message is delivered again (ms)",
    "rest" / GreedyBytes * "`group@topic@`, the queue id (4 bytes), `@`, the queue offset (8 bytes)",
)
"""Family `popState` of kvStore (≥5.3.2, popConsumerKVServiceEnable; sheet queues §9.3); the value is JSON."""

POP_PLACE = Struct(
    "queue_id" / Int32sb * "queue id",
    "separator" / Const(b"@") * "@",
    "queue_offset" / Int64sb * "queue offset",
)
