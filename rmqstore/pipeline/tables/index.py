"""The table of index entries, read from the files of the index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from rmqstore.dump.fields import Fields
from rmqstore.dump.indexes import index_file
from rmqstore.formats import index
from rmqstore.pipeline.job import Part, StoreAt
from rmqstore.pipeline.tables.fileparts import FilesPart, TableFile, Value, batch_of, files_parts, row_type, target_of, units
from rmqstore.pipeline.tables.selection import Selection
from rmqstore.pipeline.tables.table import LARGEST_PART, Column, schema
from rmqstore.reading.progress import Advance
from rmqstore.store.mapped import MappedFile
from rmqstore.store.window import read_at

_ITEM = row_type(index.ITEM)
_HEADER = Fields(index.HEADER)


class IndexItems:
    """Entries by file, in the order in which they were written."""

    name = "index"
    summary = "Every entry of the index files."
    columns: tuple[Column, ...] = (
        Column("item", "bigint", "number of the entry in its file, from 1"),
        Column("key_hash", "int", "absolute Java hash of topic#key"),
        Column("physical_offset", "bigint", "physical offset of the record in the commit log"),
        Column("time_diff", "int", "seconds from the file's begin_timestamp to the STORETIMESTAMP of the record"),
        Column("prev_index", "int", "number of the next older entry with the same slot, 0 at the end of the chain"),
        Column("slot", "bigint", "the hash slot that the entry belongs to"),
        Column("store_timestamp", "bigint", "STORETIMESTAMP of the record by begin_timestamp and time_diff (ms)", is_time=True),
        Column("file", "string", "path of the file below the root of the store"),
        Column("position", "bigint", "position of the entry in the file, in bytes"),
    )
    selectable: tuple[str, ...] = ("item", "key_hash", "physical_offset", "time_diff", "prev_index", "slot", "store_timestamp", "position")

    def parts(self, at: StoreAt, selection: Selection, largest: int = LARGEST_PART) -> Sequence[Part]:
        """Return files that hold selected physical offsets by their headers, as brokers choose them."""
        target = target_of(at, self.name)
        files = (one for file in target.files for one in _pieces(file, target.name(file), selection, max(1, largest // _ITEM.itemsize)))
        return files_parts(at, files, largest, target.hash_slots)

    def read(self, part: Part, selection: Selection, advance: Advance) -> Iterator[pa.RecordBatch]:
        """Yield rows of some files. Raises UsageError if the number of hash slots cannot be determined from a file."""
        assert isinstance(part, FilesPart)
        wanted = schema(self, selection.columns)
        for one in part.files_here:
            head = next(index_file(one.file, lambda file: "", part.hash_slots, slots=False))
            slots = head.get("slots")
            if slots is None:
                continue
            first, behind = 1 + one.first_unit, max(head["index_count"], 1)
            stop = behind if one.units is None else min(behind, first + one.units)
            for found in units(one.file, _ITEM, index.item_position(first, slots), index.item_position(stop, slots), advance):
                columns: dict[str, Value] = {
                    "item": (found.positions - index.item_position(0, slots)) // _ITEM.itemsize,
                    "key_hash": found.fields["key_hash"],
                    "physical_offset": found.fields["phy_offset"],
                    "time_diff": found.fields["time_diff"],
                    "prev_index": found.fields["prev_index"],
                    "slot": found.fields["key_hash"].astype(np.int64) % slots,
                    "store_timestamp": head["begin_timestamp"] + found.fields["time_diff"].astype(np.int64) * 1000,
                    "file": one.name,
                    "position": found.positions,
                }
                batch = batch_of(columns, len(found.positions), selection, wanted)
                if batch is not None:
                    yield batch


def _pieces(file: MappedFile, name: str, selection: Selection, most: int) -> Iterator[TableFile]:
    """Yield the file in pieces of `most` entries, nothing if its header shows that it holds none of the selected offsets."""
    if file.length < _HEADER.size:
        yield TableFile(file, name, file.length)
        return
    header = _HEADER.read(read_at(file, 0, _HEADER.size))
    first, last = header["begin_phy_offset"], header["end_phy_offset"]
    if first <= last and not selection.may_meet("physical_offset", first, last):
        return
    count = max(1, min(header["index_count"] - 1, file.length // _ITEM.itemsize))
    for start in range(0, count, most):
        yield TableFile(file, name, min(most, count - start) * _ITEM.itemsize, first_unit=start, units=most)


TABLE = IndexItems()
