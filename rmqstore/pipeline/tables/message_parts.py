"""The pieces of a log that can hold selected messages: by physical offset exactly, by store time with some tolerance.

The log is written in the order of time, except for steps of the clock; so a piece holds what was stored from its first record to the first
one of the next piece, and `CLOCK_TOLERANCE` on both sides.
"""

from __future__ import annotations

from dataclasses import replace

from rmqstore.dump.resync import next_record
from rmqstore.pipeline.job import StoreAt
from rmqstore.pipeline.logparts import LARGEST_PIECE, LogPiece, log_pieces
from rmqstore.pipeline.tables.selection import Selection
from rmqstore.reading.records import read_record

CLOCK_TOLERANCE = 10 * 60 * 1000
"""Milliseconds that the clock of a broker may have gone back while it wrote."""

PLACES = ("position", "physical_offset")
RUN_UP = 4 << 20
"""Bytes read before the first selected offset, to begin at a record that is certainly valid."""

_TIME = "store_timestamp"
_BEGINNING, _END = -(1 << 63), (1 << 63) - 1


def wanted_pieces(at: StoreAt, selection: Selection, *, largest: int = LARGEST_PIECE) -> list[LogPiece]:
    """Return the pieces to read, of about `largest` bytes, cut to the selected offsets, numbered from 0."""
    pieces = log_pieces(at, largest=largest)
    if _TIME in selection.conditions:
        pieces = _in_time(pieces, selection)
    for name in PLACES:
        pieces = [piece for piece in pieces if selection.may_meet(name, piece.start, piece.end - 1)]
        low, high = selection.first(name), selection.last(name)
        if low is not None:
            pieces = [_begun_late(piece, low) for piece in pieces]
        if high is not None:
            pieces = [_resized(piece, piece.start, min(piece.end, high + 1)) for piece in pieces]
    return [replace(piece, number=number) for number, piece in enumerate(pieces)]


def _in_time(pieces: list[LogPiece], selection: Selection) -> list[LogPiece]:
    times = [_first_time(piece) for piece in pieces]
    wanted = []
    for piece, begin, end in zip(pieces, times, [*times[1:], None], strict=True):
        first = _BEGINNING if begin is None else begin - CLOCK_TOLERANCE
        last = _END if end is None else end + CLOCK_TOLERANCE
        if selection.may_meet(_TIME, first, last):
            wanted.append(piece)
    return wanted


def _first_time(piece: LogPiece) -> int | None:
    """Return STORETIMESTAMP of the first record (ms), None if the piece does not begin with one."""
    record = read_record(piece.file, piece.start + piece.lead)
    return None if record is None else record.store_timestamp


def _begun_late(piece: LogPiece, low: int) -> LogPiece:
    """Return the piece without most of what begins before `low`."""
    if low - RUN_UP <= piece.start:
        return piece
    found = next_record(piece.file, low - RUN_UP - piece.file.start + piece.lead)
    start = piece.start if found is None else piece.file.start + found - piece.lead
    return _resized(piece, start, piece.end) if piece.start < start <= low else piece


def _resized(piece: LogPiece, start: int, end: int) -> LogPiece:
    return replace(piece, start=start, end=end, size=max(0, end - start))
