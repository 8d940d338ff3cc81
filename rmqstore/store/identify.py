"""What one file is: told by its name and the directories above it, and by its content when the name says nothing."""

from __future__ import annotations

import itertools
import os
import re
import struct
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

from rmqstore.store.mapped import list_directory, parse_offset_name
from rmqstore.store.parts import PartKind, part_kind
from rmqstore.store.window import open_read_only, read_descriptor


class FileKind(StrEnum):
    """The formats a file of a store can have; the values are the names of `dump --part`."""

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


HEAD_LENGTH = 4096
TIMERWHEEL_LENGTH = 38_707_200
_CHECKPOINT_LENGTH = 4096

# name of the file → kind, whatever lies above it
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
    (
        re.compile(r"CURRENT|IDENTITY|LOCK|LOG(\.old.*)?|MANIFEST-[0-9]+|OPTIONS-[0-9]+(\.dbtmp)?|[0-9]{6,}\.(sst|log|blob)"),
        FileKind.ROCKSDB,
    ),
)

# directory above a file named by offset → kind; the nearest directory that says something decides
_DIRECTORIES: tuple[tuple[re.Pattern[str], FileKind], ...] = (
    (re.compile(r"commitlog([-_.]?\w+)?"), FileKind.COMMITLOG),
    (re.compile(r"consumequeue"), FileKind.CONSUMEQUEUE),
    (re.compile(r"consumequeue_ext"), FileKind.CONSUMEQUEUE_EXT),
    (re.compile(r"batchconsumequeue"), FileKind.BATCHCONSUMEQUEUE),
    (re.compile(r"timerlog"), FileKind.TIMERLOG),
    (re.compile(r"compactionLog"), FileKind.COMPACTION_LOG),
    (re.compile(r"compactionCq"), FileKind.COMPACTION_QUEUE),
)


def identify(path: Path) -> FileKind:
    """The format of the file at `path`. Raises UnreadableError.

    A name only a broker would give, or a place only a broker would use, decides; a file under any other name is judged by its
    first 4096 bytes and its length. `UNKNOWN` when nothing fits (for example a file of zeros under a name of its own).
    """
    with open_read_only(path) as descriptor:
        length = os.fstat(descriptor).st_size
        head = read_descriptor(descriptor, path, 0, min(length, HEAD_LENGTH))
    by_name = _by_name(path)
    if by_name is FileKind.CHECKPOINT and _is_text(head) and b"=" in head:
        return FileKind.PROPERTIES  # DLedger keeps a text file of this name
    if by_name is not None:
        return by_name
    return identify_content(head, length)


def identify_content(head: bytes, length: int) -> FileKind:
    """The format that the first bytes and the length of a file fit; the most telling signs are tried first."""
    for kind, fits in _CONTENT:
        if fits(head, length):
            return kind
    return FileKind.UNKNOWN


def identify_directory(directory: Path) -> PartKind | None:
    """The part that a directory copied without its root holds, None when it looks like nothing. Raises UnreadableError."""
    entries = list_directory(directory)
    files = [Path(entry.path) for entry in entries if parse_offset_name(entry.name) is not None and entry.is_file()]
    if files:
        kind = next((found for found in map(identify, files[:4]) if found is not FileKind.UNKNOWN), FileKind.UNKNOWN)
        # The timer log and the commit log are plain directories of files; queues lie two levels deeper and are opened by their tree.
        return {FileKind.COMMITLOG: PartKind.COMMITLOG, FileKind.TIMERLOG: PartKind.TIMERLOG}.get(kind)
    if any(re.fullmatch(r"[0-9]{17}", entry.name) and identify(Path(entry.path)) is FileKind.INDEX for entry in entries if entry.is_file()):
        return PartKind.INDEX
    by_name = part_kind(directory.name)
    if by_name in (PartKind.CONSUMEQUEUE, PartKind.CONSUMEQUEUE_EXT, PartKind.BATCHCONSUMEQUEUE) and any(
        entry.is_dir() for entry in entries
    ):
        return by_name
    return None


def _by_name(path: Path) -> FileKind | None:
    name = path.name
    for pattern, kind in _NAMES:
        if pattern.fullmatch(name):
            return kind
    above = [directory.name for directory in path.parents]
    if parse_offset_name(name) is not None:
        # data and index of DLedger are common words, so they count only below their own directory
        if len(above) > 1 and above[1].startswith("dledger-") and above[0] in ("data", "index"):
            return FileKind.DLEDGER if above[0] == "data" else FileKind.DLEDGER_INDEX
        if above[:1] == ["tiered_index_file"] or above[:2] == ["compacting", "tiered_index_file"]:
            return FileKind.TIERED_INDEX
        # commitlog/<file> but consumequeue/<topic>/<queue>/<file>; compacting/ and replicating/ add a level
        for directory in above[:4]:
            for pattern, kind in _DIRECTORIES:
                if pattern.fullmatch(directory):
                    return kind
    if above and above[0] == "index" and re.fullmatch(r"[0-9]{17}", name):
        return FileKind.INDEX
    if above and above[0] == "tiered_index_file" and name.isdigit():
        return FileKind.TIERED_INDEX
    return None


# Content

_MESSAGE_MAGICS = (0xDAA320A7, 0xDAA320AB, 0xCBD43194)
_TIERED_MAGICS = (0xBCC50289, 0xBCC50285)
_EARLIEST_MS = 1_000_000_000_000  # 2001
_LATEST_MS = 10_000_000_000_000  # 2286
_LARGEST_RECORD = 0x7FFFFFFF


def _time(value: int) -> bool:
    return _EARLIEST_MS <= value <= _LATEST_MS


def _commitlog(head: bytes, length: int) -> bool:
    if len(head) < 8:
        return False
    size, magic = struct.unpack_from(">iI", head)
    return magic in _MESSAGE_MAGICS and 8 <= size <= _LARGEST_RECORD


def _tiered_index(head: bytes, length: int) -> bool:
    return len(head) >= 28 and int.from_bytes(head[:4], "big") in _TIERED_MAGICS


def _dledger(head: bytes, length: int) -> bool:
    if len(head) < 48:
        return False
    magic, size = struct.unpack_from(">ii", head)
    return bool(magic == 1 and size >= 48 and struct.unpack_from(">i", head, 44)[0] == size - 48)


def _dledger_index(head: bytes, length: int) -> bool:
    if length % 32 or len(head) < 64:
        return False
    (magic, position, size, index, _), (magic2, position2, _, index2, _) = (struct.unpack_from(">iqiqq", head, at) for at in (0, 32))
    return bool(magic == 1 and size >= 48 and (magic2 == 0 or (magic2 == 1 and index2 == index + 1 and position2 >= position + size)))


def _timerwheel(head: bytes, length: int) -> bool:
    return length == TIMERWHEEL_LENGTH


def _timerlog(head: bytes, length: int) -> bool:
    if len(head) < 52:
        return False
    size, previous, magic, write_time = struct.unpack_from(">iqiq", head)
    return bool(size == 52 and previous >= -1 and 0 < magic < 16 and _time(write_time))


def _timercheck(head: bytes, length: int) -> bool:
    if length != _CHECKPOINT_LENGTH:
        return False
    read_time, log_position, queue_offset, master_offset, _, version_time, counter = struct.unpack_from(">7q", head)
    offsets = (log_position, queue_offset, master_offset)
    return _time(read_time) and _time(version_time) and counter >= 0 and all(0 <= offset < _EARLIEST_MS for offset in offsets)


def _checkpoint(head: bytes, length: int) -> bool:
    if length != _CHECKPOINT_LENGTH or any(head[48:]):
        return False
    times = struct.unpack_from(">3q", head)
    return all(value == 0 or _time(value) for value in times) and any(times)


def _index(head: bytes, length: int) -> bool:
    if len(head) < 40:
        return False
    begin, end, begin_offset, end_offset, slots, count = struct.unpack_from(">qqqqii", head)
    used = 0 <= slots <= count and count >= 1 and 40 + 20 * count <= length
    return _time(begin) and _time(end) and 0 <= begin_offset <= end_offset and used and length % 4 == 0


def _batch_queue(head: bytes, length: int) -> bool:
    if len(head) < 46:
        return False
    offset, size, _, store_time, base, count, _, reserved = struct.unpack_from(">qiqqqhii", head)
    return offset >= 0 and size > 0 and _time(store_time) and base >= 0 and count > 0 and reserved == 0


def _queue_ext(head: bytes, length: int) -> bool:
    if len(head) < 20:
        return False
    size, _, store_time, bits = struct.unpack_from(">hqqh", head)
    return bool(size == 20 + bits and bits >= 0 and _time(store_time))


def _queue(head: bytes, length: int) -> bool:
    if length % 20 or len(head) < 20:
        return False
    units = [struct.unpack_from(">qi", head, at) for at in range(0, len(head) - 19, 20)]
    written = [unit for unit in units if unit[1] != 0]
    # written units are a prefix, their records are in order and do not overlap; pre-blank units (offset 0) come first
    return bool(
        written
        and units[: len(written)] == written
        and all(offset >= 0 and size > 0 for offset, size in written)
        and all(right[0] >= left[0] + (0 if left[1] == _LARGEST_RECORD else left[1]) for left, right in itertools.pairwise(written))
    )


def _is_text(head: bytes) -> bool:
    try:
        text = head.decode("utf-8") if len(head) < HEAD_LENGTH else head.decode("utf-8", "ignore")
    except UnicodeDecodeError:
        return False
    return bool(text.strip()) and all(letter.isprintable() or letter in "\t\r\n\f" for letter in text)


def _epoch(head: bytes, length: int) -> bool:
    return re.match(rb"[0-9]+\r?\n[0-9]+\r?\n[0-9]+-[0-9]+\r?\n", head) is not None


def _compaction(head: bytes, length: int) -> bool:
    return _json(head, length) and b'"queueOffsetMap"' in head


def _json(head: bytes, length: int) -> bool:
    return head.lstrip()[:1] in (b"{", b"[") and _is_text(head)


def _abort(head: bytes, length: int) -> bool:
    return re.fullmatch(rb"[0-9]{1,10}\s*", head) is not None


def _lock(head: bytes, length: int) -> bool:
    return head == b"lock"


def _properties(head: bytes, length: int) -> bool:
    lines = [line for line in head.decode("utf-8", "replace").splitlines() if line.strip() and line.lstrip()[0] not in "#!"]
    return _is_text(head) and bool(lines) and "=" in lines[0]


def _text(head: bytes, length: int) -> bool:
    return _is_text(head)


_CONTENT: tuple[tuple[FileKind, Callable[[bytes, int], bool]], ...] = (
    (FileKind.COMMITLOG, _commitlog),
    (FileKind.TIERED_INDEX, _tiered_index),
    (FileKind.DLEDGER, _dledger),
    (FileKind.DLEDGER_INDEX, _dledger_index),
    (FileKind.TIMERWHEEL, _timerwheel),
    (FileKind.TIMERLOG, _timerlog),
    (FileKind.TIMERCHECK, _timercheck),
    (FileKind.CHECKPOINT, _checkpoint),
    (FileKind.INDEX, _index),
    (FileKind.BATCHCONSUMEQUEUE, _batch_queue),
    (FileKind.CONSUMEQUEUE_EXT, _queue_ext),
    (FileKind.CONSUMEQUEUE, _queue),
    (FileKind.EPOCH, _epoch),
    (FileKind.COMPACTION, _compaction),
    (FileKind.JSON, _json),
    (FileKind.LOCK, _lock),
    (FileKind.ABORT, _abort),
    (FileKind.PROPERTIES, _properties),
    (FileKind.TEXT, _text),
)
