"""The job that exports a store: files of an attempt per piece of the log; its results name the complete attempts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rmqstore.pipeline.export.attempt import STAGING, Attempt, PieceDone
from rmqstore.pipeline.export.request import ExportRequest
from rmqstore.pipeline.filesystems import is_remote
from rmqstore.pipeline.job import MapOnly, Packet, Part, require_shared
from rmqstore.pipeline.logparts import LogPiece
from rmqstore.reading.progress import Advance


@dataclass(frozen=True, slots=True)
class ExportJob(MapOnly):
    """Pieces of a log that are to be exported below `out`, a URI or a directory that all workers share; `run` names this run."""

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
        assert isinstance(part, LogPiece)
        if is_remote(self.out):
            done = self._uploaded(part, advance)
        else:
            require_shared((Path(self.out) / STAGING).is_dir(), self.out)
            done = self._exported(part, Path(self.out), advance)
        yield Packet(f"{part.number:05d}", 0, done.pack())

    def _uploaded(self, piece: LogPiece, advance: Advance) -> PieceDone:
        """Return a piece whose files were written to a temporary directory, and are at their places below the URI."""
        from rmqstore.pipeline.sending import upload

        with TemporaryDirectory(prefix="rmqstore-export-") as made:
            done = self._exported(piece, Path(made), advance)
            upload(Path(made) / done.attempt, [file.path for file in done.files], self.out)
        return done

    def _exported(self, piece: LogPiece, out: Path, advance: Advance) -> PieceDone:
        from rmqstore.pipeline.export.piece import export_piece

        with Attempt(out, self.run, piece.number, str(self.request.format)) as attempt:
            return export_piece(piece, self.request, attempt, advance)
