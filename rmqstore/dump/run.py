"""Running a dump: the items to print for a target and a request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

from rmqstore.dump import dledger, indexes, queues, small, timers
from rmqstore.dump.items import Item, Value, last, limited
from rmqstore.dump.log import LogDump
from rmqstore.dump.message import message_object
from rmqstore.dump.queues import QueueFiles
from rmqstore.dump.request import Request
from rmqstore.dump.target import Target, require_sensible
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
    FileKind.CONSUMEQUEUE: queues.consume_queue,
    FileKind.BATCHCONSUMEQUEUE: queues.batch_queue,
    FileKind.COMPACTION_QUEUE: queues.batch_queue,
    FileKind.CONSUMEQUEUE_EXT: queues.ext_queue,
}


@dataclass(frozen=True, slots=True)
class Engine:
    """Settings for decoding large logs: number of threads (None: one per processor), and a function to call before code is compiled."""

    threads: int | None = None
    before_compiling: Callable[[], None] | None = None


def dump(target: Target, request: Request, engine: Engine = Engine()) -> Iterator[Item]:
    """Yield the objects of a target that match a request, in stored order. Raises UsageError, UnreadableError, StoreChangedError."""
    require_sensible(target.kind, request.filters)
    if request.tail is None:
        yield from limited(_items(target, request, target.files, engine), request.limit)
    else:
        yield from limited(_tail(target, request, request.tail, engine), request.limit)


def _tail(target: Target, request: Request, count: int, engine: Engine) -> Iterator[Item]:
    """Yield the last `count` objects; of a log only the last files are read, as many as needed."""
    if target.kind is not FileKind.COMMITLOG:
        yield from last(_items(target, request, target.files, engine), count)[0]
        return
    number = 1
    while True:
        # Several files are read as one log, so that what is missing between them is reported as well.
        items, found = last(_items(target, request, target.files[-number:], engine), count)
        if found >= count or number >= len(target.files):
            yield from items
            return
        number *= 2


def _items(target: Target, request: Request, files: tuple[MappedFile, ...], engine: Engine) -> Iterator[Item]:
    if target.kind is FileKind.COMMITLOG:
        return _log(target, request, files, engine)
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
    if target.kind in _QUEUES:
        for queue in target.queues:
            yield from _QUEUES[target.kind](replace(queue, files=readable(queue.files)), target.name)
    elif target.kind is FileKind.DLEDGER:
        yield from dledger.dledger_log(readable(target.files), target.name, make_message)
    elif target.kind is FileKind.DLEDGER_INDEX:
        yield from dledger.dledger_index(readable(target.files), target.name)
    elif target.kind is FileKind.TIMERLOG:
        yield from timers.timer_log(readable(target.files), target.name)
    else:
        for file in readable(target.files):
            yield from _one_file(target, request, file)


def _one_file(target: Target, request: Request, file: MappedFile) -> Iterator[Value]:
    if target.kind is FileKind.INDEX:
        return indexes.index_file(file, target.name, target.hash_slots, request.slots)
    if target.kind is FileKind.TIERED_INDEX:
        return indexes.tiered_index_file(file, target.name, request.slots)
    if target.kind is FileKind.TIMERWHEEL:
        return timers.timer_wheel(file, target.name)
    return small.small_file(file.path, target.name(file), _SMALL[target.kind])
