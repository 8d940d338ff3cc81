"""The content of a store where a log line points: at an offset, in a file, in a queue. Reads a few bytes of each place."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path, PurePosixPath

from rmqstore.catalogue.logline import is_physical_offset
from rmqstore.errors import RmqstoreError
from rmqstore.formats.layout import fixed_layout, struct_format
from rmqstore.formats.record import (
    BLANK,
    MESSAGE_MAGIC_V1,
    MESSAGE_MAGIC_V2,
    MIN_RECORD_SIZE_V1,
    RECORD_PREFIX,
    Record,
    RecordError,
    StopReason,
    decode_record,
)
from rmqstore.reading.zeros import first_nonzero
from rmqstore.store.ends import batch_queue_ends, queue_ends
from rmqstore.store.mapped import MappedFile, MappedFileQueue, parse_offset_name
from rmqstore.store.parts import PartKind, part_kind
from rmqstore.store.root import Store
from rmqstore.store.window import read_at

_PREFIX = struct.Struct(struct_format(RECORD_PREFIX))
_NAMES = list(fixed_layout(RECORD_PREFIX))
_PHYSICAL_OFFSET = _NAMES.index("physical_offset")
_MAGIC_POSITION = fixed_layout(BLANK)["magic_code"].offset
_MAGICS = tuple(magic.to_bytes(4, "big") for magic in (MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2))
_TOTAL_SIZE = fixed_layout(BLANK)["total_size"]
_LARGEST_RECORD = 8 << 20  # maxMessageSize is 4 MiB by default; a larger claim is not read
_LOOK_BACK = 4 << 20


class Holds(StrEnum):
    """The content of a place of a store."""

    RECORD = "record"
    BLANK = "blank"
    ZEROS = "zeros"
    DAMAGE = "damage"
    INSIDE_RECORD = "inside_record"
    BEFORE_LOG = "before_log"
    BEHIND_LOG = "behind_log"
    MISSING_FILE = "missing_file"
    FILE = "file"
    DIRECTORY = "directory"
    QUEUE = "queue"
    NOTHING = "nothing"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Place:
    """A place that a log line names. `file` is relative to the store, `position` bytes in it; None if there is none."""

    named: str
    holds: Holds
    detail: str
    file: str | None = None
    position: int | None = None

    @property
    def exists(self) -> bool:
        """Whether the place exists."""
        return self.holds not in (Holds.NOTHING, Holds.MISSING_FILE, Holds.BEFORE_LOG, Holds.BEHIND_LOG)

    def as_json(self) -> dict[str, object]:
        """Return the place as `explain --format json` prints it."""
        return {
            "place": self.named,
            "file": self.file,
            "position": self.position,
            "exists": self.exists,
            "holds": str(self.holds),
            "detail": self.detail,
        }


class Places:
    """Places looked up in one store; directories are listed once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queues: dict[Path, MappedFileQueue] = {}

    def of(self, values: Mapping[str, str]) -> Iterator[Place]:
        """Yield the places that the values of one log line name. Never raises because of the line or the content of the store."""
        for name, value in values.items():
            if is_physical_offset(name):
                yield _guarded(f"physical offset {value}", self._offset, value)
        for name in ("previous_file", "file"):
            if name in values:
                position = values.get("position", "") if name == "file" else ""
                yield _guarded(f"{values[name]} @ {position}" if position else values[name], self._file, values[name], position)
        if "topic" in values and "queue_id" in values:
            yield _guarded(f"queue {values['topic']}/{values['queue_id']}", self._queue, values["topic"], values["queue_id"])

    def _offset(self, named: str, text: str) -> Place:
        offset = int(text)
        log = self._store.message_log
        if not log.files:
            return Place(named, Holds.NOTHING, "the store has no commit log")
        file = log.find(offset)
        if file is not None:
            return self._content(named, file, offset - file.start)
        if offset < 0:
            return Place(named, Holds.NOTHING, "not an offset of a log")
        if offset < log.min_offset:
            return Place(named, Holds.BEFORE_LOG, f"before the first file, which begins at {log.min_offset}: expired or removed")
        if offset >= log.max_offset:
            return Place(named, Holds.BEHIND_LOG, f"after the last file, which ends at {log.max_offset}")
        return Place(named, Holds.MISSING_FILE, "no file holds it: one is missing between its neighbours")

    def _file(self, named: str, text: str, position: str) -> Place:
        path = self._path(text)
        if path is None:
            return Place(named, Holds.NOTHING, "not a part of this store, or missing now")
        shown = self._store.relative(path)
        if path.is_dir():
            return Place(named, Holds.DIRECTORY, "a directory", shown)
        if not path.exists():
            return Place(named, Holds.NOTHING, "the file is missing now", shown)
        problem = self._problem(path)
        log_file = next((file for file in self._store.message_log.files if file.path == path), None)
        if log_file is not None and problem is None:
            at = int(position) if position else 0
            if not 0 <= at < log_file.length:
                return Place(named, Holds.NOTHING, f"the file has {log_file.length} bytes", shown, at)
            return self._content(named, log_file, at)
        detail = f"{path.stat().st_size} bytes"
        if parse_offset_name(path.name) is not None:
            problem = problem or "length and name fit its neighbours"
        return Place(named, Holds.FILE, "; ".join(filter(None, [detail, problem])), shown)

    def _queue(self, named: str, topic: str, queue_id: str) -> Place:
        if _leads_elsewhere(topic):
            return Place(named, Holds.NOTHING, "no topic has this name")
        for kind, find in ((PartKind.CONSUMEQUEUE, queue_ends), (PartKind.BATCHCONSUMEQUEUE, batch_queue_ends)):
            directory = self._store.path_of(kind) / topic / str(int(queue_id))
            if self._store.covers(kind) and directory.is_dir():
                ends = find(self._listed(directory))
                detail = f"queue offsets {ends.min_offset} to {ends.max_offset}"
                if ends.last_size > 0:
                    detail += f", the last one points at physical offset {ends.last_physical_offset}"
                return Place(named, Holds.QUEUE, detail, self._store.relative(directory))
        if self._store.rocksdb_queues:
            return Place(named, Holds.NOTHING, "not among the file queues; this store keeps queues in RocksDB")
        if self._store.only is not None:
            return Place(named, Holds.NOTHING, f"only the part {self._store.only} of a store is here")
        return Place(named, Holds.NOTHING, "the store has no such queue")

    # A line's path in this store

    def _path(self, text: str) -> Path | None:
        """Return a path of the broker's machine as a path of this store; None if it leads out of it."""
        parts = [part for part in PurePosixPath(text.replace("\\", "/")).parts if part != "/"]
        if not parts or any(map(_leads_elsewhere, parts)):
            return None
        known = [number for number, part in enumerate(parts) if part_kind(part) not in (None, PartKind.OTHER)]
        start = parse_offset_name(parts[-1])
        in_log = not known or parts[known[-1]] == PartKind.COMMITLOG.value
        if in_log:
            for file in self._store.commitlog.files:
                if file.start == start or file.path.name == parts[-1]:
                    return file.path
            for entry in self._store.commitlog.odd:
                if entry.path.name == parts[-1]:
                    return entry.path
        if not known:
            # Exceptions have a name without its directory; besides the log only the index uses names that are not offsets.
            alone = self._store.path_of(PartKind.INDEX) / parts[-1]
            return alone if len(parts) == 1 and alone.exists() else None
        inside = parts[known[-1] :]
        if self._store.only is not None:
            return self._store.root.joinpath(*inside[1:]) if part_kind(inside[0]) is self._store.only else None
        return self._store.root.joinpath(*inside)

    def _problem(self, path: Path) -> str | None:
        """Return what is wrong with the file compared with its neighbours."""
        log = self._store.commitlog
        directories = (*self._store.commitlog_directories.writable, *self._store.commitlog_directories.read_only)
        queue = log if path.parent in directories else self._listed(path.parent) if parse_offset_name(path.name) is not None else None
        return next((problem.detail for problem in queue.problems() if problem.path == path), None) if queue is not None else None

    def _listed(self, directory: Path) -> MappedFileQueue:
        if directory not in self._queues:
            self._queues[directory] = MappedFileQueue.scan(directory)
        return self._queues[directory]

    # Content of a log

    def _content(self, named: str, file: MappedFile, position: int) -> Place:
        shown = self._store.relative(file.path)
        holds, detail = _content(file, position)
        return Place(named, holds, detail, shown, position)


def _guarded(named: str, look: Callable[..., Place], *arguments: str) -> Place:
    try:
        return look(named, *arguments)
    except (RmqstoreError, OSError, ValueError, OverflowError) as error:
        reason = error.message if isinstance(error, RmqstoreError) else str(error)
        return Place(named, Holds.UNREADABLE, reason)


def _leads_elsewhere(name: str) -> bool:
    return name in ("", ".", "..") or "/" in name or "\0" in name


def _content(file: MappedFile, position: int) -> tuple[Holds, str]:
    """Return the content at a position of a file of the log."""
    left = file.length - position
    head = read_at(file, position, min(left, _PREFIX.size))
    if not any(head):
        end = first_nonzero(file, position)
        if end == file.length:
            return Holds.ZEROS, f"zeros up to the end of the file ({left} bytes)"
        return Holds.ZEROS, f"{end - position} bytes of zeros, then other bytes"
    size = int.from_bytes(head[_TOTAL_SIZE.offset : _TOTAL_SIZE.offset + _TOTAL_SIZE.width], "big", signed=True)
    try:
        record = decode_record(read_at(file, position, min(left, max(size, len(head)), _LARGEST_RECORD)))
    except RecordError as error:
        if error.reason is StopReason.BLANK:
            return Holds.BLANK, f"BLANK: the end-of-file mark, {size} of {left} remaining bytes"
        around = _record_around(file, position)
        if around is not None:
            return Holds.INSIDE_RECORD, f"inside the record at {around[0]} ({around[1]} bytes)"
        return Holds.DAMAGE, f"no record: {error.detail}"
    return _judged(record, file.start + position)


def _judged(record: Record, offset: int) -> tuple[Holds, str]:
    """Return the content for a record that can be decoded, with what is wrong with it."""
    text = f"{record.topic}/{record.queue_id} #{record.queue_offset}, {record.size} bytes, stored {_time(record.store_timestamp)}"
    if record.physical_offset != offset:
        return Holds.DAMAGE, f"a record whose PHYSICALOFFSET is {record.physical_offset}: {text}"
    if not record.body_crc_matches:
        return Holds.DAMAGE, f"a record whose body does not match its CRC: {text}"
    return Holds.RECORD, f"a whole record: {text}"


def _record_around(file: MappedFile, position: int) -> tuple[int, int] | None:
    """Return (physical offset, size) of the record that holds this position, determined from its head."""
    begin = max(0, position - _LOOK_BACK)
    data = read_at(file, begin, min(file.length, position + _PREFIX.size) - begin)
    for magic in _MAGICS:
        at = data.rfind(magic)
        while at >= 0:
            start = at - _MAGIC_POSITION
            if start >= 0 and begin + start < position and start + _PREFIX.size <= len(data):
                prefix = _PREFIX.unpack_from(data, start)
                size, offset = prefix[0], prefix[_PHYSICAL_OFFSET]
                if offset == file.start + begin + start and size >= MIN_RECORD_SIZE_V1 and begin + start + size > position:
                    return offset, size
            at = data.rfind(magic, 0, at)
    return None


def _time(milliseconds: int) -> str:
    try:
        moment = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return str(milliseconds)
    return f"{moment:%Y-%m-%d %H:%M:%S}Z"
