"""Reasons why a broker does not start, as codes with the file and the broker's own message."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class BlockerCode(StrEnum):
    """A reason that stops the start."""

    FILE_LENGTH = "file-length"
    FILE_NAME = "file-name"
    EMPTY_FILE = "empty-file"
    DIRECTORY = "directory"
    QUEUE_TYPE = "queue-type"
    CHECKPOINT = "checkpoint"
    INDEX = "index"
    EMPTY_QUEUE_FILE = "empty-queue-file"
    OUT_OF_MEMORY = "out-of-memory"
    DISPATCH = "dispatch"
    ACCELERATED = "accelerated-recovery"
    EXT_FILE = "ext-file"
    DELAY_LEVELS = "delay-levels"
    ABORT_DIRECTORY = "abort-directory"
    DISPATCH_STUCK = "dispatch-stuck"
    COMPACTION = "compaction"
    ROCKSDB = "rocksdb"
    DLEDGER = "dledger"


@dataclass(frozen=True, slots=True)
class Blocker:
    """One reason. `file` is the path that it concerns, None if it concerns no file."""

    code: BlockerCode
    message: str
    file: Path | None = None


class LoadStopped(Exception):
    """The load ends here and returns false; what was loaded and changed before remains."""

    def __init__(self, code: BlockerCode, message: str, file: Path | None = None) -> None:
        super().__init__(message)
        self.blocker = Blocker(code, message, file)


class BrokerKilled(LoadStopped):
    """A Java Error escapes load: the process ends without its stop routine."""


class Unknown(Exception):
    """The bytes do not show what the broker will do. `str()` is the reason and completes "unknown because"."""
