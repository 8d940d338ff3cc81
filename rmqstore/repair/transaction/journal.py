"""The journal of a transaction: lines that are only ever appended. A line that was being written when the process died is ignored."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from rmqstore.repair.files import beneath
from rmqstore.repair.files.writer import Writer
from rmqstore.repair.plan.jsonvalues import from_json, to_json
from rmqstore.repair.plan.model import Attributes, Directory, FileStamp
from rmqstore.store.window import read_descriptor

_LARGEST_JOURNAL = 1 << 30


@dataclass(frozen=True, slots=True)
class Before:
    """The undo record of one action: the previous state. `size` and `attributes` None: there was no file.

    `undo` names the file in the folder of the transaction with the old bytes of the range, `holes` are the holes in and around it.
    `directories` are those the action can touch; without attributes: it did not exist. `placed` is the modification time in nanoseconds
    that a new file will have, by which it is recognised. `linked`: the file has other names, and a copy replaces it before it changes.
    `digest` is that of all bytes of a regular file that leaves its place.
    """

    action: int
    size: int | None
    attributes: Attributes | None
    undo: str | None = None
    holes: tuple[tuple[int, int], ...] = ()
    directories: tuple[Directory, ...] = ()
    placed: int | None = None
    linked: bool = False
    digest: str | None = None


@dataclass(frozen=True)
class Story:
    """Contents of a journal. `copying` are actions whose file was being copied to another file system, `files` is the store afterwards."""

    before: dict[int, Before] = field(default_factory=dict)
    copying: frozenset[int] = frozenset()
    prepared: bool = False
    files: dict[str, FileStamp] | None = None
    length: int = 0

    @property
    def applied(self) -> bool:
        """Whether everything was done."""
        return self.files is not None


@dataclass(frozen=True, slots=True)
class _Applied:
    files: dict[str, FileStamp]


class Journal:
    """A journal that is being written to."""

    def __init__(self, path: Path, descriptor: int, length: int, writer: Writer) -> None:
        self._path = path
        self._descriptor = descriptor
        self._length = length
        self._writer = writer

    @classmethod
    @contextmanager
    def open(cls, path: Path, writer: Writer, length: int) -> Iterator[Self]:
        """Open the journal at `path` with its first `length` bytes, all of them complete lines. Raises OSError.

        It is written again: after a stop it is not known how much of the old file reached the disk, even if it can be read.
        """
        lines = _read(path)[:length] if length else b""
        part = path.with_suffix(".part")
        if beneath.exists(part):
            writer.unlink(part)
        with writer.create(part) as descriptor:
            writer.write(descriptor, part, 0, lines)
            writer.fsync(descriptor, part)
            writer.rename(part, path)
            writer.fsync_directory(path.parent)
            yield cls(path, descriptor, len(lines), writer)

    def before(self, record: Before) -> None:
        """Append the undo record of an action; it is valid after `prepared`."""
        self._append("before", to_json(record))

    def prepared(self) -> None:
        """Record that all undo records exist: from now on the store may change. On the disk when this returns."""
        self._append("prepared", {})
        self.sync()

    def copying(self, action: int) -> None:
        """Record that the file of this action is going to be copied to its place. On the disk when this returns."""
        self._append("copying", {"action": action})
        self.sync()

    def applied(self, files: dict[str, FileStamp]) -> None:
        """Record that everything is done, and the files of the store. On the disk when this returns."""
        self._append("applied", to_json(_Applied(files)))
        self.sync()

    def sync(self) -> None:
        """Force every line to the disk."""
        self._writer.fsync(self._descriptor, self._path)

    def _append(self, event: str, values: dict[str, Any]) -> None:
        line = json.dumps({"event": event, **values}, separators=(",", ":")).encode("ascii") + b"\n"
        self._writer.write(self._descriptor, self._path, self._length, line)
        self._length += len(line)


def read_journal(path: Path) -> Story:
    """Return the contents of the journal at `path`, empty if there is none. Raises ValueError for impossible contents, UnreadableError."""
    before: dict[int, Before] = {}
    copying: set[int] = set()
    prepared = False
    files = None
    length = 0
    for line in _read(path).splitlines(keepends=True):
        values = _parsed(line)
        if values is None:
            break
        length += len(line)
        event = values.pop("event")
        if event == "before":
            record = from_json(Before, values)
            before[record.action] = record
        elif event == "copying":
            copying.add(values["action"])
        elif event == "prepared":
            prepared = True
        elif event == "applied":
            files = from_json(_Applied, values).files
        else:
            raise ValueError(f"{path} has an unknown event {event!r}")
    return Story(before, frozenset(copying), prepared, files, length)


def _read(path: Path) -> bytes:
    if not beneath.exists(path):
        return b""
    with beneath.reading(path) as descriptor:
        return read_descriptor(descriptor, path, 0, min(os.fstat(descriptor).st_size, _LARGEST_JOURNAL))


def _parsed(line: bytes) -> dict[str, Any] | None:
    """Return the values of a complete line, None for any other."""
    if not line.endswith(b"\n"):
        return None
    try:
        values = json.loads(line)
    except ValueError:
        return None
    return values if isinstance(values, dict) and isinstance(values.get("event"), str) else None
