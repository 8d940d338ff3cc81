"""Running a dump: the items to print for a target and a request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

from rmqstore.dump import dledger, indexes, queues, small, timers
from rmqstore.dump.databases import entries_of_database
from rmqstore.dump.items import Item, Value, last, limited
from rmqstore.dump.log import LogDump
from rmqstore.dump.message import message_object
from rmqstore.dump.queues import QueueFiles
from rmqstore.dump.request import Request
from rmqstore.dump.target import Target, require_sensible
from rmqstore.reading.zeros import end_of_nonzero
from rmqstore.store.kinds.identify import FileKind
from rmqstore.store.mapped import MappedFile

_SMALL: dict[FileKind, small.Reader] = {
    FileKind.CHECKPOINT: small.read_checkpoint,
    FileKind.TIMERCHECK: small.read_timercheck,
    FileKind.ABORT: small.read_abort,
    FileKind.LOCK: small.read_lock,
    FileKind.EPOCH: small.read_epoch,
    FileKind.COMPACTION: small.read_positions,
    FileKind.PROPERTIES: small.read_properties,
    FileKind.JSON: small.read_json,
    FileKind.TEXT: small.read_text,
}
_QUEUES: dict[FileKind, Callable[[QueueFiles, queues.Name], Iterator[Value]]] = {
    FileKind.BATCHCONSUMEQUEUE: queues.batch_queue,
    FileKind.COMPACTION_QUEUE: queues.batch_queue,
    FileKind.CONSUMEQUEUE_EXT: queues.ext_queue,
}

_TAIL_BYTES = 1 << 16
"""Bytes at the end of a log that are read first for its last records."""


@dataclass(frozen=True, slots=True)
class Engine:
    """Settings for decoding large logs: number of threads (None: one per processor), and a function to call before code is compiled."""

    threads: int | None = None
    before_compiling: Callable[[], None] | None = None


def dump(target: Target, request: Request, engine: Engine = Engine()) -> Iterator[Item]:
    """Yield the objects of a target that match a request, in stored order. Raises UsageError, UnreadableError, StoreChangedError."""
    require_sensible(target.kind, request.filters)
    if request.tail is None:
        yield from limited(_items(target, request, engine), request.limit)
    else:
        yield from limited(_tail(target, request, request.tail, engine), request.limit)


def _tail(target: Target, request: Request, count: int, engine: Engine) -> Iterator[Item]:
    """Yield the last `count` objects; of a log only the end is read, of queues only the last files, as far as needed."""
    number, total = 1, len(target.files) + sum(len(queue.files) for queue in target.queues)
    while target.kind is not FileKind.COMMITLOG:
        items, found = last(_items(target.last_files(number), request, engine), count)
        if found >= count or number >= total:
            yield from items
            return
        number *= 2
    begin = max(request.filters.from_offset or 0, target.files[0].start if target.files else 0)
    end, reach = _end_of_data(target.files), _TAIL_BYTES
    while True:
        # A later begin of the same log, so that what is missing between its files is reported as well.
        start = max(begin, end - reach)
        later = replace(request, filters=replace(request.filters, from_offset=start))
        items, found = last(_items(target, later, engine), count)
        if found >= count or start <= begin:
            yield from items
            return
        reach *= 4


def _end_of_data(files: tuple[MappedFile, ...]) -> int:
    """Return the offset after the last byte of a log that is not zero."""
    return next((file.start + end for file in reversed(files) if (end := end_of_nonzero(file, 0))), 0)


def _items(target: Target, request: Request, engine: Engine) -> Iterator[Item]:
    if target.kind is FileKind.COMMITLOG:
        return _log(target, request, target.files, engine)
    if target.kind is FileKind.COMPACTION_LOG:
        return (item for queue in target.queues for item in _log(target, request, queue.files, engine))
    return (value for value in _objects(target, request) if value["type"] == "damage" or request.filters.accept(value))


def _log(target: Target, request: Request, files: tuple[MappedFile, ...], engine: Engine) -> Iterator[Item]:
    """Yield the objects of a log; files without read permission divide it, because the data next to them is not damage."""
    denied = {one.path for one in target.denied}
    for is_denied, readable in groupby(files, lambda file: file.path in denied):
        if not is_denied:
            log = LogDump(tuple(readable), target.name, request, target.delay_levels, engine.before_compiling)
            yield from log.items(log.slow_records(), engine.threads)


def _objects(target: Target, request: Request) -> Iterator[Value]:
    """Yield the objects of everything that is not a plain log of records, not filtered."""
    denied = {one.path for one in target.denied}

    def readable(files: tuple[MappedFile, ...]) -> tuple[MappedFile, ...]:
        return tuple(file for file in files if file.path not in denied)

    make_message = partial(message_object, delay_levels=target.delay_levels, body=request.body, unpack=request.decompress)
    if target.kind is FileKind.CONSUMEQUEUE:
        for queue in target.queues:
            files = readable(queue.files)
            yield from queues.consume_queue(replace(queue, files=files), target.name, request.filters.queue_offset)
    elif target.kind in _QUEUES:
        for queue in target.queues:
            yield from _QUEUES[target.kind](replace(queue, files=readable(queue.files)), target.name)
    elif target.kind is FileKind.DLEDGER:
        yield from dledger.dledger_log(readable(target.files), target.name, make_message)
    elif target.kind is FileKind.DLEDGER_INDEX:
        yield from dledger.dledger_index(readable(target.files), target.name)
    elif target.kind is FileKind.ROCKSDB:
        for name, database in target.databases:
            yield from entries_of_database(name, database)
    elif target.kind is FileKind.TIMERLOG:
        yield from timers.timer_log(readable(target.files), target.name)
    else:
        for file in readable(target.files):
            yield from _one_file(target, request, file)


def _one_file(target: Target, request: Request, file: MappedFile) -> Iterator[Value]:
    if target.kind is FileKind.INDEX:
        key_hash = None if request.slots else request.filters.key_hash
        return indexes.index_file(file, target.name, target.hash_slots, request.slots, key_hash)
    if target.kind is FileKind.TIERED_INDEX:
        return indexes.tiered_index_file(file, target.name, request.slots)
    if target.kind is FileKind.TIMERWHEEL:
        return timers.timer_wheel(file, target.name)
    return small.small_file(file.path, target.name(file), _SMALL[target.kind])
