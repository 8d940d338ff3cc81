"""Names in tiered storage: the kinds of segments, and the files and directories that hold them.

Source: `MessageStoreUtil`, `PosixFileSegment`, `FileSegmentType` (≥5.1.0); fact sheet queues §10.
"""

from __future__ import annotations

import hashlib
import re
from enum import IntEnum


class SegmentType(IntEnum):
    """The kind of a segment; the value is `type` in tieredStoreMetadata.json, the name that of the directory."""

    COMMIT_LOG = 0
    CONSUME_QUEUE = 1
    INDEX = 2


_NAME = re.compile(r"([0-9a-f]{8})([0-9]{20})", re.ASCII)
_HASH_DIGITS = 8


def short_hash(text: str) -> str:
    """Return the first 8 hexadecimal digits of the MD5 of a text, which names of files and directories begin with."""
    return hashlib.md5(text.encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest()[:_HASH_DIGITS]


def segment_name(base_offset: int) -> str:
    """Return the name of the file of a segment that begins at an offset."""
    return f"{short_hash(str(base_offset))}{base_offset:020d}"


def base_offset_of(name: str) -> int | None:
    """Return the offset at which the segment of a file begins, None for a name that no segment has."""
    match = _NAME.fullmatch(name)
    return int(match[2]) if match and match[1] == short_hash(str(int(match[2]))) else None


def cluster_directory(cluster: str) -> str:
    """Return the name of the directory of a cluster below tieredStoreFilePath."""
    return f"{short_hash(cluster)}_{cluster}"
