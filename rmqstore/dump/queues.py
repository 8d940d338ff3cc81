"""Queues as objects: consume queue units, batch and sparse units, ext units."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rmqstore.dump.fields import Fields, cells, damage
from rmqstore.dump.items import Value
from rmqstore.formats import batchconsumequeue, consumequeue, consumequeue_ext
from rmqstore.store.mapped import MappedFile
from rmqstore.store.window import open_read_only, read_descriptor

_UNIT = Fields(consumequeue.UNIT)
_BATCH_UNIT = Fields(batchconsumequeue.UNIT)
_EXT_PREFIX = Fields(consumequeue_ext.UNIT_PREFIX)
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class QueueFiles:
    """The files of one queue; topic and queue id are None for a file taken out of its directory."""

    topic: str | None
    queue_id: int | None
    files: tuple[MappedFile, ...]


Name = Callable[[MappedFile], str]


def consume_queue(queue: QueueFiles, name: Name, wanted: int | None = None) -> Iterator[Value]:
    """Yield the units in queue order, only the one at the queue offset `wanted` if it is given.

    What was never written after the last one is left out, a hole before it is damage.
    """
    head = {"topic": queue.topic, "queue_id": queue.queue_id}
    for file, position, data in _written_units(queue, name, _UNIT.size) if wanted is None else _unit_at(queue, wanted * _UNIT.size):
        if isinstance(data, dict):
            yield data
            continue
        kind = "pre_blank" if data == consumequeue.PRE_BLANK else "unit"
        queue_offset = (file.start + position) // _UNIT.size
        yield {"type": kind, **head, "queue_offset": queue_offset, **_UNIT.read(data), "file": name(file), "position": position}


def batch_queue(queue: QueueFiles, name: Name) -> Iterator[Value]:
    """Yield the units of a BatchConsumeQueue or of a compacted topic's sparse queue, whose last unit of a file is an `end_unit`."""
    head = {"topic": queue.topic, "queue_id": queue.queue_id}
    for file, position, data in _written_units(queue, name, _BATCH_UNIT.size):
        if isinstance(data, dict):
            yield data
            continue
        kind = "end_unit" if data == batchconsumequeue.SPARSE_END else "batch_unit"
        yield {"type": kind, **head, **_BATCH_UNIT.read(data), "file": name(file), "position": position}


def _unit_at(queue: QueueFiles, place: int) -> Iterator[tuple[MappedFile, int, bytes]]:
    """Yield (file, position, unit) of the consume queue unit at byte `place` of a queue, nothing if it was not written."""
    for file in queue.files:
        if file.start <= place < file.end:
            for cell in cells(file, _UNIT.size, place - file.start, place - file.start + _UNIT.size):
                yield file, *cell


def _written_units(queue: QueueFiles, name: Name, size: int) -> Iterator[tuple[MappedFile, int, bytes | Value]]:
    """Yield (file, position, unit) of every unit that was written, or the damage before it."""
    pending: list[tuple[MappedFile, int, Value]] = []
    for file in queue.files:
        expected = 0
        for position, data in cells(file, size, 0, file.length - file.length % size):
            yield from pending
            pending.clear()
            if position > expected:
                yield file, expected, hole(name(file), expected, position - expected)
            expected = position + size
            yield file, position, data
        if expected < file.length:
            pending.append((file, expected, hole(name(file), expected, file.length - expected)))


def hole(name: str, position: int, length: int) -> Value:
    """Return the object for units that were never written although later ones were."""
    return damage(name, position, length, "unwritten", "never written, but later units were")


def ext_queue(queue: QueueFiles, name: Name) -> Iterator[Value]:
    """Yield the ext units by stepping from size to size, as the broker does; each file ends at an invalid size."""
    for file in queue.files:
        yield from _ext_file(queue, file, name)


def _ext_file(queue: QueueFiles, file: MappedFile, name: Name) -> Iterator[Value]:
    position = 0
    with open_read_only(file.path) as descriptor:
        data, start = b"", 0
        while position + _EXT_PREFIX.size <= file.length:
            if position + _EXT_PREFIX.size + 0x7FFF > start + len(data) < file.length or not data:
                data, start = read_descriptor(descriptor, file.path, position, min(_CHUNK, file.length - position)), position
            prefix = _EXT_PREFIX.read(data, position - start)
            size = prefix["size"]
            if size <= 0:
                return
            end = position + size
            if size != _EXT_PREFIX.size + prefix["bit_map_size"] or end > file.length:
                text = f"the size is {size}, the bitmap has {prefix['bit_map_size']} bytes, {file.length - position} bytes are left"
                yield damage(name(file), position, file.length - position, "size_mismatch", text)
                return
            yield {
                "type": "ext_unit",
                "topic": queue.topic,
                "queue_id": queue.queue_id,
                "address": consumequeue_ext.encode_address(file.start + position),
                **prefix,
                "filter_bit_map": data[position - start + _EXT_PREFIX.size : end - start].hex(),
                "file": name(file),
                "position": position,
            }
            position = end
