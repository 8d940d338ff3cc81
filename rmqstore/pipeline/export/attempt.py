"""Files of one attempt at a piece: they are below the staging directory of the export until they are published."""

from __future__ import annotations

import io
import json
import os
import shutil
import uuid
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rmqstore.pipeline.publish import writing

if TYPE_CHECKING:
    from typing_extensions import Buffer

STAGING = ".staging"
"""The staging directory of attempts, below the directory of the export."""


@dataclass(frozen=True, slots=True)
class FileDone:
    """A file that is on the disk; `path` is relative to the directory of the attempt, and later to that of the export."""

    path: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class PieceDone:
    """The result of an attempt at a piece: its files below `attempt` (relative to the export), messages, and damage in the piece."""

    part: int
    attempt: str
    files: tuple[FileDone, ...]
    messages: int
    damaged_ranges: int
    damaged_bytes: int

    def pack(self) -> bytes:
        """Return the value as bytes; `unpack` reads them."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def unpack(cls, data: bytes) -> PieceDone:
        """Return the value of a packet."""
        values = json.loads(data)
        return cls(**{**values, "files": tuple(FileDone(**one) for one in values["files"])})


class Attempt:
    """The files of one attempt, while they are written. If the block ends with an error, they are all removed."""

    def __init__(self, out: Path, run: str, part: int, extension: str) -> None:
        """Create the attempt at the piece `part`, in a directory that no other attempt has."""
        self.name = f"{STAGING}/{run}/{part:05d}-{uuid.uuid4().hex}"
        self.done: list[FileDone] = []
        self._begun: list[AttemptFile] = []
        self._out = out
        self._directory = out / self.name
        self._stem = f"part-{part:05d}"
        self._extension = extension

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is not None:
            for file in self._begun:
                file.abandon()
            shutil.rmtree(self._directory, ignore_errors=True)

    def file(self, folder: str = "", number: int = 0) -> AttemptFile:
        """Return a new file of the piece in a folder of the export; `number` distinguishes further ones in the same folder."""
        name = f"{self._stem}{f'-{number}' if number else ''}.{self._extension}"
        path = f"{folder}/{name}" if folder else name
        file = AttemptFile(self._directory / path, path, self._out / path)
        self._begun.append(file)
        return file

    def finish(self, file: AttemptFile, rows: int) -> None:
        """Bring a file to the disk and count it; it holds `rows` messages and is complete. Raises NotWrittenError."""
        self.done.append(FileDone(file.path, rows, file.finish()))


class AttemptFile(io.RawIOBase):
    """A file that is written once, from its start to its end. Writes after it was abandoned are ignored without an error."""

    def __init__(self, place: Path, path: str, shown: Path) -> None:
        """Create the file at `place`; `path` is relative to the attempt's directory, `shown` is for messages. Raises NotWrittenError."""
        super().__init__()
        self.path = path
        self._shown = shown
        self._abandoned = False
        with writing(shown):
            place.parent.mkdir(parents=True, exist_ok=True)
            self._stream = place.open("wb")

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Buffer, /) -> int:
        """Write all of the data. Raises NotWrittenError."""
        if not self._abandoned:
            with writing(self._shown):
                self._stream.write(data)
        return memoryview(data).nbytes

    def finish(self) -> int:
        """Bring the file to the disk and return its size in bytes. Raises NotWrittenError."""
        with writing(self._shown):
            self._stream.flush()
            os.fsync(self._stream.fileno())
            size = self._stream.tell()
            self._stream.close()
        return size

    def abandon(self) -> None:
        """Abandon the file: writers that still hold it may finish without an error."""
        self._abandoned = True
        with suppress(OSError):
            self._stream.close()
