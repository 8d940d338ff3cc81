"""Names in a store: files named by their start offset, and topics with a special meaning.

Source: fact sheets commitlog §1.2, queues §0, §2.13.
"""

from __future__ import annotations

import re

FILE_NAME_DIGITS = 20

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
TIMER_TOPIC = "rmq_sys_wheel_timer"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
ROCKSDB_HALF_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
ROCKSDB_OP_HALF_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
LMQ_PREFIX = "%LMQ%"
LITE_PREFIX = "%LMQ%$"  # of the queues of lite topics (5.5.0 and later)
SYSTEM_PREFIX = "rmq_sys_"
FILLER_TOPIC = "RMQSTORE_FILLER"  # of records that a repair puts in place of lost ones; cut if there is no room for all of it

_MOST_NAME_BYTES = 255  # of a file name

# Letters, digits, `%`, `|`, `_`, `-`; `+` and `$` occur in names that brokers make.
_LEGAL_TOPIC = re.compile(rb"[a-zA-Z0-9%|_\-+$]+")


def is_legal_topic(topic: bytes) -> bool:
    """Return whether the bytes of a topic have the syntax that brokers require."""
    return _LEGAL_TOPIC.fullmatch(topic) is not None


PLACEHOLDER = "RMQSTORE_PLACEHOLDER"
"""Property of a message that a repair wrote in the place of a lost one, in its queue."""


def is_filler_topic(topic: str) -> bool:
    """Return whether a record of this topic may be a filler: the name, or the beginning of it."""
    return bool(topic) and FILLER_TOPIC.startswith(topic)


def offset_to_file_name(offset: int) -> str:
    """Return the name of the mapped file that starts at `offset` (bytes): zero-padded to 20 digits."""
    return f"{offset:0{FILE_NAME_DIGITS}d}"


_BROKER_TOPICS = frozenset({SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC, OP_HALF_TOPIC, "TRANS_CHECK_MAX_TIME_TOPIC", "OFFSET_MOVED_EVENT"})
_BROKER_GROUPS = frozenset(
    {"TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY", "CID_ONSAPI_PULL", "CID_ONSAPI_PERMISSION"}
    | {"CID_ONSAPI_OWNER", "CID_DefaultHeartBeatSyncerTopic"}
)


def is_broker_topic(topic: str) -> bool:
    """Return whether a broker keeps messages of its own under this name, whatever topics are configured."""
    return topic in _BROKER_TOPICS or topic.startswith((LMQ_PREFIX, SYSTEM_PREFIX, "RMQ_SYS_"))


def is_broker_group(group: str) -> bool:
    """Return whether brokers make a consumer group of this name automatically."""
    return group in _BROKER_GROUPS or group.startswith("CID_RMQ_SYS_")


def can_exist(topic: str, queue_id: int) -> bool:
    """Return whether a broker can have created a queue: the topic names a directory, and the queue id is not negative."""
    return queue_id >= 0 and is_path_name(topic)


def is_path_name(topic: str) -> bool:
    """Return whether a topic names exactly one directory."""
    encoded = topic.encode("utf-8", "surrogatepass")
    return topic not in ("", ".", "..") and b"/" not in encoded and b"\0" not in encoded and len(encoded) <= _MOST_NAME_BYTES
