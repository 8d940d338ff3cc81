"""Files of the compaction store: lengths and names of logs and their queues, and the position file (fact sheet queues §5).

Log and queue of a compacted topic have files of the same names, and names may have gaps after a compaction run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rmqstore.findings import Finding
from rmqstore.formats import batchconsumequeue
from rmqstore.formats.compaction import log_file_size, queue_file_size
from rmqstore.formats.record import BLANK_MAGIC, MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2
from rmqstore.store.mapped import MappedFile, MappedFileQueue, OddEntry, ProblemKind, parse_offset_name
from rmqstore.store.obstacles import kind_of
from rmqstore.store.parts import PartKind
from rmqstore.store.root import QueueDirectory, Store
from rmqstore.store.window import read_at
from rmqstore.verify.context import Context
from rmqstore.verify.guard import guarded, limited
from rmqstore.verify.parts.config import State, read
from rmqstore.verify.queues.spans import QueueKey

LOG, QUEUE, POSITIONS = "compactionLog", "compactionCq", "position-checkpoint"
# Where a run rewrites files, and where an empty slave copies those of its master; both may be left by a crash.
_WORK_DIRECTORIES = frozenset({"compacting", "replicating"})
_SMALLEST_LOG_QUEUES = 5
DELETED = ".delete"
_HEAD = 8  # bytes, of TOTALSIZE and MAGICCODE
_MAGICS = frozenset(magic & 0xFFFF_FFFF for magic in (MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2, BLANK_MAGIC))

Queues = Mapping[QueueKey, QueueDirectory]


@dataclass(frozen=True, slots=True)
class _Lengths:
    """Bytes that each file of logs and of queues should have; None where no files show it."""

    log: int | None
    queue: int | None


def check(context: Context) -> Iterator[Finding]:
    """Yield findings about `compaction`. Lists directories, and reads the position file and the first bytes of each file of a log."""
    store = context.store
    path = store.path_of(PartKind.COMPACTION)
    if store.covers(PartKind.COMPACTION) and path.is_dir():
        yield from guarded(context, path, lambda: limited(context, path, _files(context, path)))
        yield from guarded(context, path, lambda: limited(context, path, _contents(context)))
        yield from guarded(context, path / POSITIONS, partial(_positions, context, path / POSITIONS))


def _files(context: Context, path: Path) -> Iterator[Finding]:
    store = context.store
    logs = {(one.topic, one.queue_id): one for one in store.compaction_log_directories()}
    queues = {(one.topic, one.queue_id): one for one in store.compaction_queue_directories()}
    lengths = _lengths(context, logs, queues)
    yield from _sizes_of_all(context, path, lengths)
    for key in sorted({*logs, *queues}):
        if not context.options.wants_queue(*key):
            continue
        for tree, length in ((logs, lengths.log), (queues, lengths.queue)):
            if key in tree:
                yield from _queue(context, tree[key], length)
        yield from _names(context, path, key, logs.get(key), queues.get(key))


def _lengths(context: Context, logs: Queues, queues: Queues) -> _Lengths:
    """Return the lengths by the settings; without them by most files."""
    config = context.store.config
    keys = ("compactionMappedFileSize", "compactionCqMappedFileSize")
    if any(config.explicit_integer(key) is not None for key in keys):
        queue = queue_file_size(config.integer(keys[1]))
        return _Lengths(log_file_size(config.integer(keys[0]), queue), queue)
    return _Lengths(_usual(logs), _usual(queues))


def _usual(queues: Queues) -> int | None:
    return next((one.files.file_size for one in queues.values() if one.files.files), None)


def _sizes_of_all(context: Context, path: Path, lengths: _Lengths) -> Iterator[Finding]:
    """Check that settings can give the lengths: queue files of whole units, log files of at least five times a queue file."""
    log, queue = lengths.log, lengths.queue
    if queue and queue % batchconsumequeue.UNIT_SIZE:
        message = f"queue files are {queue} bytes long, which is no multiple of a unit ({batchconsumequeue.UNIT_SIZE} bytes)"
        yield context.finding("RMQ-CM-FILELEN", message, file=path / QUEUE, expected=queue_file_size(queue), found=queue)
    elif log and queue and (log % queue or log < _SMALLEST_LOG_QUEUES * queue):
        message = f"log files are {log} bytes long, which is no multiple of the {queue} bytes of a queue file, at least five of them"
        yield context.finding("RMQ-CM-FILELEN", message, file=path / LOG, expected=log_file_size(log, queue), found=log)


def _queue(context: Context, directory: QueueDirectory, length: int | None) -> Iterator[Finding]:
    files: MappedFileQueue = directory.files
    where = {"topic": directory.topic, "queue_id": directory.queue_id}
    for file in files.files:
        if length is not None and file.length != length:
            message = f"{file.path.name} is {file.length} bytes long instead of {length}"
            yield context.finding("RMQ-CM-FILELEN", message, file=file.path, expected=length, found=file.length, **where)
    for entry in files.odd:
        if entry.kind is ProblemKind.ZERO_LENGTH:
            yield context.finding("RMQ-CM-FILELEN", f"{entry.path.name} is empty", file=entry.path, expected=length, found=0, **where)
        elif entry.kind is ProblemKind.DIRECTORY:
            if entry.path.name not in _WORK_DIRECTORIES:
                code = "RMQ-ST-FOREIGN" if parse_offset_name(entry.path.name) is None else "RMQ-ST-KIND"
                yield context.finding(code, f"{entry.path.name}: {entry.detail}", file=entry.path, **where)
        else:
            yield context.finding("RMQ-CM-NAME", _foreign(entry, length), file=entry.path, found=entry.length, **where)


def _foreign(entry: OddEntry, length: int | None) -> str:
    rest = "left by a replacement that did not finish" if entry.path.name.endswith(DELETED) else entry.detail
    effect = "the broker does not start" if entry.length == length else "this queue is not loaded"
    return f"{entry.path.name}: {rest}; {effect}"


def _names(context: Context, path: Path, key: QueueKey, log: QueueDirectory | None, queue: QueueDirectory | None) -> Iterator[Finding]:
    log_names, queue_names = _file_names(log), _file_names(queue)
    lacking = [(LOG, QUEUE, name) for name in log_names - queue_names] + [(QUEUE, LOG, name) for name in queue_names - log_names]
    for there, missing, name in sorted(lacking):
        message = f"{there} has a file {name} of this queue, {missing} has none"
        file = path / missing / key[0] / str(key[1]) / name
        yield context.finding("RMQ-CM-MISMATCH", message, file=file, topic=key[0], queue_id=key[1])


def _file_names(directory: QueueDirectory | None) -> set[str]:
    return set() if directory is None else {file.path.name for file in directory.files.files}


def _contents(context: Context) -> Iterator[Finding]:
    for path in without_records(context.store):
        yield context.finding("RMQ-CM-GONE", "the file begins with no record", file=path)
    for path in without_units(context.store):
        yield context.finding("RMQ-CM-GONE", "the queue file begins with no entry, although its log has messages", file=path)


def without_records(store: Store) -> Iterator[Path]:
    """Yield the files of compacted logs that begin neither with a record or a closing BLANK, nor with the zeros of one not used yet.

    Zeros where the queue file of the same name begins with an entry are those of a file that was used.
    """
    for log, queue in _pairs(store):
        head = _head_of(log)
        if _begins_with_record(head) or (not any(head) and (queue is None or not _begins_with_unit(queue))):
            continue
        yield log.path


def without_units(store: Store) -> Iterator[Path]:
    """Yield the queue files that begin with zeros although the log of the same name begins with two records.

    A broker that is killed after the first one has not written its entry.
    """
    for log, queue in _pairs(store):
        head = _head_of(log)
        if queue is None or _begins_with_unit(queue) or not _begins_with_record(head):
            continue
        if _begins_with_record(_head_of(log, int.from_bytes(head[:4], "big"))):
            yield queue.path


def _pairs(store: Store) -> Iterator[tuple[MappedFile, MappedFile | None]]:
    """Yield each file of a compacted log and the queue file of the same name."""
    queues = {(one.topic, one.queue_id): one for one in store.compaction_queue_directories()}
    for directory in store.compaction_log_directories():
        queue = queues.get((directory.topic, directory.queue_id))
        named = {} if queue is None else {file.path.name: file for file in queue.files.files}
        for file in directory.files.files:
            yield file, named.get(file.path.name)


def _head_of(file: MappedFile, position: int = 0) -> bytes:
    return read_at(file, position, max(0, min(_HEAD, file.length - position)))


def _begins_with_unit(queue: MappedFile) -> bool:
    """Return whether the first unit is no filler of zeros; the position of the first message is 0."""
    return any(read_at(queue, 0, min(batchconsumequeue.UNIT_SIZE, queue.length)))


def _begins_with_record(head: bytes) -> bool:
    return int.from_bytes(head[4:], "big") in _MAGICS


# Position file


def _positions(context: Context, path: Path) -> Iterator[Finding]:
    for candidate in (path, path.with_name(f"{POSITIONS}.bak")):
        if os.path.lexists(candidate) and not candidate.is_file():
            kind = kind_of(candidate)
            yield context.finding("RMQ-ST-KIND", f"{candidate.name} is a {kind}, where a file should be", file=candidate, found=kind)
    text = read(path)
    if text.state in (State.EMPTY, State.DAMAGED):
        yield context.finding("RMQ-CM-POSITION", f"{POSITIONS} is {text.why}", file=path)
    elif text.value is not None:
        table = text.value.get("queueOffsetMap", {})
        offsets = table.items() if isinstance(table, dict) else [("queueOffsetMap", table)]
        for name, offset in offsets:
            if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
                yield context.finding("RMQ-CM-POSITION", f"the position of {name} is no queue offset", file=path, found=str(offset))
