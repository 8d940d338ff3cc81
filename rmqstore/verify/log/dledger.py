"""The entries of a DLedger log, besides the records in them: their headers, their chain, the units of the index, term and checkpoint.

Source: DLedger 0.3.1.2; fact sheet commit log §8.4. A member that starts reads the last three data files, compares each entry with its unit
of the index, and continues from the first one that differs as if nothing followed in the index.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from rmqstore.findings import Finding
from rmqstore.formats.dledger import END_MAGIC, END_OF_FILE, ENTRY_HEADER, ENTRY_HEADER_SIZE, ENTRY_MAGIC, INDEX_UNIT_SIZE
from rmqstore.reading.ledger import UNIT_ROWS, EntryChain, EntrySpan, Numbers, Rows, stored_numbers
from rmqstore.reading.records import read_record
from rmqstore.scan.walk import Batch, Damage
from rmqstore.store.mapped import MappedFile, MappedFileQueue
from rmqstore.store.root import DLedgerLog
from rmqstore.store.window import read_at
from rmqstore.verify.context import Context
from rmqstore.verify.guard import limited

_COMPARED = ("pos", "size", "index", "term")


class Entries:
    """The entries of one data file, checked batch by batch with the records in them."""

    def __init__(self, context: Context, log: DLedgerLog, file: MappedFile) -> None:
        self._chain = EntryChain()
        self._context = context
        self._index = log.index
        self._file = file

    @property
    def span(self) -> EntrySpan | None:
        """Return the range of the entries so far, None before the first one."""
        return self._chain.span

    def check(self, batch: Batch) -> list[Finding]:
        """Return findings about the entries of the next records. Raises UnreadableError, StoreChangedError."""
        return list(limited(self._context, self._file.path, self._check(batch)))

    def _check(self, batch: Batch) -> Iterator[Finding]:
        before = None if self.span is None else self.span.last_term
        entries = self._chain.follow(batch)
        starts, numbers, terms = entries.starts, entries.numbers, entries.terms
        for name, values in entries.wanted.items():
            for row in np.flatnonzero(entries.headers[name] != values).tolist():
                yield self._of_field(name, int(starts[row]), int(values[row]), int(entries.headers[name][row]))
        for row, expected in entries.breaks:
            text = f"the entry has the number {numbers[row]}, and the one before it {expected - 1}"
            yield self._finding("RMQ-DL-ENTRY", text, int(starts[row]), expected, int(numbers[row]))
        first = int(terms[0]) if before is None else before
        for row in np.flatnonzero(np.diff(terms, prepend=first) < 0).tolist():
            earlier = int(terms[row - 1]) if row else first
            text = f"the term {terms[row]} follows {earlier}: terms never go back"
            yield self._finding("RMQ-DL-ENTRY", text, int(starts[row]), earlier, int(terms[row]))
        yield from self._against_index(numbers, entries.units())

    def of_damage(self, damage: Damage) -> Finding | None:
        """Return the finding on an entry whose record is whole, so that only its header makes it unreadable; None for other damage."""
        record = read_record(self._file, damage.start + ENTRY_HEADER_SIZE)
        if record is None or not record.body_crc_matches:
            return None
        end = damage.start + ENTRY_HEADER_SIZE + record.size
        if end != damage.end and (damage.resumed or not self._ends_at(end)):
            return None
        header = ENTRY_HEADER.parse(read_at(self._file, damage.start - self._file.start, ENTRY_HEADER_SIZE))
        wanted = {"magic": ENTRY_MAGIC, "size": record.size + ENTRY_HEADER_SIZE, "body_len": record.size, "pos": damage.start}
        wrong = [name for name, value in wanted.items() if header[name] != value]
        if not wrong:
            return None
        text = f"{', '.join(wrong)} of the entry header {'does' if len(wrong) == 1 else 'do'} not fit the entry, whose record is whole"
        return self._finding("RMQ-DL-ENTRY", text, damage.start, wanted[wrong[0]], int(header[wrong[0]]))

    def _ends_at(self, offset: int) -> bool:
        """Return whether the mark that ends the file is at a physical offset."""
        rest = self._file.end - offset
        mark = END_OF_FILE.build({"magic": END_MAGIC, "size": rest})
        return rest >= len(mark) and read_at(self._file, offset - self._file.start, len(mark)) == mark

    def _against_index(self, numbers: Numbers, wanted: Rows) -> Iterator[Finding]:
        """Yield runs of units of the index that are not those of their entries; units before the first index file have expired."""
        row = 0
        while row < len(numbers):
            place = int(numbers[row]) * INDEX_UNIT_SIZE
            file = self._index.find(place) if place >= 0 else None
            if file is None:
                following = next((file.start for file in self._index.files if file.start > place), None)
                if following is None:
                    yield self._of_index(int(numbers[row]), len(numbers) - row, "no file of the index holds them")
                    return
                count = min(_consecutive(numbers, row), -(-(following - place) // INDEX_UNIT_SIZE))
                if place >= self._index.min_offset:
                    yield self._of_index(int(numbers[row]), count, "no file of the index holds them")
                row += count
                continue
            count = min(_consecutive(numbers, row), (file.end - place) // INDEX_UNIT_SIZE)
            if count <= 0:
                return
            units = np.frombuffer(read_at(file, place - file.start, count * INDEX_UNIT_SIZE), UNIT_ROWS)
            differs = np.flatnonzero(units != wanted[row : row + count])
            for begin, end in _runs(differs):
                zero = not units[begin:end].tobytes().strip(b"\0")
                yield self._of_index(
                    int(numbers[row + begin]), end - begin, "never written" if zero else _difference(units[begin], wanted[row + begin])
                )
            row += count

    def _of_field(self, name: str, start: int, expected: int, found: int) -> Finding:
        return self._finding("RMQ-DL-ENTRY", f"{name} of the entry header does not fit the entry", start, expected, found)

    def _finding(self, code: str, text: str, start: int, expected: int, found: int) -> Finding:
        return self._context.log_finding(code, text, start, ENTRY_HEADER_SIZE, expected=expected, found=found)

    def _of_index(self, number: int, count: int, text: str) -> Finding:
        return _of_index(self._context, self._index, number, count, text)


def check(context: Context, log: DLedgerLog, spans: Sequence[EntrySpan]) -> Iterator[Finding]:
    """Yield findings about entries across data files, the end of the index, term and checkpoint. Raises UnreadableError."""
    for before, after in pairwise(spans):
        damaged = any(context.log.is_damaged(offset) for offset in (before.end, after.start - 1))
        if not damaged and after.first_index != before.last_index + 1:
            text = f"the first entry of this file has the number {after.first_index}, the last one before it {before.last_index}"
            yield context.log_finding(
                "RMQ-DL-ENTRY", text, after.start, ENTRY_HEADER_SIZE, expected=before.last_index + 1, found=after.first_index
            )
        if after.first_term < before.last_term:
            text = f"the term {after.first_term} follows {before.last_term}: terms never go back"
            yield context.log_finding(
                "RMQ-DL-ENTRY", text, after.start, ENTRY_HEADER_SIZE, expected=before.last_term, found=after.first_term
            )
    if spans:
        yield from _after_the_last(context, log, spans[-1])
        yield from _state(context, log, spans[-1])


def _after_the_last(context: Context, log: DLedgerLog, last: EntrySpan) -> Iterator[Finding]:
    place = (last.last_index + 1) * INDEX_UNIT_SIZE
    file = log.index.find(place)
    if file is None or file.end - place < INDEX_UNIT_SIZE:
        return
    unit = np.frombuffer(read_at(file, place - file.start, INDEX_UNIT_SIZE), UNIT_ROWS)[0]
    if unit["magic"] == ENTRY_MAGIC and unit["index"] == last.last_index + 1:
        yield _of_index(context, log.index, last.last_index + 1, 1, "the log has no entry of this number")


def _state(context: Context, log: DLedgerLog, last: EntrySpan) -> Iterator[Finding]:
    """Yield findings about `currterm` and `checkpoint`, which are text."""
    term = stored_numbers(log.directory / "currterm").get("currTerm")
    if term is not None and term < last.last_term:
        text = f"currTerm is {term}, and the last entry was written in term {last.last_term}"
        yield context.finding("RMQ-DL-STATE", text, file=log.directory / "currterm", expected=last.last_term, found=term)
    stored = stored_numbers(log.directory / "checkpoint")
    committed = stored.get("committedIndex")
    if committed is not None and committed > last.last_index:
        text = f"committedIndex is {committed}, and the log ends with entry {last.last_index}"
        yield context.finding("RMQ-DL-STATE", text, file=log.directory / "checkpoint", expected=last.last_index, found=committed)
    for path in (log.directory / "currterm", log.directory / "checkpoint"):
        if path.is_file() and not stored_numbers(path):
            yield context.finding("RMQ-DL-STATE", f"{path.name} has no number that a member writes", file=path)


def _of_index(context: Context, index: MappedFileQueue, number: int, count: int, text: str) -> Finding:
    place = number * INDEX_UNIT_SIZE
    file = index.find(place)
    units = "unit" if count == 1 else f"{count} units"
    return context.finding(
        "RMQ-DL-INDEX",
        f"{units} of the index from number {number} on: {text}",
        file=None if file is None else file.path,
        position=None if file is None else place - file.start,
        length=count * INDEX_UNIT_SIZE,
        found=number,
    )


def _difference(unit: np.void, wanted: np.void) -> str:
    names = [name for name in ("magic", *_COMPARED) if unit[name] != wanted[name]]
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} not of the entry"


def _consecutive(numbers: Numbers, row: int) -> int:
    """Return how many numbers from a row on count up by one."""
    breaks = np.flatnonzero(np.diff(numbers[row:]) != 1)
    return int(breaks[0]) + 1 if breaks.size else len(numbers) - row


def _runs(rows: npt.NDArray[np.intp]) -> Iterator[tuple[int, int]]:
    """Yield runs [begin, end) of ascending rows."""
    if rows.size:
        begins = np.flatnonzero(np.diff(rows, prepend=rows[0] - 2) != 1)
        ends = [*begins[1:].tolist(), rows.size]
        yield from ((int(rows[begin]), int(rows[end - 1]) + 1) for begin, end in zip(begins.tolist(), ends, strict=True))
