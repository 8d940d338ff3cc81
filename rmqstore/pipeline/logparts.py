"""Pieces of commit logs: files, and large files cut at record boundaries; and the scan of one piece."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from rmqstore.dump.resync import next_record
from rmqstore.errors import UnreadableError
from rmqstore.pipeline.job import Part, StoreAt
from rmqstore.reading.progress import Advance
from rmqstore.scan.columns import Check
from rmqstore.scan.walk import Batch, Damage, LogScanner
from rmqstore.store.mapped import MappedFile

LARGEST_PIECE = 256 << 20
"""Bytes; a file of 1 GiB makes four pieces, so that processors are busy until the end."""


@dataclass(frozen=True, slots=True)
class LogPiece(Part):
    """Records that begin in [start, end) of the log, physical offsets of record boundaries, all in `file`.

    `lead` = bytes before every record of the file. Workers open this file alone: to list a log for each of its files would cost the square.
    """

    store: StoreAt
    file: MappedFile
    lead: int
    start: int
    end: int


def log_pieces(at: StoreAt, *, first_number: int = 0, largest: int = LARGEST_PIECE) -> list[LogPiece]:
    """Return the pieces of a log in the order of offsets, with the mark of the store.

    Raises what opening the store raises, UnreadableError, StoreChangedError.
    """
    at = at.marked()
    store = at.open()
    pieces: list[LogPiece] = []
    for file in store.message_log.files:
        lead, name = store.entry_header(file), store.relative(file.path)
        for start, end in pairwise(list(record_cuts(file, lead, largest))):
            number = first_number + len(pieces)
            pieces.append(LogPiece(number, name, end - start, at, file, lead, file.start + start, file.start + end))
    return pieces


def record_cuts(file: MappedFile, lead: int, largest: int) -> Iterator[int]:
    """Yield positions in the file: its start, record boundaries about `largest` bytes apart, its end."""
    position = 0
    yield position
    while position + largest < file.length:
        found = next_record(file, position + largest + lead)
        if found is None:
            break
        position = found - lead
        yield position
    if file.length > position:
        yield file.length


class PieceReader:
    """The records of one piece, in batches of columns."""

    def __init__(self, piece: LogPiece, checks: Check) -> None:
        """Raise what opening the store raises, UnreadableError if the file no longer exists."""
        self.store = piece.store.open()
        self._piece = piece
        self.file = piece.store.file_here(piece.file, piece.name)
        if not self.file.path.is_file():
            raise UnreadableError(f"{piece.name} no longer exists.", "Run the command again when nothing writes to the store.")
        self.scanner = LogScanner(checks=checks, delays=self.store.config.known_delay_levels, lead=piece.lead)
        self.damages: list[Damage] = []

    def batches(self, advance: Advance) -> Iterator[Batch]:
        """Yield batches in log order, each valid until the next one. `damages` gets ranges that begin in the piece and are no record."""
        piece = self._piece
        reached = piece.start
        for event in self.scanner.scan(self.file, start=piece.start):
            if isinstance(event, Batch):
                batch = event.before(piece.end)
                if len(batch.records):
                    last = batch.records[-1]
                    advance(int(last["position"]) + int(last["size"]) - reached)
                    reached = int(last["position"]) + int(last["size"])
                    yield batch
                if len(batch.records) < len(event.records) or reached >= piece.end:
                    break
            elif isinstance(event, Damage):
                if event.start >= piece.end:
                    break
                self.damages.append(event)
        advance(max(0, piece.end - reached))
