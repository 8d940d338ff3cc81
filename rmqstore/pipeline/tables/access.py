"""The ranges of a log that hold selected messages, by what brokers derive from it: consume queues for topics, index files for keys.

What is derived can lack messages. So the log from the checkpoint on, which brokers dispatch once more after a crash, and what is
before, between and outside of entries, are ranges as well. What `rmqstore verify` would find missing besides is not looked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from rmqstore.errors import RmqstoreError
from rmqstore.formats import batchconsumequeue, checkpoint, consumequeue, dledger
from rmqstore.formats.indexentry import KEY_SEPARATOR
from rmqstore.formats.multidispatch import is_lmq
from rmqstore.formats.record import Record
from rmqstore.formats.sysflag import UNLISTED, transaction_type
from rmqstore.pipeline.job import StoreAt
from rmqstore.pipeline.tables.fileparts import row_type, units
from rmqstore.pipeline.tables.selection import Condition, Selection
from rmqstore.query.times import TimeSearch
from rmqstore.reading.entries import unit_at
from rmqstore.reading.indexchains import entries_of_key, uncovered
from rmqstore.reading.progress import silent
from rmqstore.reading.records import record_at
from rmqstore.store.mapped import MappedFile, MappedFileQueue
from rmqstore.store.root import Store
from rmqstore.store.window import read_whole

RANGE = np.dtype([("begin", np.int64), ("end", np.int64), ("entries", np.int64)])
"""A range of physical offsets, and how many messages of the selected queues the entries of queues place there."""

NEAR = 1 << 20
"""Bytes between two messages that are read rather than skipped."""

_TOPIC, _QUEUE_ID, _QUEUE_OFFSET = "topic", "queue_id", "queue_offset"
_UNIQUE_KEY, _KEYS = "unique_key", "keys"
_UNIT, _BATCH_UNIT = row_type(consumequeue.UNIT), row_type(batchconsumequeue.UNIT)

Ranges = NDArray[np.void]


def derived_ranges(at: StoreAt, selection: Selection) -> Ranges | None:
    """Return RANGE[n] in the order of the log, apart from each other; None if nothing derived answers, so that all of it has to be read.

    Queues answer for conditions on the topic, the index for those on the topic and on keys: what it has of a key depends on both. Raises
    what opening the store raises, UnreadableError, StoreChangedError.
    """
    store = at.open()
    if not store.message_log.files:
        return None
    if _TOPIC not in selection.conditions:
        return None
    topics = sorted(selection.conditions[_TOPIC].among or ())
    has_key = _UNIQUE_KEY in selection.conditions or _KEYS in selection.conditions
    found = _by_index(store, topics, selection) if has_key else _by_queues(store, topics, selection)
    return None if found is None else joined(found)


def joined(ranges: Iterable[Ranges]) -> Ranges:
    """Return ranges in order, those that are near each other as one."""
    found = np.concatenate([np.empty(0, RANGE), *ranges])
    if not len(found):
        return found
    found = found[np.argsort(found["begin"], kind="stable")]
    ends = np.maximum.accumulate(found["end"])
    firsts = np.flatnonzero(np.append(True, found["begin"][1:] - ends[:-1] > NEAR))
    merged = found[firsts]
    merged["end"] = ends[np.append(firsts[1:], len(found)) - 1]
    merged["entries"] = np.add.reduceat(found["entries"], firsts)
    return merged


def _range(begin: int, end: int) -> Ranges:
    return np.array([(begin, end, 0)], RANGE)


def _lead(store: Store) -> int:
    """Return the bytes before every record, which belong to it."""
    return 0 if store.dledger is None else dledger.ENTRY_HEADER_SIZE


# Queues


def _by_queues(store: Store, topics: Sequence[str], selection: Selection) -> list[Ranges] | None:
    """Return the ranges by the queues of the topics; None if one of them has none, or has them in RocksDB or of other topics' messages."""
    if store.rocksdb_queues or any(map(is_lmq, topics)):
        return None
    ids = selection.conditions.get(_QUEUE_ID, Condition())
    found = [_range(_dispatched_until(store) - _lead(store), store.message_log.max_offset)]
    batch_queues = list(store.batch_queue_directories())
    for topic in topics:
        listed = [(queue.queue_id, queue.files, _UNIT) for queue in store.queue_directories(topic)]
        listed += [(queue.queue_id, queue.files, _BATCH_UNIT) for queue in batch_queues if queue.topic == topic]
        queues = [queue for queue in listed if ids.met_by(queue[0])]
        if not queues or not {queue_id for queue_id, _, _ in queues}.issuperset(ids.among or ()):
            return None
        for _, files, kind in queues:
            of_queue = list(_of_queue(store, files, kind, selection))
            if not of_queue:
                return None
            found.append(joined(of_queue))
    return found


def _of_queue(store: Store, files: MappedFileQueue, kind: np.dtype[np.void], selection: Selection) -> Iterator[Ranges]:
    """Yield the ranges of a queue: of its entries, of what is between those that do not follow each other, and before the first one."""
    log, lead = store.message_log, _lead(store)
    low, high = selection.first(_QUEUE_OFFSET), selection.last(_QUEUE_OFFSET)
    following, place = 0, log.min_offset
    for file in files.files if kind == _BATCH_UNIT else _needed(files, selection):
        for found in units(file, kind, 0, file.length, silent):
            are_entries = _are_entries(found.fields)
            fields = found.fields[are_entries]
            if not len(fields):
                continue
            begins = fields["physical_offset"].astype(np.int64)
            if kind == _BATCH_UNIT:
                numbers = fields["msg_base_offset"].astype(np.int64)
                ends = numbers + fields["batch_size"]
            else:
                numbers = (file.start + found.positions[are_entries]) // kind.itemsize
                ends = numbers + 1
            expected, before = np.append(following, ends[:-1]), np.append(place, begins[:-1])
            following, place = int(ends[-1]), int(begins[-1])
            gaps = (numbers > expected) & (low is None or numbers > low) & (high is None or expected <= high)
            yield _ranges(np.minimum(before, begins)[gaps], np.maximum(before, begins)[gaps], 0)
            selected = (begins >= log.min_offset) & (begins < log.max_offset)
            if _QUEUE_OFFSET in selection.conditions:
                selected &= selection.conditions[_QUEUE_OFFSET].mask(numbers)
            yield _ranges(begins[selected] - lead, (begins + fields["size"])[selected], 1)


def _are_entries(fields: NDArray[np.void]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (fields["size"] > 0) & (fields["size"] != consumequeue.PRE_BLANK_SIZE) & (fields["physical_offset"] >= 0)
    return found


def _needed(files: MappedFileQueue, selection: Selection) -> Iterator[MappedFile]:
    """Yield the files of a consume queue from one before to one after those that can hold selected queue offsets, and the last one.

    All files up to there if offsets before the first file are selected.
    """
    first = files.min_offset // _UNIT.itemsize
    has_lost = first > 0 and selection.may_meet(_QUEUE_OFFSET, 0, first - 1)
    for number, file in enumerate(files.files):
        begin = 0 if has_lost else files.files[max(number - 1, 0)].start // _UNIT.itemsize
        end = files.files[min(number + 1, len(files.files) - 1)].end // _UNIT.itemsize
        if selection.may_meet(_QUEUE_OFFSET, begin, end) or number == len(files.files) - 1:
            yield file


def _ranges(begins: NDArray[np.int64], ends: NDArray[np.int64], entries: int) -> Ranges:
    found = np.empty(len(begins), RANGE)
    found["begin"], found["end"], found["entries"] = begins, ends, entries
    return joined([found])


def _dispatched_until(store: Store) -> int:
    """Return where the log begins that a broker dispatches after a crash, by the times of the checkpoint.

    Brokers write the queues to the disk before the checkpoint. That is the begin of the log without one, or if the last message before that
    place has no entry.
    """
    log = store.message_log
    search = TimeSearch(log)
    try:
        times = checkpoint.parse_checkpoint(read_whole(store.checkpoint_path, checkpoint.FILE_SIZE))
    except RmqstoreError:
        return log.min_offset
    place = search.begin_of(min(times["physic_msg_timestamp"], times["logics_msg_timestamp"]) - checkpoint.RECOVERY_MARGIN)
    last = record_at(log, place)
    return place if search.is_ordered() and (last is None or _is_listed(store, last)) else log.min_offset


def _is_listed(store: Store, record: Record) -> bool:
    """Return whether a message has its entry, as far as it has to have one in a consume queue."""
    if transaction_type(record.sys_flag) in UNLISTED:
        return True
    key = record.topic, record.queue_id
    if any((queue.topic, queue.queue_id) == key for queue in store.batch_queue_directories()):
        return True
    queue = next((queue for queue in store.queue_directories(record.topic) if queue.queue_id == record.queue_id), None)
    unit = None if queue is None else unit_at(queue.files, record.queue_offset)
    return unit is not None and unit.physical_offset == record.physical_offset


# Index


def _by_index(store: Store, topics: Sequence[str], selection: Selection) -> list[Ranges] | None:
    """Return the ranges by the index files; None without one, or for messages without a key."""
    if _UNIQUE_KEY in selection.conditions:
        keys = set(selection.conditions[_UNIQUE_KEY].among or ())
    else:
        # Messages that have all keys of a text have the first one.
        keys = {next(filter(None, text.split(KEY_SEPARATOR)), "") for text in selection.conditions[_KEYS].among or ()}
    if not store.index_files() or "" in keys:
        return None
    log, lead = store.message_log, _lead(store)
    found = []
    for key in keys:
        covered = []
        for entries in entries_of_key(store, topics, key):
            covered += [entries.covered] if entries.covered is not None else []
            records = (record_at(log, offset) for offset in entries.offsets)
            found += [_range(record.physical_offset - lead, record.physical_offset + record.size) for record in records if record]
        found += [_range(begin, end) for begin, end in uncovered(covered, log.min_offset, log.max_offset)]
    return found
