"""An earlier copy of the same store, from which full log files are taken that did not change since.

A file is the same if inode, length and ctime are those that the manifest has of it: every write changes the ctime, which no program can
set.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmqstore.errors import UsageError
from rmqstore.store.parts import PartKind
from rmqstore.store.window import read_whole
from rmqstore.verify.parts.manifest import MANIFEST_SUFFIX

_LARGEST = 512 << 20


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A log file of an earlier copy, and its SHA-256."""

    path: Path
    digest: str


@dataclass(frozen=True, slots=True)
class EarlierCopy:
    """The files of an earlier copy by their paths in it, as its manifest has them."""

    directory: Path
    files: Mapping[str, Mapping[str, Any]]

    @classmethod
    def read(cls, manifest: Path) -> EarlierCopy:
        """Read a manifest, which is beside its copy. Raises UsageError, UnreadableError."""
        hint = "Name the DEST.manifest.json of an earlier snapshot of this store, beside DEST."
        name = manifest.name.removesuffix(MANIFEST_SUFFIX)
        directory = manifest.absolute().parent / name
        if name in ("", manifest.name) or not directory.is_dir():
            raise UsageError(f"{manifest} is not beside the copy that it describes.", hint)
        try:
            value = json.loads(read_whole(manifest, _LARGEST))
            files = {one["path"]: one for one in value["files"] if one.get("source") is not None}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise UsageError(f"{manifest} is no manifest of a snapshot.", hint) from error
        return cls(directory, files)

    def same(self, source: Path) -> KeptFile | None:
        """Return the file of the copy that has the bytes of a log file of the store, None without one."""
        name = f"{PartKind.COMMITLOG.value}/{source.name}"
        entry = self.files.get(name)
        if entry is None or entry.get("source") != identity(source.stat()):
            return None
        kept = self.directory / name
        try:
            status = os.lstat(kept)
        except OSError:
            return None
        known = (entry.get("size"), entry.get("mtime_ns"))
        if not stat.S_ISREG(status.st_mode) or (status.st_size, status.st_mtime_ns) != known or not isinstance(entry.get("sha256"), str):
            return None
        return KeptFile(kept, entry["sha256"])


def identity(status: os.stat_result) -> dict[str, int]:
    """Return what changes with every write to a file, for a manifest: inode, length in bytes and ctime in ns."""
    return {"inode": status.st_ino, "size": status.st_size, "ctime_ns": status.st_ctime_ns}
