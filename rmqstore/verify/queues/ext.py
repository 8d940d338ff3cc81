"""Ext units: where a queue unit stores an address, the ext unit there must hold the record's tagsCode and store time.

And the lengths of the ext units of a file, which a start adds up from byte 0 on until one is not positive, must not lead out of it. Units
that no entry names are left when queues are cut, because ext files are not (fact sheet queues §11, Q20).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
import numpy.typing as npt

from rmqstore.errors import RmqstoreError
from rmqstore.findings import Finding
from rmqstore.formats import consumequeue_ext
from rmqstore.formats.consumequeue import UNIT, UNIT_SIZE
from rmqstore.scan.columns import integer_columns
from rmqstore.scan.walk import LogScanner
from rmqstore.store.mapped import MappedFile
from rmqstore.store.root import QueueDirectory
from rmqstore.store.window import read_at
from rmqstore.verify.context import Context
from rmqstore.verify.guard import guarded
from rmqstore.verify.queues.spans import QueueKey

HEAD_SIZE = 20
_LENGTH = 2
_PIECE = 1 << 20
_UNIT = integer_columns(UNIT)
_UNITS = UNIT_SIZE << 18


def check_units(context: Context) -> Iterator[Finding]:
    """Yield findings about files of ext units whose lengths a start cannot add up, and about units that no entry of the queue names."""
    exts = list(context.store.ext_queue_directories())
    queues = {(one.topic, one.queue_id): one for one in context.store.queue_directories()} if exts else {}
    for queue in exts:
        key = queue.topic, queue.queue_id
        places = array("q")
        for file in queue.files.files:
            yield from guarded(context, file.path, partial(_lengths, context, key, file, places))
        if key in queues and context.options.wants_queue(*key):
            yield from guarded(context, queue.directory, partial(_orphans, context, queue, queues[key], places))


def _lengths(context: Context, key: QueueKey, file: MappedFile, places: array[int]) -> Iterator[Finding]:
    """Add the offsets of the units of a file to `places`, and yield a finding about a last length that leads out of the file."""
    position = last = start = 0
    piece = b""
    while position + _LENGTH <= file.length:
        if position + _LENGTH > start + len(piece):
            start, piece = position, read_at(file, position, min(_PIECE, file.length - position))
        size = int.from_bytes(piece[position - start : position - start + _LENGTH], "big", signed=True)
        if size <= 0:
            return
        places.append(file.start + position)
        last, position = position, position + size
    if not position:
        return  # an empty file; `files.py` reports it
    places.pop()  # not a unit
    message = "the length of this extended entry leads beyond the end of the file: a broker does not start"
    yield context.finding(
        "RMQ-CQ-EXT", message, file=file.path, position=last, length=_LENGTH, topic=key[0], queue_id=key[1], found=position - last
    )


def _orphans(context: Context, ext: QueueDirectory, queue: QueueDirectory, places: array[int]) -> Iterator[Finding]:
    """Yield units after the first one that the queue names, and that it does not name."""
    found = [np.zeros(0, np.int64)]
    for file in queue.files.files:
        for at in range(0, file.length - file.length % UNIT_SIZE, _UNITS):
            piece = read_at(file, at, min(_UNITS, file.length - file.length % UNIT_SIZE - at))
            codes = np.frombuffer(piece, _UNIT)["tags_code"].astype(np.int64)
            found.append(codes[codes <= consumequeue_ext.MAX_ADDRESS])
    named = np.concatenate(found) - consumequeue_ext.encode_address(0)
    every = np.frombuffer(places, np.int64) if places else np.zeros(0, np.int64)
    orphans = every[~np.isin(every, named) & (every > (named.min() if named.size else -1))]
    if orphans.size:
        file = next(file for file in reversed(ext.files.files) if file.start <= orphans[0])
        text = f"extended entries that the queue does not name: {orphans.size}"
        where = {"topic": ext.topic, "queue_id": ext.queue_id, "found": int(orphans.size)}
        yield context.finding("RMQ-CQ-EXT-ORPHAN", text, file=file.path, position=int(orphans[0]) - file.start, **where)


class ExtReader:
    """Reader of the ext units that the queue units of one scan point to."""

    def __init__(self, context: Context, queues: Mapping[QueueKey, QueueDirectory]) -> None:
        self._context = context
        self._queues = queues

    def check(self, scanner: LogScanner, exts: npt.NDArray[np.void]) -> Iterator[Finding]:
        """Yield findings about the addresses found (EXT_DTYPE)."""
        for ext in exts:
            key = scanner.queue(int(ext["queue"]))
            problem = self._problem(key, ext)
            if problem is None:
                continue
            message, file, position, expected, found = problem
            yield self._context.finding(
                "RMQ-CQ-EXT",
                message,
                file=file,
                position=position,
                length=HEAD_SIZE,
                offset=int(ext["position"]),
                topic=key[0],
                queue_id=key[1],
                queue_offset=int(ext["queue_offset"]),
                expected=expected,
                found=found,
            )

    def _problem(self, key: QueueKey, ext: npt.NDArray[np.void]) -> tuple[str, object, int | None, object, object] | None:
        place = consumequeue_ext.decode_address(int(ext["address"]))
        directory = self._queues.get(key)
        file = directory.files.find(place) if directory and place >= 0 else None
        if file is None or place + HEAD_SIZE > file.end:
            return "the queue entry has an ext address where no ext file is", None, None, None, int(ext["address"])
        at = place - file.start
        try:
            head = read_at(file, at, HEAD_SIZE)
        except RmqstoreError as error:
            return error.message, file.path, at, None, None
        size, bits = int.from_bytes(head[0:2], "big", signed=True), int.from_bytes(head[18:20], "big", signed=True)
        tags_code, store_time = int.from_bytes(head[2:10], "big", signed=True), int.from_bytes(head[10:18], "big", signed=True)
        if size != HEAD_SIZE + bits or bits < 0 or at + size > file.length:
            return "the size of the extended entry does not match its bit map", file.path, at, HEAD_SIZE + max(bits, 0), size
        if tags_code != int(ext["tags_code"]):
            return "the extended entry has another tagsCode than the record", file.path, at, int(ext["tags_code"]), tags_code
        if store_time != int(ext["store_timestamp"]):
            return "the extended entry has another STORETIMESTAMP than the record", file.path, at, int(ext["store_timestamp"]), store_time
        return None
