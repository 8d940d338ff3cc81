"""Log files that no broker removed, with messages that no consumer has read.

A log that begins after offset 0 has lost its first files. A broker that removes them, because they are old or the disk is full, removes in
the same round the queue files and index files before the new begin (fact sheet commit log §8.1). So the broker did not remove them where
such files are left and no queue has lost its first file. Times of files are not asked: a copy can have other ones.

The broker never removes the last file of a queue or of the index, and raises the begin of a queue in memory alone. So where no queue has a
whole file for removed messages, the store looks the same after a full disk and after a removal by hand, and a note says what is unknown.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from rmqstore.doctor.areas import Area, Effect, Harm, State
from rmqstore.doctor.checks.configfiles import ConfigFiles
from rmqstore.doctor.checks.lastrun import LastRun
from rmqstore.doctor.checks.progress import Found
from rmqstore.doctor.checks.queueunits import unit_reader
from rmqstore.doctor.predicted import Prediction
from rmqstore.errors import RmqstoreError
from rmqstore.formats import consumequeue, index
from rmqstore.formats.naming import LMQ_PREFIX
from rmqstore.store.mapped import MappedFile
from rmqstore.store.root import QueueDirectory, Store
from rmqstore.store.window import read_at, read_whole
from rmqstore.verify.context import Context
from rmqstore.verify.parts.config import CONSUMER_OFFSETS, LMQ_OFFSETS, EndsOfQueues, stored_offsets
from rmqstore.verify.queues.spans import QueueKey
from rmqstore.wording import counted

_HOUR_MS = 3_600_000


def check(prediction: Prediction, files: ConfigFiles, run: LastRun) -> Iterator[Found]:
    """Yield the loss of messages that were in removed files of the log and that not every group has read, at most; else a note."""
    context = prediction.context
    begin = context.log.min_offset
    if begin <= 0:
        return
    cleaned = any(queue.files.files and queue.files.files[0].start > 0 for queue in prediction.queues.values())
    shown = not run.broker_runs and not context.store.rocksdb_queues and not cleaned
    count = _lost(prediction, files, begin) if shown else 0
    if not count:
        young = not run.broker_runs and not context.store.rocksdb_queues and _is_younger_than_kept(context, run)
        yield Effect(Area.COMMIT_LOG, State.OK, f"the log begins at offset {begin}: {_unknown(context, young=young, cleaned=cleaned)}")
        return
    known = files.texts[CONSUMER_OFFSETS].value is not None or files.texts[LMQ_OFFSETS].value is not None
    unread = " that consumers have not read" if known else ""
    text = f"up to {counted(count, 'message')}{unread} {'is' if count == 1 else 'are'} gone: log files before offset {begin} were removed"
    yield Effect(Area.COMMIT_LOG, State.LOSES, text, Harm.LOST, count)
    first = context.store.message_log.files[0].path
    yield context.finding("RMQ-CL-REMOVED", text, file=first, offset=begin, expected=0, found=begin)


def _unknown(context: Context, *, young: bool, cleaned: bool) -> str:
    """Return what is known about why the first files are not here, and what is not."""
    if cleaned:
        return "first files of queues are missing too, as after a broker removed files that have expired"
    if not young:
        return "the files before it have expired or are missing, and nothing here shows which"
    kept = context.store.config.integer("fileReservedTime")
    text = f"the files before it are missing and were younger than fileReservedTime ({counted(kept, 'hour')})"
    return f"{text}. A broker removes such files only if the disk is almost full; nothing here shows whether it did"


def _lost(prediction: Prediction, files: ConfigFiles, begin: int) -> int:
    """Return how many messages are gone with files that the broker itself did not remove; 0 where nothing shows that."""
    store = prediction.context.store
    try:
        left = any(_is_left(queue, begin) for queue in prediction.queues.values()) or _index_is_left(store, begin)
        return _unread(prediction, files, begin) if left else 0
    except RmqstoreError:
        return 0


def _is_younger_than_kept(context: Context, run: LastRun) -> bool:
    """Return whether the broker, which wrote its last file some time after the first record, cannot have removed a file for its age."""
    log, kept = context.log, context.store.config.integer("fileReservedTime") * _HOUR_MS
    return log.first_timestamp > 0 and max(run.last_written, log.last_timestamp) - log.first_timestamp < kept


def _is_left(queue: QueueDirectory, begin: int) -> bool:
    """Return whether the first of several files of a queue has entries for messages before `begin` alone."""
    files: tuple[MappedFile, ...] = tuple(queue.files.files)
    if len(files) < 2 or files[0].length < consumequeue.UNIT_SIZE:
        return False
    unit = consumequeue.UNIT.parse(read_at(files[0], files[0].length - consumequeue.UNIT_SIZE, consumequeue.UNIT_SIZE))
    return bool(0 < unit.physical_offset < begin)


def _index_is_left(store: Store, begin: int) -> bool:
    """Return whether an index file that is not the last one has entries of messages before `begin` alone."""
    named = [file for file in store.index_files() if file.named_right and file.length >= index.HEADER_SIZE][:-1]
    ends = (int(index.HEADER.parse(read_whole(file.path, index.HEADER_SIZE)).end_phy_offset) for file in named)
    return any(0 < end < begin for end in ends)


def _unread(prediction: Prediction, files: ConfigFiles, begin: int) -> int:
    """Return how many messages before `begin` the slowest group of each queue has not read; where no group has an offset, all."""
    store = prediction.context.store
    slowest: dict[QueueKey, int] = {}
    for stored in stored_offsets(store, files.texts):
        key = stored.topic, stored.queue_id
        slowest[key] = min(slowest.get(key, stored.offset), stored.offset)
    keys = (key for key in prediction.queues if not key[0].startswith(LMQ_PREFIX))
    return sum(max(0, _first_left(store, key, begin) - max(0, slowest.get(key, 0))) for key in keys)


def _first_left(store: Store, key: QueueKey, begin: int) -> int:
    """Return the first queue offset of a message at `begin` or later; physical offsets rise in a queue."""
    unit_at = unit_reader(store, *key)

    def before(offset: int) -> bool:
        unit = unit_at(offset)
        return bool(unit is not None and unit.size > 0 and unit.physical_offset < begin)

    end = EndsOfQueues(store).end(*key) or 0
    return bisect_left(range(end), True, key=lambda offset: not before(offset))
