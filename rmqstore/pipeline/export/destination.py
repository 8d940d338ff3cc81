"""The place of an export: its owner, the pieces in it, and how the files of a piece get there.

Files come into a directory by renaming them when they are complete and on the disk, below a URI by uploading complete files, and a piece
is recorded when all its files are there. So an interrupted export leaves no half-written file that counts; a rerun continues with what is
not recorded, and replaces files that are there by the same ones.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from rmqstore.errors import RefusedError, UsageError
from rmqstore.pipeline.export.attempt import STAGING, PieceDone
from rmqstore.pipeline.export.manifest import MANIFEST, head_of, json_line, line_of, read_manifest, require_same
from rmqstore.pipeline.export.request import ExportRequest
from rmqstore.pipeline.logparts import LogPiece
from rmqstore.pipeline.publish import publish, write_whole, writing
from rmqstore.store.root import Store

SUCCESS = "_SUCCESS"
"""An empty file that exists when all pieces do."""
# Entries that are not the content of a user.
_NOTHING = {STAGING, "lost+found"}
_CHOOSE = "Choose a directory that is empty or does not exist, or one of an export that was stopped."


class Destination(ABC):
    """The place of an export, held for it as long as the block lasts."""

    def __init__(self, store: Store, request: ExportRequest, pieces: Sequence[LogPiece]) -> None:
        self._head = head_of(store, request, pieces)
        self._done: dict[int, PieceDone] = {}

    def __enter__(self) -> Self:
        """Begin or continue the export. Raises RefusedError, UsageError, UnreadableError, NotWrittenError."""
        self._take()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._leave()

    @property
    def done(self) -> Sequence[PieceDone]:
        """Return the finished pieces."""
        return list(self._done.values())

    def missing(self, pieces: Sequence[LogPiece]) -> list[LogPiece]:
        """Return the pieces that are not finished yet."""
        return [piece for piece in pieces if piece.number not in self._done]

    def publish(self, done: PieceDone) -> None:
        """Bring the files of a piece to their places, and record it. Raises NotWrittenError."""
        self._record(done)
        self._done[done.part] = done

    def finish(self) -> dict[str, Any]:
        """Mark the export as complete and return its sums. Raises NotWrittenError."""
        self._succeed()
        pieces = self._done.values()
        return {
            "pieces": len(pieces),
            "files": sum(len(one.files) for one in pieces),
            "messages": sum(one.messages for one in pieces),
            "bytes": sum(file.bytes for one in pieces for file in one.files),
            "damaged_ranges": sum(one.damaged_ranges for one in pieces),
            "damaged_bytes": sum(one.damaged_bytes for one in pieces),
        }

    @abstractmethod
    def _take(self) -> None:
        """Take the place, and read what is done there already."""

    @abstractmethod
    def _leave(self) -> None:
        """Release the place."""

    @abstractmethod
    def _record(self, done: PieceDone) -> None:
        """Bring the files of a piece to their places, and record it there."""

    @abstractmethod
    def _succeed(self) -> None:
        """Write SUCCESS."""


class DirectoryDestination(Destination):
    """The directory `out`, which no other export takes meanwhile."""

    def __init__(self, out: Path, store: Store, request: ExportRequest, pieces: Sequence[LogPiece]) -> None:
        super().__init__(store, request, pieces)
        self._out = out
        self._store = store
        self._manifest: IO[bytes] | None = None

    def _take(self) -> None:
        self._require_outside()
        if self._out.exists() and not self._out.is_dir():
            raise RefusedError(f"{self._out} is a file.", _CHOOSE)
        path = self._out / MANIFEST
        with writing(self._out):
            self._out.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                self._require_empty()
                write_whole(path, json_line(self._head))
            self._manifest = path.open("r+b")
            try:
                self._take_up(path, self._manifest)
            except BaseException:
                self._manifest.close()
                raise

    def _leave(self) -> None:
        shutil.rmtree(self._out / STAGING, ignore_errors=True)
        if self._manifest is not None:
            # A full disk leaves a truncated line.
            with suppress(OSError):
                self._manifest.close()

    def _record(self, done: PieceDone) -> None:
        for file in done.files:
            place = self._out / file.path
            with writing(place):
                place.parent.mkdir(parents=True, exist_ok=True)
                publish(self._out / done.attempt / file.path, place)
        self._write_down(line_of(done))
        shutil.rmtree(self._out / done.attempt, ignore_errors=True)

    def _succeed(self) -> None:
        write_whole(self._out / SUCCESS, b"")

    def _take_up(self, path: Path, manifest: IO[bytes]) -> None:
        try:
            fcntl.flock(manifest, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RefusedError(
                f"Another export into {self._out} is under way.", "Wait for its end, or choose another directory."
            ) from error
        head, done, length = read_manifest(path)
        require_same(self._out, head, self._head)
        manifest.truncate(length)
        manifest.seek(length)
        self._done = {one.part: one for one in done}
        shutil.rmtree(self._out / STAGING, ignore_errors=True)
        (self._out / STAGING).mkdir()

    def _write_down(self, line: bytes) -> None:
        assert self._manifest is not None
        with writing(self._out / MANIFEST):
            self._manifest.write(line)
            self._manifest.flush()
            os.fsync(self._manifest.fileno())

    def _require_outside(self) -> None:
        if self._out.resolve().is_relative_to(self._store.root.resolve()):
            raise UsageError(f"{self._out} is inside of the store.", "Choose a directory outside of it.")

    def _require_empty(self) -> None:
        found = sorted({entry.name for entry in self._out.iterdir()} - _NOTHING)
        if found:
            raise RefusedError(f"{self._out} contains other files ({found[0]}).", _CHOOSE)
