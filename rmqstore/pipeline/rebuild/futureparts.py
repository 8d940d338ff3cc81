"""Pieces of a future log: its files, large ones cut at record boundaries; and the records of one piece.

A rebuild must not miss or invent a record, and bytes of a message can look like a record on purpose. So the reader of a piece continues
until it reaches the end of the piece exactly; if it never does, it reports that, and the file is read as a whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from rmqstore.errors import RmqstoreError
from rmqstore.pipeline.job import Part, StoreAt
from rmqstore.pipeline.logparts import record_cuts
from rmqstore.reading.progress import Advance
from rmqstore.rebuild import Settings
from rmqstore.repair.derived.rebuild import entry_header_of, records_of
from rmqstore.repair.log.future import FutureLog
from rmqstore.scan.walk import Batch, Damage, FileEnd, LogScanner
from rmqstore.versions import Profile


@dataclass(frozen=True, slots=True)
class FuturePiece(Part):
    """Records that begin in [start, end) of the log, all in the file with number `file`; `entry_header` bytes lead a record."""

    file: int
    start: int
    end: int
    entry_header: int


class MisalignedSplitError(RmqstoreError):
    """A piece of the file that `message` names ends where no record begins."""

    @classmethod
    def of(cls, piece: FuturePiece) -> MisalignedSplitError:
        """Return the error for a piece."""
        return cls(piece.name, "Read the file as a whole.")


@dataclass(frozen=True, slots=True)
class Source:
    """The records of a future log, piece by piece, and what is needed to build from them."""

    at: StoreAt
    log: FutureLog
    profile: Profile
    settings: Settings

    def pieces(self, largest: int, whole: Collection[str]) -> list[FuturePiece]:
        """Return pieces of about `largest` bytes in the order of the log; files whose path is in `whole` are not cut.

        Raises what opening the store and `entry_header_of` raise, UnreadableError, StoreChangedError.
        """
        store, log = self.at.open(), self.log
        header = entry_header_of(store, log)
        pieces: list[FuturePiece] = []
        for number, file in enumerate(log.files):
            if file.start >= log.end_offset:
                break
            path = str(file.path)
            # A file that will be longer than it is cannot be cut yet.
            cuts = [0, file.length] if path in whole or path in log.present else list(record_cuts(file, header, largest))
            cuts = [cut for cut in cuts[:-1] if file.start + cut < log.end_offset] + cuts[-1:]
            for start, end in pairwise(cuts):
                pieces.append(FuturePiece(len(pieces), path, end - start, number, file.start + start, file.start + end, header))
        return pieces

    def scanner(self, piece: FuturePiece, *, keys: bool) -> LogScanner:
        """Return a scanner for the file of a piece, independent of the number of other files. Raises what opening the store raises."""
        return records_of(self.at.open(), replace(self.log, files=(self.log.files[piece.file],)), keys=keys).scanner

    def batches(self, scanner: LogScanner, piece: FuturePiece, advance: Advance) -> Iterator[Batch]:
        """Yield the records of a piece that are no fillers; `advance` receives its bytes.

        Raises MisalignedSplitError if no record begins at the end of the piece, UnreadableError, StoreChangedError.
        """
        reached = piece.start
        for batch in self._batches(scanner, piece):
            position = int(batch.records["position"][-1])
            advance(position - reached)
            reached = position
            live = self.log.live(batch)
            if len(live.records):
                yield live
        advance(piece.end - reached)

    def _batches(self, scanner: LogScanner, piece: FuturePiece) -> Iterator[Batch]:
        file = self.log.files[piece.file]
        is_last = piece.end == file.end
        # Positions are those of records; boundaries are before the headers that lead them.
        end = piece.end + (0 if is_last else piece.entry_header)
        for event in scanner.scan(file, start=piece.start):
            if isinstance(event, Batch):
                batch = event.before(end)
                if len(batch.records):
                    yield batch
                if len(batch.records) < len(event.records):
                    if int(event.records["position"][len(batch.records)]) != end:
                        raise MisalignedSplitError.of(piece)
                    return
                last = event.records[-1]
                if not is_last and int(last["position"]) + int(last["size"]) == piece.end:
                    return
                if int(last["position"]) >= self.log.end_offset:
                    return
            elif not is_last:
                stopped = event.start if isinstance(event, Damage) else event.position
                if stopped == piece.end:
                    return
                if isinstance(event, FileEnd) or event.end > piece.end:
                    raise MisalignedSplitError.of(piece)
