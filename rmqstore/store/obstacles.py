"""Obstacles in a store: entries that are no file or directory where one belongs, and names that no broker gives.

A link is judged by its target, because brokers follow it: one to a file is a file. The content of an entry is never opened.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rmqstore.store.commitlogpaths import CommitLogDirectories
from rmqstore.store.entries import Entry
from rmqstore.store.kinds.recognise import is_index_name
from rmqstore.store.mapped import list_directory, parse_offset_name
from rmqstore.store.parts import PartKind, part_kind
from rmqstore.store.queues import tree_queues, tree_strays
from rmqstore.store.rocksdb.databases import is_database_name

QUEUE_TREES = (PartKind.CONSUMEQUEUE, PartKind.CONSUMEQUEUE_EXT, PartKind.BATCHCONSUMEQUEUE)
ROOT_FILES = frozenset(
    {
        *(PartKind.ABORT, PartKind.ABORT_BACKUP, PartKind.LOCK, PartKind.EPOCH, PartKind.BROKER_IDENTITY, PartKind.TIMERWHEEL),
        PartKind.CHECKPOINT,
    }
)
"""Parts that are plain files; every other part is a directory."""
CONFIG_FILES = ("timercheck", "timermetrics")
POSITION_FILES = ("position-checkpoint", "position-checkpoint.bak")
"""The files that are directly in `compaction`."""
COMPACTION_TREES = ("compactionLog", "compactionCq")
"""The directories there, of topics, queue ids and files."""
_FILE, _DIRECTORY = "file", "directory"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """An obstacle: its path, what it is, and what belongs there (None: nothing)."""

    path: Path
    found: str
    wanted: str | None

    @property
    def reason(self) -> str:
        """Return why it is an obstacle."""
        belongs = "that no broker puts here" if self.wanted is None else f"where a {self.wanted} belongs"
        return f"{self.found} {belongs}"


def obstacles(root: Path, log: CommitLogDirectories, *, rocksdb: bool) -> Iterator[Obstacle]:
    """Yield the obstacles in the store at `root`, part by part; with `rocksdb`, `consumequeue` belongs to a database.

    Entries among the files of the commit log are foreign entries of that queue. Raises UnreadableError.
    """
    linked = set()
    for entry in list_directory(root):
        kind, path = part_kind(entry.name), Path(entry.path)
        if kind is None or kind is PartKind.OTHER or path in (*log.writable, *log.read_only):
            continue
        wanted = _FILE if kind in ROOT_FILES else _DIRECTORY
        found = kind_of(path)
        if found != wanted:
            yield Obstacle(path, found, wanted)
        elif entry.is_symlink():
            linked.add(kind)  # its content may belong to anything
    for part in (*QUEUE_TREES, PartKind.INDEX, PartKind.TIMERLOG, PartKind.CONFIG, PartKind.COMPACTION):
        if part not in linked:
            yield from _in_part(root / part, part, rocksdb=rocksdb)


def kind_of(path: Path) -> str:
    """Return the type of an entry, in a word or two, without opening it; a link to a file or directory counts as its target."""
    try:
        return _kind(path.stat().st_mode)
    except OSError:
        return "broken link" if path.is_symlink() else "entry that cannot be accessed"


def _kind(mode: int) -> str:
    kinds = {stat.S_IFREG: _FILE, stat.S_IFDIR: _DIRECTORY, stat.S_IFIFO: "named pipe", stat.S_IFSOCK: "socket"}
    return kinds.get(stat.S_IFMT(mode), "device")


def _in_part(directory: Path, part: PartKind, *, rocksdb: bool) -> Iterator[Obstacle]:
    if part in QUEUE_TREES:
        yield from _in_queues(directory, rocksdb=rocksdb and part is PartKind.CONSUMEQUEUE)
    elif part is PartKind.CONFIG:
        yield from _in_configuration(directory)
    elif part is PartKind.COMPACTION:
        places = (directory / name for name in POSITION_FILES)
        yield from (Obstacle(path, kind_of(path), _FILE) for path in places if os.path.lexists(path) and not path.is_file())
        yield from _in_compaction(directory)
    else:
        yield from in_files(directory, named=is_index_name if part is PartKind.INDEX else _is_offset)


def _in_compaction(directory: Path) -> Iterator[Obstacle]:
    """Yield obstacles among the files of compacted queues; other directories there are those of a replacement."""
    for tree in COMPACTION_TREES:
        for _, _, queue in tree_queues(directory / tree):
            found = in_files(queue, named=_is_offset)
            yield from (one for one in found if one.found != _DIRECTORY or one.wanted is not None)


def _in_queues(tree: Path, *, rocksdb: bool) -> Iterator[Obstacle]:
    entries = [Path(entry.path) for entry in list_directory(tree) if is_database_name(entry.name)] if rocksdb else []
    of_database = {path: found for path in entries if (found := kind_of(path)) != _FILE}
    yield from (Obstacle(path, found, _FILE) for path, found in of_database.items())
    for stray in tree_strays(tree, rocksdb=rocksdb):
        if stray.path.parent not in of_database:
            yield Obstacle(stray.path, kind_of(stray.path), None)
    for _, _, queue in tree_queues(tree):
        if Path(queue).parent not in of_database:
            yield from in_files(queue, named=_is_offset)


def in_files(directory: Path | str, *, named: Callable[[str], bool]) -> Iterator[Obstacle]:
    """Yield the entries of a directory that are no files; if a file can have the name (`named`), a file belongs there."""
    for entry in list_directory(directory):
        found = _kind_of_entry(entry)
        if found != _FILE:
            yield Obstacle(Path(entry.path), found, _FILE if named(entry.name) else None)


def _kind_of_entry(entry: Entry) -> str:
    try:
        return _kind(entry.stat().st_mode)
    except OSError:
        return kind_of(Path(entry.path))


def _is_offset(name: str) -> bool:
    return parse_offset_name(name) is not None


def _in_configuration(directory: Path) -> Iterator[Obstacle]:
    """Yield obstacles in `config`: directories are the databases of RocksDB, unless their name is that of a file."""
    for entry in list_directory(directory):
        found = kind_of(Path(entry.path))
        named = entry.name.removesuffix(".bak")
        is_file_name = named.endswith(".json") or named in CONFIG_FILES
        if found != _FILE and (found != _DIRECTORY or is_file_name):
            yield Obstacle(Path(entry.path), found, _FILE if is_file_name else None)
