"""Copies of files with their holes, modes and times: by reference where the file system shares blocks, else byte by byte."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np

from rmqstore.repair.files.writer import Writer
from rmqstore.repair.plan.model import Attributes
from rmqstore.repair.snapshot.earlier import EarlierCopy, identity
from rmqstore.store.window import descriptor_extents, open_read_only, read_descriptor_into

_PIECE = 4 << 20
_NO_LINK = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP)
"""Why a hard link is not possible, and a copy may be."""


class Copier:
    """A copier of regular files. `cloned`, `linked` and `copied` count files by the way they were copied, `bytes` those that were read.

    `shared` counts files taken from an earlier copy. `sources`: by target, the identity of a whole log file before it was copied;
    `digests`: by target, the SHA-256 of a file of the earlier copy, with the ctime (ns) of the target, which a later change changes.
    """

    def __init__(self, writer: Writer, *, link: bool = False, earlier: EarlierCopy | None = None) -> None:
        """`link`: make hard links to whole files instead. `earlier`: the copy whose files are taken where they are the same."""
        self._writer = writer
        self._link = link
        self._earlier = earlier
        self._buffer = np.empty(_PIECE, np.uint8)
        self.cloned = self.linked = self.copied = self.shared = self.bytes = 0
        self.sources: dict[Path, dict[str, int]] = {}
        self.digests: dict[Path, tuple[str, int]] = {}

    def copy(self, source: Path, target: Path, until: int | None = None, *, linkable: bool = False) -> None:
        """Copy a file to a free name; bytes from `until` on become a hole. `linkable`: brokers change no byte of the file any more.

        Raises UnreadableError, StoreChangedError, OSError.
        """
        if self._link and linkable and until is None:
            self._writer.link(source, target)
            self.linked += 1
            return
        if linkable and until is None and self._take_kept(source, target):
            return
        with open_read_only(source) as read:
            status = os.fstat(read)
            if linkable and until is None:
                self.sources[target] = identity(status)
            with self._writer.create(target) as made:
                if until is None and self._writer.clone(made, target, read):
                    self.cloned += 1
                else:
                    self._bytes(read, source, made, target, min(status.st_size, status.st_size if until is None else until))
                    self.copied += 1
                self._writer.truncate(made, target, status.st_size)
                self._writer.set_attributes(made, target, _attributes(status))
                self._writer.fsync(made, target)

    def _take_kept(self, source: Path, target: Path) -> bool:
        """Make the target of the file in the earlier copy, by reference or as a hard link, and return whether that was possible."""
        kept = self._earlier.same(source) if self._earlier is not None else None
        if kept is None:
            return False
        status = source.stat()
        try:
            if not self._clone_kept(kept.path, target):
                self._writer.link(kept.path, target)
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise
            return False  # another file system
        self.sources[target] = identity(status)
        self.digests[target] = kept.digest, os.lstat(target).st_ctime_ns
        self.shared += 1
        return True

    def _clone_kept(self, kept: Path, target: Path) -> bool:
        with open_read_only(kept) as read:
            with self._writer.create(target) as made:
                cloned = self._writer.clone(made, target, read)
                if cloned:
                    self._writer.set_attributes(made, target, _attributes(os.fstat(read)))
                    self._writer.fsync(made, target)
            if not cloned:
                self._writer.unlink(target)
            return cloned

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
