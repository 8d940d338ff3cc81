"""Why a broker does not start: what stops the load or the start, as codes with the file and what the broker says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class BlockerCode(StrEnum):
    """What stops a start."""

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


@dataclass(frozen=True, slots=True)
class Blocker:
    """One reason. `file` is the path it is about, None where it is about no file."""

    code: BlockerCode
    message: str
    file: Path | None = None


class LoadStopped(Exception):
    """Load ends here and returns false; what was loaded and changed before stays."""

    def __init__(self, code: BlockerCode, message: str, file: Path | None = None) -> None:
        super().__init__(message)
        self.blocker = Blocker(code, message, file)


class BrokerKilled(LoadStopped):
    """A Java Error escapes load: the process ends without its stop routine."""


class Unknown(Exception):
    """The bytes do not tell what the broker will do. `str()` is the reason, to be read behind "unknown because"."""
