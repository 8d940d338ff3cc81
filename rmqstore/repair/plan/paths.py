"""Paths that a plan may change: those that belong to a store, and the phase in which each changes. All others are refused."""

from __future__ import annotations

import shlex
import stat
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath

from rmqstore.errors import RefusedError
from rmqstore.repair.files import beneath
from rmqstore.repair.plan.model import Phase
from rmqstore.store.mapped import parse_offset_name
from rmqstore.store.obstacles import COMPACTION_TREES, POSITION_FILES
from rmqstore.store.parts import PartKind, part_kind
from rmqstore.store.root import Store

TOOL_DIRECTORY = PartKind.TOOL.value
_COMPACTED_DEPTH = 5  # compaction, tree, topic, queue id, file
_RECENT = 1 << 8  # names: an action is looked at in one go, and all its names are

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
    PartKind.LOCK: Phase.ABORT,  # only another entry in its place: the file itself is never removed
    PartKind.ABORT: Phase.ABORT,
    PartKind.ABORT_BACKUP: Phase.ABORT,
    PartKind.BROKER_IDENTITY: Phase.CONFIG,
}


class Places:
    """The paths of one store as plans spell them."""

    def __init__(self, store: Store) -> None:
        self.root = store.root
        directories = store.commitlog_directories
        self.log_directories = (*directories.writable, *directories.read_only)
        self._log_alone = tuple(one for one in self.log_directories if not self.root.is_relative_to(one))
        self.outside = tuple(directory for directory in self.log_directories if not directory.is_relative_to(self.root))
        links = store.part_links()
        self.linked = {link.path: link.named for link in links if link.named is not None}
        self._unnamed = [link for link in links if link.named is None]
        self.at = lru_cache(_RECENT)(self.root.joinpath)
        self._phase = lru_cache(_RECENT)(self._phase_of)

    @property
    def tops(self) -> dict[Path, Path]:
        """The directories below which no link is followed, by the path under which plans use each."""
        # A link to a directory of the log that is named itself would show its files twice.
        linked = {path: named for path, named in self.linked.items() if named not in self.outside}
        return {self.root: self.root, **{outside: outside for outside in self.outside}, **linked}

    def refuse_unnamed_links(self) -> None:
        """Raise RefusedError if a part of the store is a link to a directory that no setting names."""
        for link in self._unnamed:
            raise RefusedError(
                f"{link.path} is a symbolic link to {link.target}, and no setting says that this directory belongs to the store.",
                f"If it does, add --set {shlex.quote(f'{link.setting}={link.target}')}, or name it in the file given with --broker-conf.",
            )

    def name(self, path: Path | str) -> str:
        """Return `path` (absolute, or relative to the root) as plans spell it. Raises ValueError for a path that may not change."""
        name = self.spell(self.root / path)
        if self._phase(name) is None:
            raise ValueError(f"{path} is not a place for a repair")
        return name

    def spell(self, path: Path) -> str:
        """Return an absolute path as plans spell it, also one that may not change."""
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else path.as_posix()

    def phase(self, name: str) -> Phase:
        """Return the phase in which a path changes. Raises RefusedError for a path that may not change."""
        phase = self._phase(name)
        if phase is None:
            raise RefusedError(f"The plan names {name!r}, which is not a part of the store that a repair changes.", "Make a new plan.")
        return phase

    def directory(self, name: str) -> Path:
        """Return the directory that `name` means: the root (`.`), or one above a path of a plan. Raises LinkError."""
        return self._no_link(self.at(name))

    def path(self, name: str) -> Path:
        """Return the file that `name` means. Raises RefusedError for a path that may not change, or is or is below a symbolic link."""
        self.phase(name)
        return self._no_link(self.at(name))

    def _no_link(self, path: Path) -> Path:
        status = beneath.status(path)
        if status is not None and stat.S_ISLNK(status.st_mode) and path not in self.linked and not beneath.is_leaving(path):
            raise beneath.LinkError(path)
        return path

    def _phase_of(self, name: str) -> Phase | None:
        plain = PurePosixPath(name)
        if plain.as_posix() != name or ".." in plain.parts or "\0" in name or not plain.parts:
            return None
        directory = self.at(name).parent
        # Whatever is below a directory of the log can be moved out of it; one that has the root below it has other files as well.
        below_log = directory in self.log_directories or any(one in directory.parents for one in self._log_alone)
        if plain.is_absolute():
            return Phase.COMMITLOG if below_log and not Path(name).is_relative_to(self.root) else None
        in_log = below_log and (directory != self.root or parse_offset_name(plain.name) is not None)
        kind = part_kind(plain.parts[0])
        if kind is PartKind.COMPACTION:
            # The first name below it decides: a directory in the place of such a file is moved with its content.
            in_queue = len(plain.parts) >= _COMPACTED_DEPTH and plain.parts[1] in COMPACTION_TREES
            return Phase.CONFIG if in_queue or set(plain.parts[1:2]) <= set(POSITION_FILES) else None
        if kind is None or kind is PartKind.COMMITLOG:
            return Phase.COMMITLOG if in_log or (kind is PartKind.COMMITLOG and len(plain.parts) > 1) else None
        return _PHASES.get(kind)


def device(path: Path) -> int:
    """Return the number of the file system that a path is on or would be on."""
    return Devices().of(path)


class Devices:
    """File systems of many paths while directories stay as they are: each directory is looked at once."""

    def __init__(self) -> None:
        self._directories: dict[Path, int] = {}

    def of(self, path: Path) -> int:
        """Return the number of the file system that a path is on or would be on."""
        status = beneath.status(path)
        return self._of_directory(path.parent) if status is None else status.st_dev

    def _of_directory(self, directory: Path) -> int:
        known = self._directories.get(directory)
        if known is None:
            known = self._directories[directory] = self.of(directory)
        return known
