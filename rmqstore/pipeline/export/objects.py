"""An export to a URI: complete files are uploaded, and each finished piece is recorded by an object of its own.

Object stores show an object when it is complete. In other file systems a file is written under another name first, and renamed.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from rmqstore.errors import RefusedError
from rmqstore.pipeline.export.attempt import PieceDone
from rmqstore.pipeline.export.destination import SUCCESS, Destination
from rmqstore.pipeline.export.manifest import MANIFEST, json_line, line_of, piece_of, require_same
from rmqstore.pipeline.export.request import ExportRequest
from rmqstore.pipeline.filesystems import opened
from rmqstore.pipeline.logparts import LogPiece
from rmqstore.pipeline.sending import transferring, writing_object
from rmqstore.store.root import Store

if TYPE_CHECKING:
    pass

PIECES = "_pieces"
"""The directory of the records of finished pieces; names that begin with `_` are no data for Spark and others."""
_CONNECTIONS = 16
_CHOOSE = "Choose a URI with nothing below it, or that of an export that was stopped."


class ObjectDestination(Destination):
    """The objects below the URI `out`. Two exports of the same messages to it at one time write the same ones."""

    def __init__(self, out: str, store: Store, request: ExportRequest, pieces: Sequence[LogPiece]) -> None:
        super().__init__(store, request, pieces)
        self._out = out

    def _take(self) -> None:
        with transferring(self._out):
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
        with transferring(self._out):
            self._write(f"{PIECES}/{done.part:05d}.json", line_of(done))

    def _succeed(self) -> None:
        with transferring(self._out):
            self._write(SUCCESS, b"")

    def _names(self, below: str) -> list[str]:
        from pyarrow.fs import FileSelector

        selected = FileSelector(posixpath.join(self._base, below).rstrip("/"), allow_not_found=True)
        return sorted(info.base_name for info in self._system.get_file_info(selected))

    def _read(self, name: str) -> bytes:
        with self._system.open_input_stream(f"{self._base}/{name}") as stream:
            return bytes(stream.read())

    def _write(self, name: str, data: bytes) -> None:
        with writing_object(self._system, f"{self._base}/{name}") as stream:
            stream.write(data)
