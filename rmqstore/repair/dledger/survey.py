"""Survey of the entries of a DLedger log: headers that can be written again, gaps, and where a member that starts stops reading.

Source: DLedger 0.3.1.2 `DLedgerMmapFileStore.recover`: a member accepts entries of magic 1 whose sizes agree and whose numbers and terms
continue; it does not look at the records in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from rmqstore.errors import RefusedError
from rmqstore.formats.dledger import END_MAGIC, END_OF_FILE, ENTRY_HEADER, ENTRY_HEADER_SIZE, ENTRY_MAGIC
from rmqstore.reading.ledger import EntryChain, EntryRows, unit_of
from rmqstore.reading.progress import Advance
from rmqstore.reading.records import read_record
from rmqstore.reading.recordtables import INVALID
from rmqstore.repair.log.edits import Edit
from rmqstore.repair.log.future import Patch
from rmqstore.scan.columns import Check, Fault, Stop
from rmqstore.scan.walk import Batch, Damage, FileEnd, LogScanner
from rmqstore.store.mapped import MappedFile
from rmqstore.store.root import DLedgerLog
from rmqstore.store.window import read_at

_CODE = "RMQ-DL-ENTRY"
_LEAST_END = 8  # bytes of the mark that ends a file


@dataclass(frozen=True, slots=True)
class Anchor:
    """An entry beside a gap: the physical offsets where it begins and ends, its number and its term."""

    begin: int
    end: int
    number: int
    term: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes [start, end) of one data file without valid entries. `after` is None at the end of the log; `closes`: up to the end of its
    file. `is_entry`: one entry whose header fits and whose record is damaged.
    """

    file: MappedFile
    start: int
    end: int
    before: Anchor | None
    after: Anchor | None = None
    closes: bool = False
    is_entry: bool = False


@dataclass
class Ledger:
    """Result of a survey. `edits`: headers and end marks that follow from the rest; `gaps`: the others; `breaks`: physical offsets at which
    a member that reads them stops. `last` is the last entry.
    """

    files: tuple[MappedFile, ...]
    file_size: int
    edits: list[Edit] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    breaks: list[int] = field(default_factory=list)
    last: Anchor | None = None


def survey(log: DLedgerLog, advance: Advance) -> Ledger:
    """Return the survey of a log. Raises RefusedError for files that a member does not load, UnreadableError, StoreChangedError."""
    files = log.data.files
    size = log.data.file_size or 0
    for file in files:
        if file.length != size:
            raise RefusedError(
                f"{file.path} has {file.length} bytes instead of {size}, so the member does not start.",
                "Stop another member of the group and copy that file from it; the bytes at one place are the same on all of them.",
            )
    for before, after in pairwise(files):
        if after.start != before.end:
            raise RefusedError(
                f"The data files between {before.path.name} and {after.path.name} are missing, so the member does not start.",
                "Stop another member of the group and copy them from it.",
            )
    walk = _Walk(log, Ledger(files, size), advance)
    for file in files:
        walk.read(file)
    walk.finish()
    return walk.ledger


class _Walk:
    def __init__(self, log: DLedgerLog, ledger: Ledger, advance: Advance) -> None:
        self.ledger = ledger
        self._index = log.index
        self._advance = advance
        self._chain = EntryChain()
        self._scanner = LogScanner(checks=Check.BODY_CRC | Check.PROPERTY_CRC, lead=ENTRY_HEADER_SIZE)
        self._open: list[Gap] = []  # gaps since the last entry
        self._fits = False  # the header of the last entry
        self._term_before = 0  # the term of the entry before the last one

    def read(self, file: MappedFile) -> None:
        """Survey the next file."""
        reached = file.start
        for event in self._scanner.scan(file):
            if isinstance(event, Batch):
                self._take(file, event)
                assert self._chain.span is not None
                self._advance(self._chain.span.end - reached)
                reached = self._chain.span.end
            elif isinstance(event, Damage):
                self._open.append(Gap(file, event.start, event.end, self.ledger.last, closes=not event.resumed))
            elif isinstance(event, FileEnd) and event.reason is not Stop.BLANK and (not self._open or self._open[-1].file is not file):
                self._open.append(Gap(file, event.position, event.position, self.ledger.last, closes=True))

    def finish(self) -> None:
        """Decide what is after the last entry."""
        for gap in self._open:
            if gap.end > gap.start:
                self.ledger.gaps += self._with_own_entries(gap)
        self._open.clear()

    def _take(self, file: MappedFile, batch: Batch) -> None:
        ledger = self.ledger
        rows = self._chain.follow(batch)
        if ledger.last is not None and rows.terms[0] < ledger.last.term:
            ledger.last = self._with_term_of_index(ledger.last, int(rows.terms[0]))
        ends = rows.starts + rows.wanted["size"]
        first = Anchor(int(rows.starts[0]), int(ends[0]), int(rows.numbers[0]), int(rows.terms[0]))
        self._close(first)
        differs = np.zeros(len(rows.starts), np.bool_)
        for name, values in rows.wanted.items():
            differs |= rows.headers[name] != values
        fits = ~differs
        if differs.any():
            self._correct(rows, differs, fits)
        before = first.term if ledger.last is None else ledger.last.term
        ledger.breaks += rows.starts[np.diff(rows.terms, prepend=before) < 0].tolist()
        ledger.breaks += [int(rows.starts[row]) for row, _ in rows.breaks]
        bad = (batch.records["faults"] & int(INVALID & ~Fault.PHYSICAL_OFFSET)) != 0
        bad |= batch.records["physical_offset"] != batch.records["position"]
        for row in np.flatnonzero(bad).tolist():
            number, term = int(rows.numbers[row]), int(rows.terms[row])
            begin, end = int(rows.starts[row]), int(ends[row])
            beside = Anchor(begin, begin, number - 1, term), Anchor(end, end, number + 1, term)
            ledger.gaps.append(Gap(file, begin, end, *beside, is_entry=True))
        self._term_before = int(rows.terms[-2]) if len(rows.terms) > 1 else before
        ledger.last = Anchor(int(rows.starts[-1]), int(ends[-1]), int(rows.numbers[-1]), int(rows.terms[-1]))
        self._fits = bool(fits[-1])

    def _with_term_of_index(self, last: Anchor, limit: int) -> Anchor:
        """Return the last entry, which has a later term than the next one, with the term of its index unit if that can be right."""
        holder = next(one for one in self.ledger.files if one.start <= last.begin < one.end)
        unit = unit_of(self._index, last.number)
        if unit is None or (int(unit["pos"]), int(unit["index"])) != (last.begin, last.number):
            return last
        term = int(unit["term"])
        if not self._term_before <= term <= limit:
            return last
        fields = ENTRY_HEADER.parse(read_at(holder, last.begin - holder.start, ENTRY_HEADER_SIZE))
        self._header(last.begin, {**fields, "term": term}, "term of the entry header as in the index: terms never go back")
        return replace(last, term=term)

    def _correct(self, rows: EntryRows, differs: np.ndarray, fits: np.ndarray) -> None:
        """Add the headers that are proven by their index unit, or by the headers on both sides; the others break the log."""
        before, after = np.append(self._fits, fits[:-1]), np.append(fits[1:], False)
        units = rows.units()
        for row in np.flatnonzero(differs).tolist():
            start = int(rows.starts[row])
            if (before[row] and after[row]) or unit_of(self._index, int(rows.numbers[row])) == units[row]:
                fields = {name: int(rows.headers[name][row]) for name in rows.headers.dtype.names or ()}
                wrong = [name for name, values in rows.wanted.items() if fields[name] != values[row]]
                fields |= {name: int(values[row]) for name, values in rows.wanted.items()}
                self._header(start, fields, f"{', '.join(wrong)} of the entry header as in the record, the index and the entries beside it")
                fits[row] = True
            else:
                self.ledger.breaks.append(start)

    def _header(self, start: int, fields: dict[str, int], reason: str) -> None:
        self.ledger.edits.append(Edit(Patch.write(start, ENTRY_HEADER.build(fields)), reason, _CODE))

    def _close(self, first: Anchor) -> None:
        """Decide about the gaps before the next entry."""
        for gap in self._open:
            closed = Gap(gap.file, gap.start, gap.file.end if gap.closes else gap.end, gap.before, first, gap.closes)
            self.ledger.gaps += self._with_own_entries(closed)
        self._open.clear()

    def _with_own_entries(self, gap: Gap) -> Iterator[Gap]:
        """Write the headers of valid records in a gap, and the mark that ends a file, where both follow from what is beside it.

        Yield what remains of the gap.
        """
        found = list(_records_in(gap))
        place = found[-1][1] if found else gap.start
        rest = gap.end - place
        mark = gap.closes and gap.after is not None and rest >= _LEAST_END
        numbers = self._numbers(gap, len(found)) if not rest or mark or gap.after is None else None
        terms = None if numbers is None else self._terms(gap, found, numbers)
        if numbers is None or terms is None:
            if gap.after is not None:
                self.ledger.breaks.append(gap.start)
            yield gap
            return
        for (begin, end), number, term in zip(found, numbers, terms, strict=True):
            fields = dict.fromkeys(("channel", "chain_crc", "body_crc"), 0)
            fields |= {"magic": ENTRY_MAGIC, "size": end - begin, "index": number, "term": term, "pos": begin}
            self._header(begin, fields | {"body_len": end - begin - ENTRY_HEADER_SIZE}, "the header of the entry that the record is in")
            if gap.after is None:
                self.ledger.last = Anchor(begin, end, number, term)
        if mark:
            data = END_OF_FILE.build({"magic": END_MAGIC, "size": rest})
            self.ledger.edits.append(Edit(Patch.write(place, data), "the mark that ends the file", _CODE))
            self.ledger.edits.append(Edit(Patch(place + len(data), gap.end), "zeros after the mark that ends the file", _CODE))
        elif rest:
            yield Gap(gap.file, place, gap.end, self.ledger.last, closes=gap.closes)

    @staticmethod
    def _numbers(gap: Gap, count: int) -> Sequence[int] | None:
        """Return the numbers of `count` entries that are all that is missing in a gap, None if they do not fit."""
        if gap.before is not None and gap.after is not None and gap.after.number - gap.before.number - 1 != count:
            return None
        if gap.before is None:
            return None if gap.after is None or gap.after.number < count else range(gap.after.number - count, gap.after.number)
        return range(gap.before.number + 1, gap.before.number + 1 + count)

    def _terms(self, gap: Gap, found: Sequence[tuple[int, int]], numbers: Sequence[int]) -> list[int] | None:
        """Return the terms of entries: those on both sides where they are the same, else those of the index; None if unknown."""
        before, after = gap.before, gap.after
        if before is not None and after is not None and before.term == after.term:
            return [after.term] * len(found)
        terms = []
        for (begin, end), number in zip(found, numbers, strict=True):
            unit = unit_of(self._index, number)
            if unit is None or (int(unit["magic"]), int(unit["pos"]), int(unit["size"])) != (ENTRY_MAGIC, begin, end - begin):
                return None
            terms.append(int(unit["term"]))
        steps = [*([] if before is None else [before.term]), *terms, *([] if after is None else [after.term])]
        return terms if steps == sorted(steps) else None


def _records_in(gap: Gap) -> Iterator[tuple[int, int]]:
    """Yield [begin, end) of the entries of valid records that follow each other from the start of a gap on."""
    place = gap.start
    while place + ENTRY_HEADER_SIZE < gap.end:
        record = read_record(gap.file, place + ENTRY_HEADER_SIZE)
        if record is None or not record.body_crc_matches or place + ENTRY_HEADER_SIZE + record.size > gap.end:
            return
        end = place + ENTRY_HEADER_SIZE + record.size
        yield place, end
        place = end
