"""The formats a file of a store can have."""

from __future__ import annotations

from enum import StrEnum


class FileKind(StrEnum):
    """The values are the names of `dump --part`, as far as `dump` decodes the format."""

    COMMITLOG = "commitlog"
    CONSUMEQUEUE = "consumequeue"
    CONSUMEQUEUE_EXT = "consumequeue_ext"
    BATCHCONSUMEQUEUE = "batchconsumequeue"
    INDEX = "index"
    CHECKPOINT = "checkpoint"
    ABORT = "abort"
    LOCK = "lock"
    TIMERWHEEL = "timerwheel"
    TIMERLOG = "timerlog"
    TIMERCHECK = "timercheck"
    EPOCH = "epoch"
    DLEDGER = "dledger"
    DLEDGER_INDEX = "dledger_index"
    COMPACTION = "compaction"
    COMPACTION_LOG = "compaction_log"
    COMPACTION_QUEUE = "compaction_queue"
    TIERED_INDEX = "tiered_index"
    PROPERTIES = "properties"
    JSON = "json"
    ROCKSDB = "rocksdb"
    TEXT = "text"
    UNKNOWN = "unknown"
