"""The parts of a store root: what each name means, since which release it exists, and how much space it takes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from rmqstore.store.entries import statuses
from rmqstore.store.mapped import list_directory


class PartKind(StrEnum):
    """A part of a store; the value is its name in the root (for families of names, the stem)."""

    COMMITLOG = "commitlog"
    DLEDGER = "dledger"
    CONSUMEQUEUE = "consumequeue"
    CONSUMEQUEUE_EXT = "consumequeue_ext"
    BATCHCONSUMEQUEUE = "batchconsumequeue"
    CONSUMEQUEUE_ROCKSDB = "consumequeue_rocksdb"
    INDEX = "index"
    ROCKSDBSTORE = "rocksdbstore"
    TIMERWHEEL = "timerwheel"
    TIMERLOG = "timerlog"
    COMPACTION = "compaction"
    TIERED_INDEX = "tiered_index_file"
    CHECKPOINT = "checkpoint"
    ABORT = "abort"
    ABORT_BACKUP = "abort.bak"
    LOCK = "lock"
    EPOCH = "epochFileCheckpoint"
    BROKER_IDENTITY = "brokerIdentity"
    KV_STORE = "kvStore"
    CONFIG = "config"
    TRANSACTION = "transaction"
    TOOL = ".rmqstore"
    OTHER = "other"


# Names that are no plain PartKind value.
_PATTERNS: tuple[tuple[re.Pattern[str], PartKind], ...] = (
    (re.compile(r"dledger-.+"), PartKind.DLEDGER),
    (re.compile(r"timerwheel\.[0-9]+(\.tmp)?"), PartKind.TIMERWHEEL),
    (re.compile(r"epochFileCheckpoint\.(bak|tmp)"), PartKind.EPOCH),
    (re.compile(r"brokerIdentity(-temp)?(\.bak|\.tmp)?"), PartKind.BROKER_IDENTITY),
)
_PLAIN = {kind.value: kind for kind in PartKind if kind not in (PartKind.OTHER, PartKind.DLEDGER)}


@dataclass(frozen=True, slots=True)
class Part:
    """One entry of the root, or one commit log directory outside of it. Sizes are bytes, `files` counts files below it."""

    kind: PartKind
    path: Path
    files: int
    length: int
    allocated: int


def part_kind(name: str) -> PartKind | None:
    """Return the part of a name in a root, None if no broker knows the name."""
    for pattern, kind in _PATTERNS:
        if pattern.fullmatch(name):
            return kind
    return _PLAIN.get(name)


def list_parts(root: Path, directories: Sequence[Path], only: PartKind | None = None) -> list[Part]:
    """Return all parts with sizes, in the order of PartKind, names no broker knows last; `directories` are those of the commit log.

    Raises UnreadableError.
    """
    if only is not None:
        return [_measure(only, root)]
    parts = [_measure(PartKind.COMMITLOG, directory) for directory in directories if directory.is_dir()]
    for entry, status in statuses(list_directory(root), follow_symlinks=False):
        kind, path = part_kind(entry.name) or PartKind.OTHER, Path(entry.path)
        if path not in directories:
            file = Part(kind, path, 1, status.st_size, status.st_blocks * 512)
            parts.append(_measure(kind, path) if path.is_dir() else file)
    order = list(PartKind)
    return sorted(parts, key=lambda part: order.index(part.kind))


def _measure(kind: PartKind, path: Path) -> Part:
    """Return a directory as a part, with everything below it that was not removed meanwhile."""
    files = length = allocated = 0
    pending = [str(path)]
    while pending:
        for entry, measured in statuses(list_directory(pending.pop()), follow_symlinks=False):
            if entry.is_dir(follow_symlinks=False):
                pending.append(entry.path)
            else:
                files, length, allocated = files + 1, length + measured.st_size, allocated + measured.st_blocks * 512
    return Part(kind, path, files, length, allocated)


def relative_to_root(path: Path, root: Path) -> str:
    """Return `path` as in findings: relative to `root` with `/`, absolute outside of it."""
    if path.is_relative_to(root):
        return path.relative_to(root).as_posix()
    try:
        inside, base = path.resolve(), root.resolve()
    except (OSError, RuntimeError):  # a link to itself
        return path.as_posix()
    return inside.relative_to(base).as_posix() if inside.is_relative_to(base) else path.as_posix()
