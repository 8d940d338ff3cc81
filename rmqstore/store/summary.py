"""A summary of a store, gathered cheaply: cost grows with the number of files and queues, not with the stored bytes."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence, Set
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from rmqstore.errors import RmqstoreError
from rmqstore.formats import checkpoint, index
from rmqstore.formats.dledger import ENTRY_HEADER_SIZE
from rmqstore.store.access import Denied, denied_entries, is_denied
from rmqstore.store.again import try_again
from rmqstore.store.ends import Far, LogEnds, QueueEnds, batch_queue_ends, log_ends, queue_ends, read_records
from rmqstore.store.kinds.writer import WriterGuess, guess_writer
from rmqstore.store.liveness import Liveness, liveness
from rmqstore.store.mapped import MappedFileQueue, Problem, listing_once, skipping_denied
from rmqstore.store.obstacles import QUEUE_TREES
from rmqstore.store.parts import Part, PartKind, relative_to_root
from rmqstore.store.root import QueueDirectory, Store
from rmqstore.store.transactions import Transactions, read_transactions
from rmqstore.store.window import read_whole

TOP_QUEUES = 10
_SAMPLE = 64


class State(StrEnum):
    """The state in which the last broker left the store, as far as `abort` and the running processes show."""

    CLEAN = "clean"
    CRASHED = "crashed"
    IN_USE = "in use"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class LogSummary:
    """The commit log. Offsets are physical offsets, `end_offset` is after the last whole record, times are ms since epoch.

    `end_offset` and times are None if they are in a file without read permission.
    """

    directories: tuple[str, ...]
    files: int
    file_size: int | None
    min_offset: int
    end_offset: int | None
    first_store_timestamp: int | None
    last_store_timestamp: int | None
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class QueueSummary:
    """One queue; offsets count messages."""

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    entries: int


@dataclass(frozen=True, slots=True)
class QueuesSummary:
    """All file queues. With `rocksdb` the queues are (also) in a database that is not read."""

    topics: int
    queues: int
    entries: int
    problems: int
    unreadable: int
    rocksdb: bool
    top: tuple[QueueSummary, ...]


@dataclass(frozen=True, slots=True)
class IndexSummary:
    """The index files together; None without entries."""

    files: int
    items: int
    begin_timestamp: int | None
    end_timestamp: int | None
    begin_physical_offset: int | None
    end_physical_offset: int | None


@dataclass(frozen=True, slots=True)
class StoreSummary:
    """The output of `info`."""

    path: str
    """The place of the store for users, a path or a URI."""
    root: Path
    """Where its files are read."""
    only: PartKind | None
    transactions: Transactions
    state: State
    abort: bool
    liveness: Liveness
    writer: WriterGuess
    log: LogSummary
    dledger: bool
    queues: QueuesSummary
    index: IndexSummary
    checkpoint: dict[str, int] | None
    parts: tuple[Part, ...]
    strays: tuple[str, ...]
    notes: tuple[str, ...]
    denied: tuple[Denied, ...]
    """Paths without read permission; the rest of the summary does not cover them."""

    def as_json(self) -> dict[str, Any]:
        """Return the object that `info --format json` prints."""
        root = self.root
        log = asdict(self.log)
        log["problems"] = [
            {"kind": str(problem.kind), "file": relative_to_root(problem.path, root), "detail": problem.detail}
            for problem in self.log.problems
        ]
        return {
            "type": "info",
            "path": self.path,
            "only": None if self.only is None else str(self.only),
            "unfinished": None if self.transactions.stopped is None else self.transactions.stopped.as_json(),
            "state": str(self.state),
            "abort": self.abort,
            "in_use": {
                "lock_holder": self.liveness.lock_holder,
                "users": [asdict(user) for user in self.liveness.users],
                "abort_pid": self.liveness.abort_pid,
                "abort_pid_alive": self.liveness.abort_pid_alive,
                "complete": self.liveness.complete,
            },
            "writer": asdict(self.writer),
            "commitlog": log,
            "dledger": self.dledger,
            "queues": asdict(self.queues),
            "index": asdict(self.index),
            "checkpoint": self.checkpoint,
            "parts": [
                {
                    "part": str(part.kind),
                    "path": relative_to_root(part.path, root),
                    "files": part.files,
                    "length": part.length,
                    "allocated": part.allocated,
                }
                for part in self.parts
            ],
            "strays": list(self.strays),
            "notes": list(self.notes),
            "not_read": [{"file": one.file, "reason": one.message, "next": one.command} for one in self.denied],
        }


def summarize(store: Store, far: Far | None = None) -> StoreSummary:
    """Return the summary of a store; `far` as `log_ends` takes it. Paths without read permission are named in it.

    Raises UnreadableError if the root or a disk cannot be read, and what `far` raises.
    """

    def look() -> StoreSummary:
        with skipping_denied(), listing_once():
            # What was listed here is incomplete, and other readers must not get it.
            return _summarize(store.reopened(), far)

    return try_again(look)


def _summarize(store: Store, far: Far | None) -> StoreSummary:
    dledger = store.dledger
    log, header = (dledger.data, ENTRY_HEADER_SIZE) if dledger and dledger.data.files else (store.commitlog, 0)
    denied = tuple(denied_entries(store))
    paths_denied = {one.path for one in denied}
    queues, newest = _queues(store, paths_denied)
    readable = replace(log, files=tuple(file for file in log.files if file.path not in paths_denied))
    ends = log_ends(readable, entry_header=header, hint=newest[-1][0] if newest else -1, far=far)
    # The last records of many queues show more signs than the last records of the log, which tend to be of one topic.
    sample = list(read_records(readable, sorted({*ends.tail, *newest})))
    transactions = Transactions() if store.only is not None else read_transactions(store.root)
    users = liveness(store)
    abort = store.abort_present
    stopped = State.UNKNOWN if store.only is not None else State.CRASHED if abort else State.CLEAN
    directories = store.commitlog_directories
    paths = [dledger.data.files[0].path.parent] if dledger and header else [*directories.writable, *directories.read_only]
    return StoreSummary(
        path=str(store.root),
        root=store.root,
        only=store.only,
        transactions=transactions,
        state=State.IN_USE if users.in_use else stopped,
        abort=abort,
        liveness=users,
        writer=guess_writer(store, sample),
        log=_log(store, log, readable, ends, tuple(store.relative(path) for path in paths if path.is_dir())),
        dledger=dledger is not None,
        queues=queues,
        index=_index(store),
        checkpoint=_checkpoint(store),
        parts=tuple(store.parts()),
        strays=tuple(_strays(store)),
        notes=(*_notes(store), *(f"{store.relative(one.path)}: {one.why}. {one.hint}" for one in transactions.damaged)),
        denied=denied,
    )


def _log(store: Store, log: MappedFileQueue, readable: MappedFileQueue, ends: LogEnds, directories: tuple[str, ...]) -> LogSummary:
    last = max((file.start for file in readable.files if file.start < ends.end_offset), default=-1)
    reached = {file.path for file in readable.files}
    ends_later = any(is_denied(store.root / path) for path in directories) or any(
        file.start > last for file in log.files if file.path not in reached
    )
    begins_earlier = log.files[:1] != readable.files[:1]
    return LogSummary(
        directories=directories,
        files=len(log.files),
        file_size=log.file_size if log.files else None,
        min_offset=log.min_offset,
        end_offset=None if ends_later else ends.end_offset,
        first_store_timestamp=ends.first.store_timestamp if ends.first and not begins_earlier else None,
        last_store_timestamp=ends.last.store_timestamp if ends.last and not ends_later else None,
        problems=tuple(log.problems()),
    )


def _queues(store: Store, paths_denied: Set[Path]) -> tuple[QueuesSummary, list[tuple[int, int]]]:
    """Return the queues, and (physical offset, size) of the newest records that queues end with, in offset order."""
    topics: set[str] = set()
    count = entries = problems = unreadable = 0
    top: list[tuple[int, str, int, QueueEnds]] = []
    newest: list[tuple[int, int]] = []
    for queue, ends in _all_queues(store):
        topics.add(queue.topic)
        count += 1
        problems += sum(1 for _ in queue.files.problems())
        if ends is None or queue.directory in paths_denied:
            unreadable += 1
            continue
        entries += ends.entries
        _keep(top, (ends.entries, queue.topic, queue.queue_id, ends), TOP_QUEUES)
        if ends.last_size > 0:
            _keep(newest, (ends.last_physical_offset, ends.last_size), _SAMPLE)
    largest = tuple(
        QueueSummary(topic, queue_id, ends.min_offset, ends.max_offset, ends.entries) for _, topic, queue_id, ends in _ranked(top)
    )
    return QueuesSummary(len(topics), count, entries, problems, unreadable, store.rocksdb_queues, largest), sorted(set(newest))


def _ranked(top: Sequence[tuple[int, str, int, QueueEnds]]) -> list[tuple[int, str, int, QueueEnds]]:
    return sorted(top, key=lambda entry: (-entry[0], entry[1], entry[2]))


def _keep(heap: list[Any], item: tuple[Any, ...], size: int) -> None:
    """Keep the `size` largest entries. Topic and queue id make equal counts comparable before the last member is reached."""
    if len(heap) < size:
        heapq.heappush(heap, item)
    elif item[:3] > heap[0][:3]:
        heapq.heapreplace(heap, item)


def _all_queues(store: Store) -> Iterator[tuple[QueueDirectory, QueueEnds | None]]:
    for directories, find in ((store.queue_directories(), queue_ends), (store.batch_queue_directories(), batch_queue_ends)):
        for queue in directories:
            try:
                yield queue, find(queue.files)
            except RmqstoreError:
                yield queue, None


def _index(store: Store) -> IndexSummary:
    headers = []
    files = store.index_files()
    for file in files:
        if file.named_right and file.length >= index.HEADER_SIZE:
            try:
                headers.append(index.HEADER.parse(read_whole(file.path, index.HEADER_SIZE)))
            except RmqstoreError:
                continue
    used = [header for header in headers if header.index_count > 1]
    if not used:
        return IndexSummary(len(files), 0, None, None, None, None)
    return IndexSummary(
        len(files),
        sum(header.index_count - 1 for header in used),
        min(header.begin_timestamp for header in used),
        max(header.end_timestamp for header in used),
        min(header.begin_phy_offset for header in used),
        max(header.end_phy_offset for header in used),
    )


def _checkpoint(store: Store) -> dict[str, int] | None:
    if not store.covers(PartKind.CHECKPOINT):
        return None
    try:
        fields = checkpoint.parse_checkpoint(read_whole(store.checkpoint_path, checkpoint.FILE_SIZE))
    except RmqstoreError:
        return None
    return {name: value for name, value in fields.items() if isinstance(value, int)}


def _strays(store: Store) -> Iterator[str]:
    strays = [stray for kind in QUEUE_TREES for stray in store.strays(kind)]
    for stray in strays:
        yield f"{store.relative(stray.path)}: {stray.reason}"
    for file in store.index_files():
        if not file.named_right:
            yield f"{store.relative(file.path)}: the name is none of an index file"
    reported = {stray.path for stray in strays}
    for obstacle in dict.fromkeys((*store.obstacles(), *store.index_obstacles())):
        if obstacle.path not in reported:
            yield f"{store.relative(obstacle.path)}: {obstacle.reason}"


def _notes(store: Store) -> Iterator[str]:
    if store.only is not None:
        yield f"Only the part {store.only} of a store is present."
    yield from store.commitlog_directories.notes
    for key, value in store.config.malformed():
        yield f"The broker ignores the setting {key}={value}: it is not of the right type."
