"""The table of timer log units, read from the files of the timer log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from rmqstore.dump.timers import timer_log
from rmqstore.pipeline.job import Part, StoreAt
from rmqstore.pipeline.tables.fileparts import FilesPart, TableFile, batches_of_rows, files_parts, target_of
from rmqstore.pipeline.tables.selection import Selection
from rmqstore.pipeline.tables.table import BATCH_ROWS, LARGEST_PART, Column, schema
from rmqstore.reading.progress import Advance


class TimerUnits:
    """Units in the order in which they were written. BLANKs are no rows."""

    name = "timer"
    summary = "Every unit of the timer log (releases from 5.0.0)."
    columns: tuple[Column, ...] = (
        Column("log_position", "bigint", "position of the unit in the timer log, in bytes"),
        Column("size", "int", "52"),
        Column("prev_pos", "bigint", "timer log offset of the previous unit of the same slot, -1 when there is none"),
        Column("magic", "int", "bits: 1 always, 2 rolled, 4 deletion"),
        Column("write_time", "bigint", "the broker's write time at that moment (ms)", is_time=True),
        Column("delay", "int", "time of the slot - write_time (ms)"),
        Column("offset_py", "bigint", "physical offset of the timer message in the commit log"),
        Column("size_py", "int", "TOTALSIZE of that record"),
        Column("topic_hash", "int", "Java hash of REAL_TOPIC, 0 without one"),
        Column("reserved", "bigint", "0"),
        Column("file", "string", "path of the file below the root of the store"),
        Column("position", "bigint", "position of the unit in the file, in bytes"),
    )
    selectable: tuple[str, ...] = ("log_position", "write_time", "delay", "offset_py", "topic_hash")

    def parts(self, at: StoreAt, selection: Selection, largest: int = LARGEST_PART) -> Sequence[Part]:
        """Return files that hold selected positions of the timer log."""
        target = target_of(at, "timerlog")
        files = (file for file in target.files if selection.may_meet("log_position", file.start, file.end))
        return files_parts(at, (TableFile(file, target.name(file), file.allocated) for file in files), largest)

    def read(self, part: Part, selection: Selection, advance: Advance) -> Iterator[pa.RecordBatch]:
        """Yield rows of some files."""
        assert isinstance(part, FilesPart)
        files = part.files_here
        names = {one.file.path: one.name for one in files}
        found = timer_log([one.file for one in files], lambda file: names[file.path])
        rows = (value for value in found if value["type"] == "timer_unit")
        yield from batches_of_rows(rows, selection, schema(self, selection.columns), BATCH_ROWS)
        advance(part.size)


TABLE = TimerUnits()
