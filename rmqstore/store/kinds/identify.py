"""The format of one file or copied directory, from its name and the directories above it, or from its content."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from rmqstore.formats.tiered_names import base_offset_of
from rmqstore.store.kinds.filekind import FileKind
from rmqstore.store.mapped import list_directory, parse_offset_name
from rmqstore.store.parts import PartKind
from rmqstore.store.window import open_read_only, read_descriptor

__all__ = ["FileKind", "identify", "identify_directory"]

_HEAD_LENGTH = 4096
_SAMPLED_FILES = 16

# name of the file → kind, whatever is above it
_NAMES: tuple[tuple[re.Pattern[str], FileKind], ...] = (
    (re.compile(r"checkpoint(\.bak)?"), FileKind.CHECKPOINT),
    (re.compile(r"abort(\.bak)?"), FileKind.ABORT),
    (re.compile(r"lock"), FileKind.LOCK),
    (re.compile(r"timerwheel(\.[0-9]+(\.tmp)?)?"), FileKind.TIMERWHEEL),
    (re.compile(r"timercheck"), FileKind.TIMERCHECK),
    (re.compile(r"(timermetrics|transactionMetrics|.*\.json)(\.bak|\.tmp)?"), FileKind.JSON),
    (re.compile(r"epochFileCheckpoint(\.bak|\.tmp)?"), FileKind.EPOCH),
    (re.compile(r"position-checkpoint(\.bak|\.tmp)?"), FileKind.COMPACTION),
    (re.compile(r"currterm(\.bak)?|.*\.conf|.*\.properties"), FileKind.PROPERTIES),
    (re.compile(r"brokerIdentity(-temp)?(\.bak)?"), FileKind.TEXT),
    (re.compile(r"CURRENT|IDENTITY|LOCK|LOG(\.old.*)?|(MANIFEST|OPTIONS)-[0-9]+(\.dbtmp)?|[0-9]{6,}\.(sst|log|blob)"), FileKind.ROCKSDB),
)

# directory above a file named by offset → kind; the nearest known directory decides
_DIRECTORIES: tuple[tuple[re.Pattern[str], FileKind], ...] = (
    (re.compile(r"commitlog([-_.]?\w+)?"), FileKind.COMMITLOG),
    (re.compile(r"consumequeue"), FileKind.CONSUMEQUEUE),
    (re.compile(r"consumequeue_ext"), FileKind.CONSUMEQUEUE_EXT),
    (re.compile(r"batchconsumequeue"), FileKind.BATCHCONSUMEQUEUE),
    (re.compile(r"timerlog"), FileKind.TIMERLOG),
    (re.compile(r"compactionLog"), FileKind.COMPACTION_LOG),
    (re.compile(r"compactionCq"), FileKind.COMPACTION_QUEUE),
)

_SEGMENTS = {"COMMIT_LOG": FileKind.COMMITLOG, "CONSUME_QUEUE": FileKind.CONSUMEQUEUE, "INDEX": FileKind.TIERED_INDEX}
"""Directory above a segment of tiered storage → kind."""
_FLAT_PARTS = {FileKind.COMMITLOG: PartKind.COMMITLOG, FileKind.DLEDGER: PartKind.DLEDGER, FileKind.TIMERLOG: PartKind.TIMERLOG}
_QUEUE_PARTS = {
    FileKind.CONSUMEQUEUE: PartKind.CONSUMEQUEUE,
    FileKind.CONSUMEQUEUE_EXT: PartKind.CONSUMEQUEUE_EXT,
    FileKind.BATCHCONSUMEQUEUE: PartKind.BATCHCONSUMEQUEUE,
}


def identify(path: Path) -> FileKind:
    """Return the format of the file at `path`. Raises UnreadableError.

    A name only a broker would give, or a place only a broker would use, decides; a file under any other name is judged by its
    first 4096 bytes and its length. `UNKNOWN` when nothing fits (for example a file of zeros under a name of its own).
    """
    with open_read_only(path) as descriptor:
        length = os.fstat(descriptor).st_size
        head = read_descriptor(descriptor, path, 0, min(length, _HEAD_LENGTH))
    by_name = kind_by_name(path)
    if by_name is FileKind.CHECKPOINT and b"=" in head and head.isascii() and b"\0" not in head:
        return FileKind.PROPERTIES  # DLedger keeps a text file of this name
    if by_name is not None:
        return by_name
    from rmqstore.store.kinds.signatures import identify_content

    return identify_content(head, length)


def has_name_of_store(path: Path) -> bool:
    """Return whether the name of a file, with the directories above it, is one that a broker gives."""
    return kind_by_name(path) is not None


def identify_directory(directory: Path) -> PartKind | None:
    """Return the part that a directory copied without its root holds, None if it is none. Raises UnreadableError.

    Of queues the whole tree, the directory of a topic or that of one queue will do.
    """
    if (directory / "currterm").is_file() and (directory / "data").is_dir():
        return PartKind.DLEDGER
    level = [directory]
    # files in the directory itself, in queues of one topic, in queues of topics
    for parts in ({**_FLAT_PARTS, **_QUEUE_PARTS}, _QUEUE_PARTS, _QUEUE_PARTS):
        for path in islice(_offset_named(level), _SAMPLED_FILES):
            part = parts.get(identify(path))
            if part is not None:
                return part
        level = [Path(entry.path) for parent in level for entry in list_directory(parent) if entry.is_dir()]
    for entry in list_directory(directory):
        if re.fullmatch(r"[0-9]{17}", entry.name) and entry.is_file():
            return PartKind.INDEX if identify(Path(entry.path)) is FileKind.INDEX else None
    return None


def _offset_named(directories: list[Path]) -> Iterator[Path]:
    for directory in directories:
        for entry in list_directory(directory):
            if parse_offset_name(entry.name) is not None and entry.is_file():
                yield Path(entry.path)


def kind_by_name(path: Path) -> FileKind | None:
    """Return the format that the name of a file and the directories above it mean, None if they mean none."""
    path = path.absolute()
    name = path.name
    for pattern, kind in _NAMES:
        if pattern.fullmatch(name):
            return kind
    above = [directory.name for directory in path.parents]
    if above[0] == "index" and re.fullmatch(r"[0-9]{17}", name):
        return FileKind.INDEX
    if "tiered_index_file" in above[:2] and name.isdigit():
        return FileKind.TIERED_INDEX
    if above[0] in _SEGMENTS and base_offset_of(name) is not None:
        return _SEGMENTS[above[0]]
    if parse_offset_name(name) is None:
        return None
    # data and index of DLedger are common words, so they count only below their own directory
    if len(above) > 1 and above[1].startswith("dledger-") and above[0] in ("data", "index"):
        return FileKind.DLEDGER if above[0] == "data" else FileKind.DLEDGER_INDEX
    # commitlog/<file> but consumequeue/<topic>/<queue>/<file>; compacting/ and replicating/ add a level
    for directory in above[:4]:
        for pattern, kind in _DIRECTORIES:
            if pattern.fullmatch(directory):
                return kind
    return None
