"""An export to a URI: complete files are uploaded, and each finished piece is recorded by an object of its own.

Object stores show an object when it is complete. In other file systems a file is written under another name first, and renamed.
"""

from __future__ import annotations

import json
import posixpath
import shutil
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from rmqstore.errors import RefusedError
from rmqstore.pipeline.export.attempt import PieceDone
from rmqstore.pipeline.export.destination import SUCCESS, Destination
from rmqstore.pipeline.export.manifest import MANIFEST, json_line, line_of, piece_of, require_same
from rmqstore.pipeline.export.request import ExportRequest
from rmqstore.pipeline.fetching import cause_of, opened
from rmqstore.pipeline.logparts import LogPiece
from rmqstore.pipeline.publish import NotWrittenError
from rmqstore.store.root import Store

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

PIECES = "_pieces"
"""The directory of the records of finished pieces; names that begin with `_` are no data for Spark and others."""
_WHOLE_OBJECTS = frozenset({"s3", "gcs", "abfs"})
_BLOCK = 4 << 20
_CONNECTIONS = 16
_CHOOSE = "Choose a URI with nothing below it, or that of an export that was stopped."


class ObjectDestination(Destination):
    """The objects below the URI `out`. Two exports of the same messages to it at one time write the same ones."""

    def __init__(self, out: str, store: Store, request: ExportRequest, pieces: Sequence[LogPiece]) -> None:
        super().__init__(store, request, pieces)
        self._out = out

    def _take(self) -> None:
        with _transferring(self._out):
            self._system, self._base = opened(self._out)
            names = self._names("")
            if MANIFEST not in names:
                if names:
                    raise RefusedError(f"{self._out} contains other files ({names[0]}).", _CHOOSE)
                self._write(MANIFEST, json_line(self._head))
                return
            try:
                require_same(self._out, json.loads(self._read(MANIFEST)), self._head)
                with ThreadPoolExecutor(_CONNECTIONS) as pool:
                    records = list(pool.map(self._read, (f"{PIECES}/{name}" for name in self._names(PIECES))))
                done = [piece_of(json.loads(record)) for record in records]
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise RefusedError(f"{self._out}/{MANIFEST} is not the manifest of an export.", _CHOOSE) from error
            self._done = {one.part: one for one in done}

    def _leave(self) -> None:
        """Do nothing: it is not taken for others."""

    def _record(self, done: PieceDone) -> None:
        with _transferring(self._out):
            self._write(f"{PIECES}/{done.part:05d}.json", line_of(done))

    def _succeed(self) -> None:
        with _transferring(self._out):
            self._write(SUCCESS, b"")

    def _names(self, below: str) -> list[str]:
        from pyarrow.fs import FileSelector

        selected = FileSelector(posixpath.join(self._base, below).rstrip("/"), allow_not_found=True)
        return sorted(info.base_name for info in self._system.get_file_info(selected))

    def _read(self, name: str) -> bytes:
        with self._system.open_input_stream(f"{self._base}/{name}") as stream:
            return bytes(stream.read())

    def _write(self, name: str, data: bytes) -> None:
        with _writing(self._system, f"{self._base}/{name}") as stream:
            stream.write(data)


def upload(directory: Path, names: Sequence[str], out: str) -> None:
    """Copy complete files of a directory, by their paths in it, to their places below a URI. Raises NotWrittenError, UsageError."""
    with _transferring(out):
        system, base = opened(out)
        for name in names:
            with (directory / name).open("rb") as source, _writing(system, f"{base}/{name}") as stream:
                shutil.copyfileobj(source, stream, _BLOCK)


@contextmanager
def _writing(system: FileSystem, path: str) -> Iterator[BinaryIO]:
    """Yield a stream whose bytes are at `path` when the block ends without an error."""
    if system.type_name in _WHOLE_OBJECTS:
        with system.open_output_stream(path) as stream:
            yield stream
        return
    system.create_dir(posixpath.dirname(path), recursive=True)
    attempt = f"{posixpath.dirname(path)}/.{posixpath.basename(path)}.{uuid.uuid4().hex}"
    with system.open_output_stream(attempt) as stream:
        yield stream
    system.move(attempt, path)


@contextmanager
def _transferring(uri: str) -> Iterator[None]:
    """Translate errors of pyarrow's file systems to one sentence."""
    try:
        yield
    except (OSError, ImportError) as error:
        raise NotWrittenError(
            f"{uri} could not be written: {cause_of(error)}.", "Check the URI and the credentials, and run the command again."
        ) from error
