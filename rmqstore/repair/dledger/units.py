"""The index and the checkpoint of a DLedger log in agreement with its entries.

The index has one unit of 32 bytes for each entry, at 32 times its number; all of its files have the same length (fact sheet commit log
§8.4).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rmqstore.formats.dledger import DEFAULT_INDEX_FILE_SIZE, ENTRY_HEADER_SIZE, INDEX_UNIT_SIZE
from rmqstore.formats.naming import offset_to_file_name
from rmqstore.reading.ledger import LARGEST_TEXT, UNIT_ROWS, EntryChain, Rows, stored_numbers
from rmqstore.reading.zeros import end_of_nonzero
from rmqstore.repair.derived.requests import Planning
from rmqstore.repair.log.future import FutureLog
from rmqstore.scan.walk import LogScanner
from rmqstore.store.mapped import MappedFile
from rmqstore.store.root import DLedgerLog
from rmqstore.store.window import read_at, read_if_file

_CODE = "RMQ-DL-INDEX"
_REASON = "units of the index as the entries of the log have them"


def plan_units(planning: Planning, log: DLedgerLog, future: FutureLog, *, is_complete: bool) -> None:
    """Plan the index and the checkpoint for a future log. If the log `is_complete`, no unit after its last entry stays.

    Raises UnreadableError, StoreChangedError, OSError.
    """
    index = _Index(planning, log)
    last = -1
    for units, certain in _units_of(future):
        index.put(units, certain)
        last = int(units["index"][-1])
    index.finish(last if is_complete else None)
    if is_complete:
        _plan_checkpoint(planning, log, last)


def _units_of(future: FutureLog) -> Iterator[tuple[Rows, npt.NDArray[np.bool_]]]:
    """Yield ascending units of the entries whose headers fit, and which terms are certain: those of the entries on both sides."""
    chain = EntryChain()
    scanner = LogScanner(lead=ENTRY_HEADER_SIZE, windows=future.window)
    kept, before = np.empty(0, UNIT_ROWS), -1
    for file in future.files:
        for batch in scanner.batches(file):
            rows = chain.follow(batch)
            fits = rows.starts < future.end_offset
            for name, values in rows.wanted.items():
                fits &= rows.headers[name] == values
            units = np.concatenate([kept, rows.units()[fits]])
            if len(units) > 1:
                yield units[:-1], _certain(units["term"], before)[:-1]
                before = int(units["term"][-2])
            kept = units[-1:]
    if len(kept):
        yield kept, _certain(kept["term"], before)


def _certain(terms: npt.NDArray[np.int64], before: int) -> npt.NDArray[np.bool_]:
    """Return which terms are those of the entries on both sides, `before` being that of the one before the first."""
    return np.asarray((terms == np.append(before, terms[:-1])) & (terms == np.append(terms[1:], terms[-1:])))


@dataclass
class _New:
    """A new index file: the bytes to fill, and its name in the staging area."""

    name: str
    data: npt.NDArray[np.uint8]


class _Index:
    """The index while it is compared: units that differ are written, missing files are made."""

    def __init__(self, planning: Planning, log: DLedgerLog) -> None:
        self._builder = planning.builder
        self._staging = planning.staging
        self._directory = log.directory / "index"
        self._size = DEFAULT_INDEX_FILE_SIZE  # brokers never set another one
        self._good = {file.start: file for file in log.index.files if file.length == self._size}
        self._wrong = [*(file.path for file in log.index.files if file.length != self._size), *(entry.path for entry in log.index.odd)]
        self._new: _New | None = None

    def put(self, units: Rows, certain: npt.NDArray[np.bool_]) -> None:
        """Compare further units. One that has another term alone is right if that of the entry is not `certain`."""
        places = units["index"] * INDEX_UNIT_SIZE
        files = places // self._size * self._size
        for start in np.unique(files).tolist():
            rows = np.flatnonzero(files == start)
            file = self._good.get(start)
            if file is None:
                self._fill(start, places[rows] - start, units[rows])
            else:
                self._compare(file, places[rows] - start, units[rows], certain[rows])

    def _compare(self, file: MappedFile, places: npt.NDArray[np.int64], units: Rows, certain: npt.NDArray[np.bool_]) -> None:
        begin, end = int(places[0]), int(places[-1]) + INDEX_UNIT_SIZE
        found = np.frombuffer(read_at(file, begin, end - begin), UNIT_ROWS)[(places - begin) // INDEX_UNIT_SIZE]
        other = np.zeros(len(units), np.bool_)
        for name in ("magic", "pos", "size", "index"):
            other |= found[name] != units[name]
        differs = np.flatnonzero(other | ((found["term"] != units["term"]) & certain))
        if differs.size:
            breaks = np.flatnonzero((np.diff(places[differs]) != INDEX_UNIT_SIZE) | (np.diff(differs) != 1)) + 1
            for run in np.split(differs, breaks):
                self._builder.write(file.path, int(places[run[0]]), units[run].astype(UNIT_ROWS).tobytes(), reason=_REASON, code=_CODE)

    def _fill(self, start: int, places: npt.NDArray[np.int64], units: Rows) -> None:
        name = f"dledger-index/{offset_to_file_name(start)}"
        if self._new is None or self._new.name != name:
            self._close()
            self._new = _New(name, self._staging.open(name, self._size))
        rows = self._new.data.view(UNIT_ROWS)
        rows[places // INDEX_UNIT_SIZE] = units

    def _close(self) -> None:
        if self._new is not None:
            name, self._new = self._new.name, None
            path = self._directory / name.rpartition("/")[2]
            staged = self._staging.close(name)
            if path in self._wrong:
                self._wrong.remove(path)
            if path.exists():
                self._builder.replace(path, staged, reason=_REASON, code=_CODE)
            else:
                self._builder.create(path, staged, reason=_REASON, code=_CODE)

    def finish(self, last: int | None) -> None:
        """Clear what is after the unit of the `last` entry, None to leave it, and take away files that a member does not load."""
        self._close()
        for path in self._wrong:
            self._builder.quarantine(path, reason="a file of the index that a member does not load", code=_CODE)
        if last is None:
            return
        end = (last + 1) * INDEX_UNIT_SIZE
        for start, file in sorted(self._good.items()):
            if start >= end:
                self._builder.quarantine(file.path, reason="units of entries that the log does not have", code=_CODE)
            elif file.end > end:
                stop = end_of_nonzero(file, end - start)
                if stop > end - start:
                    self._builder.zero(
                        file.path, end - start, stop - (end - start), reason="units of entries that the log does not have", code=_CODE
                    )


def _plan_checkpoint(planning: Planning, log: DLedgerLog, last: int) -> None:
    """Plan the committed index of a log that ends before it; a member that starts ignores one that it cannot have."""
    path = log.directory / "checkpoint"
    if read_if_file(path, LARGEST_TEXT) is None:
        return
    committed = stored_numbers(path).get("committedIndex")
    if committed is None or committed > last:
        data = f"committedIndex={last}\nendIndex={last}\n".encode()
        planning.builder.replace(path, data, reason="no entry after the last one is committed", code="RMQ-DL-STATE")
