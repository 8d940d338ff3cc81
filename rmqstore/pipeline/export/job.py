"""The job that exports a store: files of an attempt per piece of the log; its results name the complete attempts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rmqstore.pipeline.export.attempt import STAGING, Attempt
from rmqstore.pipeline.export.request import ExportRequest
from rmqstore.pipeline.job import MapOnly, Packet, Part, require_shared
from rmqstore.pipeline.logparts import LogPiece
from rmqstore.reading.progress import Advance


@dataclass(frozen=True, slots=True)
class ExportJob(MapOnly):
    """Pieces of a log that are to be exported below `out`, a directory that all workers share; `run` names this run of the command."""

    pieces: Sequence[LogPiece]
    request: ExportRequest
    out: str
    run: str

    @property
    def title(self) -> str:
        """Return the work and its extent."""
        return f"export to {self.out}: {len(self.pieces):,} pieces of the log"

    @property
    def parts(self) -> Sequence[Part]:
        """Return the pieces that were not finished before."""
        return self.pieces

    def map(self, part: Part, advance: Advance) -> Iterator[Packet]:
        """Yield the result of a piece (PieceDone). Raises NotWrittenError, StoreChangedError, UnreadableError, RefusedError."""
        from rmqstore.pipeline.export.piece import export_piece

        assert isinstance(part, LogPiece)
        require_shared(Path(self.out) / STAGING, Path(self.out))
        with Attempt(Path(self.out), self.run, part.number, str(self.request.format)) as attempt:
            done = export_piece(part, self.request, attempt, advance)
        yield Packet(f"{part.number:05d}", 0, done.pack())
