"""Paths that a plan may change: those that belong to a store, and the phase in which each changes. All others are refused."""

from __future__ import annotations

import shlex
import stat
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from rmqstore.errors import RefusedError
from rmqstore.repair.files import beneath
from rmqstore.repair.plan.model import Phase
from rmqstore.store.mapped import parse_offset_name
from rmqstore.store.obstacles import COMPACTION_TREES, POSITION_FILES
from rmqstore.store.parts import PartKind, part_kind
from rmqstore.store.root import Store

TOOL_DIRECTORY = PartKind.TOOL.value
_COMPACTED_DEPTH = 5  # compaction, tree, topic, queue id, file
_DLEDGER_TREES = ("data", "index")
_RECENT = 1 << 12  # names: an action is looked at in one go, and all its names are

_PHASES: Mapping[PartKind, Phase] = {
    PartKind.CONSUMEQUEUE: Phase.QUEUES,
    PartKind.CONSUMEQUEUE_EXT: Phase.QUEUES,
    PartKind.BATCHCONSUMEQUEUE: Phase.QUEUES,
    PartKind.INDEX: Phase.INDEX,
    PartKind.TIMERLOG: Phase.TIMER,
    PartKind.TIMERWHEEL: Phase.TIMER,
    PartKind.ROCKSDBSTORE: Phase.TIMER,
    PartKind.COMMITLOG: Phase.COMMITLOG,
    PartKind.EPOCH: Phase.EPOCH,
    PartKind.CHECKPOINT: Phase.CHECKPOINT,
    PartKind.CONFIG: Phase.CONFIG,
    PartKind.LOCK: Phase.ABORT,  # only another entry in its place: the file itself is never removed
    PartKind.ABORT: Phase.ABORT,
    PartKind.ABORT_BACKUP: Phase.ABORT,
    PartKind.BROKER_IDENTITY: Phase.CONFIG,
}


_NOT_PLAIN = frozenset(("", ".", ".."))


class Places:
    """The paths of one store as plans spell them."""

    def __init__(self, store: Store) -> None:
        self.root = store.root
        directories = store.commitlog_directories
        self.log_directories = (*directories.writable, *directories.read_only)
        # Texts, because paths of many queues are compared with them.
        self._below_root = f"{self.root}/"
        self._log_texts = frozenset(map(str, self.log_directories))
        self._log_alone = tuple(f"{one}/" for one in self.log_directories if not self.root.is_relative_to(one))
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
        text = str(path)
        return "." if path == self.root else text.removeprefix(self._below_root)

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
        absolute = name.startswith("/")
        parts = name.removeprefix("/").split("/")
        if not _NOT_PLAIN.isdisjoint(parts) or "\0" in name:
            return None
        directory = (name if absolute else f"{self._below_root}{name}").rpartition("/")[0]
        # Whatever is below a directory of the log can be moved out of it; one that has the root below it has other files as well.
        below_log = directory in self._log_texts or f"{directory}/".startswith(self._log_alone)
        if absolute:
            return Phase.COMMITLOG if below_log and not f"{name}/".startswith(self._below_root) else None
        in_log = below_log and (len(parts) > 1 or parse_offset_name(name) is not None)
        kind = part_kind(parts[0])
        if kind is PartKind.COMPACTION:
            # The first name below it decides: a directory in the place of such a file is moved with its content.
            in_queue = len(parts) >= _COMPACTED_DEPTH and parts[1] in COMPACTION_TREES
            return Phase.CONFIG if in_queue or set(parts[1:2]) <= set(POSITION_FILES) else None
        if kind is PartKind.DLEDGER:
            return Phase.COMMITLOG if parts[1:] == ["checkpoint"] or (len(parts) > 2 and parts[1] in _DLEDGER_TREES) else None
        if kind is None or kind is PartKind.COMMITLOG:
            return Phase.COMMITLOG if in_log or (kind is PartKind.COMMITLOG and len(parts) > 1) else None
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
        return self.of_directory(path.parent) if status is None else status.st_dev

    def of_directory(self, directory: Path) -> int:
        """Return the number of the file system that a directory is on or would be on."""
        known = self._directories.get(directory)
        if known is None:
            known = self._directories[directory] = self.of(directory)
        return known
