"""Copies of files with their holes, modes and times: by reference where the file system shares blocks, else byte by byte."""

from __future__ import annotations

import errno
import os
from concurrent.futures import Executor
from pathlib import Path

from rmqstore.repair.files.writer import Writer
from rmqstore.repair.plan.model import Attributes
from rmqstore.repair.snapshot.digest import PIECE, FileDigest
from rmqstore.repair.snapshot.earlier import EarlierCopy, identity
from rmqstore.store.window import descriptor_extents, open_read_only, read_descriptor_into

_NO_LINK = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP)
"""Why a hard link is not possible, and a copy may be."""


class Copier:
    """A copier of regular files. `cloned`, `linked` and `copied` count files by the way they were copied, `bytes` those that were read.

    `shared` counts files taken from an earlier copy. `sources`: by target, the identity of a whole log file before it was copied;
    `digests`: by target, the SHA-256 of the bytes that were copied or are in the earlier copy, with the ctime (ns) of the target,
    which a later change changes.
    """

    def __init__(self, writer: Writer, pool: Executor, *, link: bool = False, earlier: EarlierCopy | None = None) -> None:
        """`pool`: computes digests, in one thread. `link`: make hard links to whole files instead. `earlier`: the copy whose files
        are taken where they are the same."""
        self._writer = writer
        self._pool = pool
        self._link = link
        self._earlier = earlier
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
            digest = None
            with self._writer.create(target) as made:
                end = status.st_size if until is None else min(until, status.st_size)
                if self._writer.clone(made, target, read):
                    self._writer.truncate(made, target, end)
                    self.cloned += 1
                else:
                    digest = self._bytes(read, source, made, target, end, status.st_size)
                    self.copied += 1
                self._writer.truncate(made, target, status.st_size)
                self._writer.set_attributes(made, target, _attributes(status))
                self._writer.fsync(made, target)
                if digest is not None:
                    self.digests[target] = digest, os.fstat(made).st_ctime_ns

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

    def _bytes(self, read: int, source: Path, made: int, target: Path, end: int, length: int) -> str:
        """Copy the bytes up to `end`, and return the SHA-256 of a file of `length` bytes with zeros after them."""
        digest = FileDigest(self._pool)
        for begin, stop in descriptor_extents(read, source, end):
            for at in range(begin, stop, PIECE):
                piece = digest.buffer(min(PIECE, stop - at))
                read_descriptor_into(read, source, at, piece)
                digest.add(at, piece)
                if piece.any():
                    self._writer.write(made, target, at, piece.data)
                self.bytes += piece.size
        return digest.finish(length)


def _attributes(status: os.stat_result) -> Attributes:
    """Return mode and time of a file; its owner for root, who alone can set it."""
    owner = (status.st_uid, status.st_gid) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    return Attributes(status.st_mode & 0o777, *owner, status.st_mtime_ns)
