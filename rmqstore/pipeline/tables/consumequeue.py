"""The table of consume queue units, read from the files of the queues."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from rmqstore.dump.target import Target
from rmqstore.formats import consumequeue
from rmqstore.pipeline.job import Part, StoreAt
from rmqstore.pipeline.tables.fileparts import FilesPart, TableFile, Units, Value, batch_of, files_parts, row_type, target_of, units
from rmqstore.pipeline.tables.selection import Selection
from rmqstore.pipeline.tables.table import LARGEST_PART, Column, schema
from rmqstore.reading.progress import Advance

_UNIT = row_type(consumequeue.UNIT)
_PRE_BLANK = np.frombuffer(consumequeue.PRE_BLANK, _UNIT)[0]


class ConsumeQueues:
    """Units by topic, queue id and queue offset; units that were never written are no rows."""

    name = "consumequeue"
    summary = "Every written unit of the consume queues; of queues in RocksDB every entry that a broker serves, as a unit."
    columns: tuple[Column, ...] = (
        Column("type", "string", "unit; pre_blank for a filler before the first unit of a queue"),
        Column("topic", "string", "topic, the name of a directory"),
        Column("queue_id", "bigint", "queue id, the name of a directory"),
        Column("queue_offset", "bigint", "queue offset of the message, by the place of the unit"),
        Column("physical_offset", "bigint", "physical offset of the record in the commit log"),
        Column("size", "int", "TOTALSIZE of the record"),
        Column(
            "tags_code", "bigint", "hash of TAGS; deliver time (ms) in the schedule topic; address of the ext unit with ConsumeQueueExt"
        ),
        Column("file", "string", "path of the file below the root of the store"),
        Column("position", "bigint", "position of the unit in the file, in bytes"),
    )
    selectable: tuple[str, ...] = ("topic", "queue_id", "queue_offset", "physical_offset", "size", "tags_code", "position")

    def parts(self, at: StoreAt, selection: Selection, largest: int = LARGEST_PART) -> Sequence[Part]:
        """Return files of the selected queues that can hold selected queue offsets; one part for a database of queues."""
        target = target_of(at, "consumequeue")
        if target.database is not None:
            return [_DatabasePart(0, target.database, 0, at)]
        return files_parts(at, _files(target, selection), largest)

    def read(self, part: Part, selection: Selection, advance: Advance) -> Iterator[pa.RecordBatch]:
        """Yield rows of some files, or of a database."""
        with ExitStack() as stack:
            if isinstance(part, _DatabasePart):
                files: Iterable[TableFile] = _files(target_of(part.at, "consumequeue", stack), selection)
            else:
                assert isinstance(part, FilesPart)
                files = part.files_here
            yield from self._rows(files, selection, advance)

    def _rows(self, files: Iterable[TableFile], selection: Selection, advance: Advance) -> Iterator[pa.RecordBatch]:
        wanted = schema(self, selection.columns)
        for one in files:
            for found in units(one.file, _UNIT, 0, one.file.length, advance):
                for kind, chosen in _kinds(found):
                    batch = batch_of(_columns(one, kind, chosen), len(chosen.positions), selection, wanted)
                    if batch is not None:
                        yield batch


@dataclass(frozen=True, slots=True)
class _DatabasePart(Part):
    """The queues of a store that has them in RocksDB; its reader makes files of them."""

    at: StoreAt


def _files(target: Target, selection: Selection) -> Iterator[TableFile]:
    """Yield the files of the selected queues that can hold selected queue offsets."""
    for queue in target.queues:
        if selection.meets("topic", queue.topic) and selection.meets("queue_id", queue.queue_id):
            for file in queue.files:
                if selection.may_meet("queue_offset", file.start // _UNIT.itemsize, file.end // _UNIT.itemsize):
                    yield TableFile(file, target.name(file), file.allocated, queue.topic, queue.queue_id)


def _kinds(found: Units) -> Iterator[tuple[str, Units]]:
    """Yield units with their types; fillers come before all others."""
    blanks = found.fields == _PRE_BLANK
    edges = [0, *(np.flatnonzero(blanks[1:] != blanks[:-1]) + 1).tolist(), len(blanks)]
    for begin, end in pairwise(edges):
        yield "pre_blank" if blanks[begin] else "unit", Units(found.positions[begin:end], found.fields[begin:end])


def _columns(one: TableFile, kind: str, found: Units) -> dict[str, Value]:
    fields: dict[str, Value] = {name: found.fields[name] for name in _UNIT.names or ()}
    place: dict[str, Value] = {"type": kind, "topic": one.topic, "queue_id": one.queue_id, "file": one.name, "position": found.positions}
    return {**place, "queue_offset": (one.file.start + found.positions) // _UNIT.itemsize, **fields}


TABLE = ConsumeQueues()
