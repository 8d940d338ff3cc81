"""Findings of bytes that belong at another place of the log: one for each run of records that agree on how far they are from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from rmqstore.errors import RmqstoreError
from rmqstore.findings import Finding
from rmqstore.formats.record import MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2
from rmqstore.store.mapped import MappedFile
from rmqstore.store.window import read_at
from rmqstore.verify.context import Context
from rmqstore.verify.log.runs import Run, joined, runs_of, runs_of_batch

_FEWEST = 2  # records that agree: a single one may have a damaged field
_READ_FIRST = 1 << 20  # bytes that are searched for the magic of a record before they are scanned
_MAGICS = [magic.to_bytes(4, "big") for magic in (MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2)]


def displaced_runs(file: MappedFile, records: npt.NDArray[np.void]) -> list[Run]:
    """Return the runs of records of a batch (RECORD_DTYPE) that belong at another place."""
    return [run for run, sound in runs_of_batch(file, records) if sound and run.shift and run.records >= _FEWEST]


def rows_of(runs: Iterable[Run], records: npt.NDArray[np.void], file: MappedFile) -> npt.NDArray[np.bool_]:
    """Return which records of a batch are in one of the runs."""
    found = np.zeros(len(records), np.bool_)
    for run in runs:
        begin = file.start + run.position
        found |= (records["position"] >= begin) & (records["position"] < begin + run.length)
    return found


def runs_inside(file: MappedFile, start: int, end: int) -> list[Run]:
    """Return the runs of displaced records in the bytes at physical offsets [start, end), which are no records in their place."""
    begin, length = start - file.start, end - start
    try:
        if length <= _READ_FIRST:
            data = read_at(file, begin, length)
            if not any(magic in data for magic in _MAGICS):
                return []
        return [run for run in runs_of(file, begin, begin + length) if run.shift]
    except RmqstoreError:
        return []  # the file changed since: its pass reports that


def findings_of(context: Context, runs: Iterable[Run]) -> Iterator[Finding]:
    """Yield a finding for each run."""
    for run in joined(runs):
        place = run.file.start + run.position
        records = f"{run.records} records have PHYSICALOFFSETs" if run.records > 1 else "1 record has a PHYSICALOFFSET"
        whole = run.position == 0 and 2 * run.length > run.file.length and run.start % run.file.length == 0
        what = f"this file holds {run.start}-{run.end}" if whole else f"these bytes belong at {run.start}-{run.end}"
        message = f"{what}: {records} of that place"
        yield context.log_finding("RMQ-CL-MOVED", message, place, run.length, expected=place, found=run.start)
