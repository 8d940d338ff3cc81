"""Where a plan may change something: which paths belong to a store, and in which phase they change. Whatever lies elsewhere is refused."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from rmqstore.errors import RefusedError
from rmqstore.repair.plan import Phase
from rmqstore.store.mapped import parse_offset_name
from rmqstore.store.parts import PartKind, part_kind
from rmqstore.store.root import Store

TOOL_DIRECTORY = PartKind.TOOL.value

_PHASES: Mapping[PartKind, Phase] = {
    PartKind.CONSUMEQUEUE: Phase.QUEUES,
    PartKind.CONSUMEQUEUE_EXT: Phase.QUEUES,
    PartKind.BATCHCONSUMEQUEUE: Phase.QUEUES,
    PartKind.INDEX: Phase.INDEX,
    PartKind.TIMERLOG: Phase.TIMER,
    PartKind.TIMERWHEEL: Phase.TIMER,
    PartKind.COMMITLOG: Phase.COMMITLOG,
    PartKind.EPOCH: Phase.EPOCH,
    PartKind.CHECKPOINT: Phase.CHECKPOINT,
    PartKind.CONFIG: Phase.CONFIG,
    PartKind.LOCK: Phase.ABORT,  # what lies in a directory of that name; the file itself stays for ever
    PartKind.ABORT: Phase.ABORT,
}


class Places:
    """The paths of one store as plans spell them."""

    def __init__(self, store: Store) -> None:
        self.root = store.root
        directories = store.commitlog_directories
        self.log_directories = (*directories.writable, *directories.read_only)
        self.outside = tuple(directory for directory in self.log_directories if not directory.is_relative_to(self.root))

    def name(self, path: Path | str) -> str:
        """`path` (absolute, or relative to the root) as plans spell it. Raises ValueError for what is no place to change."""
        name = self.spell(self.root / path)
        if self._phase(name) is None:
            raise ValueError(f"{path} is no place for a repair")
        return name

    def spell(self, path: Path) -> str:
        """An absolute path as plans spell it, place or not."""
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else path.as_posix()

    def phase(self, name: str) -> Phase:
        """The phase in which a path changes. Raises RefusedError for what is no place to change."""
        phase = self._phase(name)
        if phase is None:
            raise RefusedError(f"The plan names {name!r}, which is no part of the store that a repair changes.", "Make a new plan.")
        return phase

    def directory(self, name: str) -> Path:
        """The directory that `name` means: the root (`.`), or one above a path of a plan. Raises RefusedError as `path` does."""
        full = self.root / name
        below = full
        while below.is_relative_to(self.root) and below.parent != self.root and below != self.root:
            self._no_link(below)
            below = below.parent
        return full

    def path(self, name: str) -> Path:
        """The file that `name` means. Raises RefusedError for what is no place to change, or lies behind a symbolic link."""
        self.phase(name)
        full = self.root / name
        # The directories of the parts themselves may be links to other disks; whoever set up the store made them.
        part = full.parent if PurePosixPath(name).is_absolute() else self.root / PurePosixPath(name).parts[0]
        below = full
        while below not in (part, self.root):
            self._no_link(below)
            below = below.parent
        if part == full:
            self._no_link(full)
        return full

    @staticmethod
    def _no_link(path: Path) -> None:
        try:
            linked = stat.S_ISLNK(path.lstat().st_mode)
        except OSError:
            return
        if linked:
            raise RefusedError(f"{path} is a symbolic link, which a repair does not follow.", "Put the file itself there.")

    def _phase(self, name: str) -> Phase | None:
        plain = PurePosixPath(name)
        if plain.as_posix() != name or ".." in plain.parts or "\0" in name or not plain.parts:
            return None
        in_log = (self.root / name).parent in self.log_directories and parse_offset_name(plain.name) is not None
        if plain.is_absolute():
            return Phase.COMMITLOG if in_log and not Path(name).is_relative_to(self.root) else None
        kind = part_kind(plain.parts[0])
        if kind is PartKind.LOCK and len(plain.parts) == 1:
            return None
        if kind is None or kind is PartKind.COMMITLOG:
            return Phase.COMMITLOG if in_log or (kind is PartKind.COMMITLOG and len(plain.parts) > 1) else None
        return _PHASES.get(kind)


def device(path: Path) -> int:
    """The file system that a path lies on or would lie on."""
    while True:
        try:
            return os.lstat(path).st_dev if not path.is_symlink() else path.stat().st_dev
        except (FileNotFoundError, NotADirectoryError):
            path = path.parent
