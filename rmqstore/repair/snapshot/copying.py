"""Copies of files with their holes, modes and times: by reference where the file system shares blocks, else byte by byte."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from rmqstore.repair.files.writer import Writer
from rmqstore.repair.plan.model import Attributes
from rmqstore.store.window import descriptor_extents, open_read_only, read_descriptor_into

_PIECE = 4 << 20


class Copier:
    """A copier of regular files. `cloned`, `linked` and `copied` count files by the way they were copied, `bytes` those that were read."""

    def __init__(self, writer: Writer, *, link: bool = False) -> None:
        """`link`: make hard links to whole files instead."""
        self._writer = writer
        self._link = link
        self._buffer = np.empty(_PIECE, np.uint8)
        self.cloned = self.linked = self.copied = self.bytes = 0

    def copy(self, source: Path, target: Path, until: int | None = None, *, linkable: bool = False) -> None:
        """Copy a file to a free name; bytes from `until` on become a hole. `linkable`: brokers change no byte of the file any more.

        Raises UnreadableError, StoreChangedError, OSError.
        """
        if self._link and linkable and until is None:
            self._writer.link(source, target)
            self.linked += 1
            return
        with open_read_only(source) as read:
            status = os.fstat(read)
            with self._writer.create(target) as made:
                if until is None and self._writer.clone(made, target, read):
                    self.cloned += 1
                else:
                    self._bytes(read, source, made, target, min(status.st_size, status.st_size if until is None else until))
                    self.copied += 1
                self._writer.truncate(made, target, status.st_size)
                self._writer.set_attributes(made, target, _attributes(status))
                self._writer.fsync(made, target)

    def _bytes(self, read: int, source: Path, made: int, target: Path, length: int) -> None:
        for begin, end in descriptor_extents(read, source, length):
            for at in range(begin, end, _PIECE):
                piece = self._buffer[: min(_PIECE, end - at)]
                read_descriptor_into(read, source, at, piece)
                if piece.any():
                    self._writer.write(made, target, at, piece.data)
                self.bytes += piece.size


def _attributes(status: os.stat_result) -> Attributes:
    """Return mode and time of a file; its owner for root, who alone can set it."""
    owner = (status.st_uid, status.st_gid) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    return Attributes(status.st_mode & 0o777, *owner, status.st_mtime_ns)
