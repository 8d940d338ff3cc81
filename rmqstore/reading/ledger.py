"""The entries of a DLedger log as they must be: numbers that count up, terms that never go back, and their units of the index.

Source: DLedger 0.3.1.2 `DLedgerMmapFileStore`; fact sheet commit log §8.4. No checksum covers an entry header, but each field except the
term follows from the record and the place of the entry.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rmqstore.formats.dledger import ENTRY_HEADER, ENTRY_HEADER_SIZE, ENTRY_MAGIC, INDEX_UNIT, INDEX_UNIT_SIZE
from rmqstore.scan.columns import integer_columns
from rmqstore.scan.walk import Batch
from rmqstore.store.mapped import MappedFileQueue
from rmqstore.store.window import read_at, read_if_file

LARGEST_TEXT = 4096
"""Bytes of `currterm` or `checkpoint` that are read."""
_NUMBER = re.compile(r"^(\w+)=(-?\d{1,19})$", re.MULTILINE)
HEADER_ROWS, UNIT_ROWS = integer_columns(ENTRY_HEADER), integer_columns(INDEX_UNIT)

Rows = npt.NDArray[np.void]
Numbers = npt.NDArray[np.int64]


@dataclass(slots=True)
class EntrySpan:
    """A range of entries: index and term of the first and the last one, and the physical offsets where they begin and end."""

    first_index: int
    first_term: int
    start: int
    last_index: int
    last_term: int
    end: int


@dataclass(frozen=True, slots=True)
class EntryRows:
    """Consecutive entries. `starts`: physical offsets of their headers; `headers`: those in the log (HEADER_ROWS); `wanted`: the fields
    that can be derived, as they must be; `breaks`: (row, number after the entry before) where entries without a gap do not continue.
    """

    starts: Numbers
    headers: Rows
    wanted: dict[str, Numbers]
    breaks: list[tuple[int, int]]

    @property
    def numbers(self) -> Numbers:
        """Return the numbers of the entries."""
        return self.wanted["index"]

    @property
    def terms(self) -> Numbers:
        """Return their terms."""
        return self.wanted["term"]

    def units(self) -> Rows:
        """Return their units of the index (UNIT_ROWS)."""
        units = np.empty(len(self.starts), UNIT_ROWS)
        for name in ("magic", "pos", "size", "index", "term"):
            units[name] = self.wanted[name]
        return units


class EntryChain:
    """The entries of a log, batch by batch in the order of the log. `span` is None before the first one."""

    def __init__(self) -> None:
        self.span: EntrySpan | None = None

    def follow(self, batch: Batch) -> EntryRows:
        """Return the entries of the next records, and advance `span`."""
        starts = batch.records["position"] - ENTRY_HEADER_SIZE
        bytes_of = (starts - batch.origin)[:, None] + np.arange(ENTRY_HEADER_SIZE)
        headers = np.ascontiguousarray(batch.window[bytes_of]).view(HEADER_ROWS)[:, 0]
        sizes = batch.records["size"].astype(np.int64)
        numbers, breaks = self._numbered(starts, headers, sizes)
        wanted = {
            "magic": np.full(len(starts), ENTRY_MAGIC),
            "size": sizes + ENTRY_HEADER_SIZE,
            "index": numbers,
            "term": _without_single(headers["term"].astype(np.int64), self.span),
            "pos": starts,
            "channel": np.zeros(len(starts), np.int64),
            "body_len": sizes,
        }
        rows = EntryRows(starts, headers, wanted, breaks)
        end = int(starts[-1] + ENTRY_HEADER_SIZE + sizes[-1])
        if self.span is None:
            self.span = EntrySpan(int(numbers[0]), int(rows.terms[0]), int(starts[0]), int(numbers[-1]), int(rows.terms[-1]), end)
        else:
            self.span.last_index, self.span.last_term, self.span.end = int(numbers[-1]), int(rows.terms[-1]), end
        return rows

    def _numbered(self, starts: Numbers, headers: Rows, sizes: Numbers) -> tuple[Numbers, list[tuple[int, int]]]:
        """Return the numbers that the entries must have, and (row, number after the one before) where entries in a row do not continue.

        Entries that follow each other without a gap count up; the majority of them decides where from, so a single wrong number is found.
        """
        follows = np.empty(len(starts), np.bool_)
        follows[1:] = starts[1:] == (starts + ENTRY_HEADER_SIZE + sizes)[:-1]
        follows[0] = False
        begins = np.flatnonzero(~follows).tolist()
        numbers = np.empty(len(starts), np.int64)
        for begin, end in zip(begins, [*begins[1:], len(starts)], strict=True):
            found = headers["index"][begin:end].astype(np.int64) - np.arange(end - begin)
            middle = np.partition(found, len(found) // 2)[len(found) // 2]
            numbers[begin:end] = middle + np.arange(end - begin)
        span = self.span
        continues = span is not None and span.end == starts[0]
        breaks = [(0, span.last_index + 1)] if span is not None and continues and numbers[0] != span.last_index + 1 else []
        return numbers, breaks


def _without_single(terms: Numbers, span: EntrySpan | None) -> Numbers:
    """Return the terms, each one that differs from two equal neighbours replaced by theirs, a first one that goes back by what follows."""
    if span is None and len(terms) > 2 and terms[0] > terms[1] == terms[2]:
        terms = np.concatenate([terms[1:2], terms[1:]])
    before = np.concatenate([[span.last_term if span is not None else terms[0]], terms[:-1]])
    after = np.concatenate([terms[1:], terms[-1:]])
    return np.where((before == after) & (terms != before), before, terms)


def unit_of(index: MappedFileQueue, number: int) -> np.void | None:
    """Return the unit of the index for a number, None where no file holds it. Raises UnreadableError, StoreChangedError."""
    place = number * INDEX_UNIT_SIZE
    file = index.find(place) if place >= 0 else None
    if file is None or file.end - place < INDEX_UNIT_SIZE:
        return None
    unit: np.void = np.frombuffer(read_at(file, place - file.start, INDEX_UNIT_SIZE), UNIT_ROWS)[0]
    return unit


def stored_numbers(path: Path) -> dict[str, int]:
    """Return the numbers in `currterm` or `checkpoint` by name, none without the file. Raises UnreadableError."""
    data = read_if_file(path, LARGEST_TEXT) or b""
    return {name: int(value) for name, value in _NUMBER.findall(data.decode("ascii", "replace"))}
