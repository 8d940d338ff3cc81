"""A store as it lies on disk: its root, the parts below it, and the commit log directories wherever they are."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rmqstore.errors import NotAStoreError, UnreadableError
from rmqstore.store.brokerconf import BrokerConfig
from rmqstore.store.commitlogpaths import CommitLogDirectories, find_commit_log_directories
from rmqstore.store.mapped import MappedFileQueue, list_directory, parse_offset_name, unreadable
from rmqstore.store.parts import Part, PartKind, list_parts, part_kind
from rmqstore.store.window import read_whole

INDEX_NAME_LENGTH = 17
_DLEDGER_PREFIX = "dledger-"


@dataclass(frozen=True, slots=True)
class QueueDirectory:
    """One queue of one topic: its directory and its files."""

    topic: str
    queue_id: int
    files: MappedFileQueue
    directory: Path


@dataclass(frozen=True, slots=True)
class IndexFile:
    """One file of `index/`; `named_right` tells whether the name is the 17 digits a broker gives (yyyyMMddHHmmssSSS, local time)."""

    path: Path
    length: int
    allocated: int
    named_right: bool


@dataclass(frozen=True, slots=True)
class Stray:
    """An entry below a part that no broker puts there. `path` is absolute."""

    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class DLedgerLog:
    """The commit log of a DLedger group member: entries of 48 bytes header around each record (fact sheet commit log §8.4)."""

    directory: Path
    self_id: str
    data: MappedFileQueue
    index: MappedFileQueue
    checkpoint_text: str | None
    currterm_text: str | None


class Store:
    """A store opened for reading. Nothing is read before it is asked for; every property lists directories once."""

    def __init__(self, root: Path, config: BrokerConfig, only: PartKind | None = None) -> None:
        self.root = root
        self.config = config
        self.only = only

    @classmethod
    def open(cls, path: Path | str, *, broker_conf: Path | None = None, settings: Mapping[str, str] | None = None) -> Store:
        """Open the store at `path`: a storePathRootDir, or a copied directory of one part (then `only` says which).

        Raises UnreadableError, NotAStoreError, UsageError (a bad setting).
        """
        root = Path(os.path.abspath(path))
        config = BrokerConfig.load(broker_conf, settings, root=root)
        _demand_directory(root)
        names = {entry.name for entry in list_directory(root)}
        kinds = {part_kind(name) for name in names} - {None}
        if kinds - {PartKind.LOCK, PartKind.CONFIG}:
            return cls(root, config)
        only = _directory_kind(root)
        if only is not None:
            return cls(root, config, only)
        if config.explicit("storePathCommitLog") is not None and cls(root, config).commitlog.files:
            return cls(root, config)
        raise _not_a_store(root, names)

    # Where things lie

    def path_of(self, kind: PartKind) -> Path:
        """Directory or file of a part, whether or not it exists."""
        return self.root if self.only is kind else self.root / kind.value

    def relative(self, path: Path) -> str:
        """`path` as findings show it: relative to the root with `/`, absolute when it lies outside of the root."""
        try:
            return path.relative_to(self.root).as_posix()
        except ValueError:
            return path.as_posix()

    @property
    def checkpoint_path(self) -> Path:
        """The `checkpoint` file, whether or not it exists."""
        return self.path_of(PartKind.CHECKPOINT)

    @property
    def abort_path(self) -> Path:
        """The `abort` file, whether or not it exists."""
        return self.path_of(PartKind.ABORT)

    @property
    def lock_path(self) -> Path:
        """The `lock` file, whether or not it exists."""
        return self.path_of(PartKind.LOCK)

    @property
    def config_path(self) -> Path:
        """The directory of the broker's JSON files, whether or not it exists."""
        return self.path_of(PartKind.CONFIG)

    @property
    def abort_present(self) -> bool:
        """True while a broker runs, and after it died."""
        return os.path.lexists(self.abort_path)

    # Commit log

    @cached_property
    def commitlog_directories(self) -> CommitLogDirectories:
        """The directories that together hold the commit log, and how they were found."""
        if self.only is not None:
            return CommitLogDirectories((self.root,) if self.only is PartKind.COMMITLOG else (), (), ())
        return find_commit_log_directories(self.root, self.config)

    @cached_property
    def commitlog(self) -> MappedFileQueue:
        """The files of all commit log directories as one queue. Empty on a pure DLedger store."""
        paths = [*self.commitlog_directories.writable, *self.commitlog_directories.read_only]
        default = int(BrokerConfig().integer("mappedFileSizeCommitLog"))
        return MappedFileQueue.scan(paths, configured_size=self.config.commit_log_file_size, expected_size=default)

    @cached_property
    def dledger(self) -> DLedgerLog | None:
        """The DLedger commit log of this store; None when there is none."""
        directories = {
            entry.name.removeprefix(_DLEDGER_PREFIX): Path(entry.path)
            for entry in list_directory(self.root)
            if entry.name.startswith(_DLEDGER_PREFIX) and entry.is_dir()
        }
        if not directories:
            return None
        wanted = self.config.text("dLegerSelfId")
        self_id = wanted if wanted in directories else min(directories)
        directory = directories[self_id]
        size = self.config.commit_log_file_size
        return DLedgerLog(
            directory,
            self_id,
            MappedFileQueue.scan(directory / "data", configured_size=size),
            MappedFileQueue.scan(directory / "index"),
            _text_or_none(directory / "checkpoint"),
            _text_or_none(directory / "currterm"),
        )

    # Queues

    def queue_directories(self) -> Iterator[QueueDirectory]:
        """The file consume queues, by topic and queue id."""
        size = self.config.consume_queue_file_size
        return self._queues(PartKind.CONSUMEQUEUE, size, self.config.default_consume_queue_file_size)

    def batch_queue_directories(self) -> Iterator[QueueDirectory]:
        """The batch consume queues, by topic and queue id."""
        return self._queues_by_key(PartKind.BATCHCONSUMEQUEUE, "mapperFileSizeBatchConsumeQueue")

    def ext_queue_directories(self) -> Iterator[QueueDirectory]:
        """The consume queue extensions, by topic and queue id."""
        return self._queues_by_key(PartKind.CONSUMEQUEUE_EXT, "mappedFileSizeConsumeQueueExt")

    def compaction_log_directories(self) -> Iterator[QueueDirectory]:
        """The compacted message logs, by topic and queue id."""
        return self._queues(PartKind.COMPACTION, None, None, "compactionLog")

    def compaction_queue_directories(self) -> Iterator[QueueDirectory]:
        """The sparse queues of the compacted logs, by topic and queue id. Their names are those of the log files, not multiples of their length."""
        return self._queues(PartKind.COMPACTION, None, None, "compactionCq")

    def strays(self, kind: PartKind) -> Iterator[Stray]:
        """Entries of a queue tree (consumequeue, consumequeue_ext, batchconsumequeue) that are no topic and no queue."""
        for topic in list_directory(self.path_of(kind)):
            if not topic.is_dir():
                if not (kind is PartKind.CONSUMEQUEUE and self.rocksdb_queues):
                    yield Stray(Path(topic.path), "a file among topics")
                continue
            for queue in list_directory(Path(topic.path)):
                if not queue.is_dir():
                    yield Stray(Path(queue.path), "a file among queues")
                elif _queue_id(queue.name) is None:
                    yield Stray(Path(queue.path), "the directory name is no queue id")

    @cached_property
    def rocksdb_queues(self) -> bool:
        """True when queues are kept in RocksDB, in `consumequeue` itself or beside it."""
        return any((self.path_of(kind) / "CURRENT").exists() for kind in (PartKind.CONSUMEQUEUE, PartKind.CONSUMEQUEUE_ROCKSDB))

    def _queues_by_key(self, kind: PartKind, key: str) -> Iterator[QueueDirectory]:
        return self._queues(kind, self.config.explicit_integer(key), BrokerConfig().integer(key))

    def _queues(self, kind: PartKind, configured: int | None, default: int | None, below: str | None = None) -> Iterator[QueueDirectory]:
        tree = self.path_of(kind) if below is None else self.path_of(kind) / below
        listed: list[tuple[str, int, Path, list[os.DirEntry[str]]]] = []
        for topic in _directories(tree):
            numbered = ((_queue_id(queue.name), queue) for queue in _directories(Path(topic.path)))
            for queue_id, queue in sorted((found for found in numbered if found[0] is not None), key=lambda found: int(found[0] or 0)):
                listed.append((topic.name, int(queue_id or 0), Path(queue.path), list_directory(Path(queue.path))))
        # All queues of a store have files of one length, so queues with many files speak for those with a single odd one.
        expected = configured or _majority_length([entries for *_, entries in listed]) or default
        for topic_name, queue_id, directory, entries in listed:
            queue_files = MappedFileQueue.of_entries(entries, configured_size=expected)
            yield QueueDirectory(topic_name, int(queue_id or 0), queue_files, directory)

    # Index, timer, the rest

    def index_files(self) -> list[IndexFile]:
        """The files of `index/` by name; directories are left out (see `index_directories`)."""
        result = []
        for entry in list_directory(self.path_of(PartKind.INDEX)):
            if entry.is_file():
                status = entry.stat()
                named_right = len(entry.name) == INDEX_NAME_LENGTH and entry.name.isascii() and entry.name.isdigit()
                result.append(IndexFile(Path(entry.path), status.st_size, status.st_blocks * 512, named_right))
        return result

    def index_directories(self) -> list[Path]:
        """Directories inside `index/`, which stop a 5.x broker from starting (fact sheet commit log §4.3)."""
        return [Path(entry.path) for entry in _directories(self.path_of(PartKind.INDEX))]

    @cached_property
    def timerlog(self) -> MappedFileQueue:
        """The files of the timer log."""
        key = "mappedFileSizeTimerLog"
        configured = self.config.explicit_integer(key)
        return MappedFileQueue.scan(self.path_of(PartKind.TIMERLOG), configured_size=configured, expected_size=BrokerConfig().integer(key))

    def timerwheel_paths(self) -> list[Path]:
        """The timer wheel and its snapshots, by name."""
        wheel = PartKind.TIMERWHEEL
        return [Path(entry.path) for entry in list_directory(self.root) if part_kind(entry.name) is wheel and entry.is_file()]

    def parts(self) -> list[Part]:
        """Every part that exists, with sizes, known ones first, then what no broker knows. Walks all directories, reads no file."""
        return list_parts(self.root, self.commitlog_directories, self.only)


def _demand_directory(root: Path) -> None:
    try:
        status = os.stat(root)
    except OSError as error:
        raise unreadable(root, error) from error
    if not os.path.isdir(root):
        kind = "a file" if os.path.isfile(root) else "no directory"
        raise NotAStoreError(
            f"{root} is {kind}, not a store.", "Give the broker's storePathRootDir; for a single file there is `rmqstore dump FILE`."
        )
    if not status.st_mode:
        raise UnreadableError(f"{root} could not be read.", "Check the path.")


def _directory_kind(directory: Path) -> PartKind | None:
    """The part that a directory without its root is a copy of, by its name and by what lies in it."""
    from rmqstore.store.identify import identify_directory

    return identify_directory(directory)


def _not_a_store(root: Path, names: set[str]) -> NotAStoreError:
    if not names:
        return NotAStoreError(f"{root} is empty.", "Give the broker's storePathRootDir (default ~/store).")
    for name in sorted(names):
        child = root / name
        if child.is_dir() and any(part_kind(entry.name) is PartKind.COMMITLOG for entry in list_directory(child)):
            return NotAStoreError(f"{root} is not a store, but {name} in it looks like one.", f"Give {child}.")
    return NotAStoreError(
        f"{root} is not a store: no commitlog, consumequeue, index or other part of one lies in it.",
        "Give the broker's storePathRootDir, or with --broker-conf the broker.conf that names the commit log directories.",
    )


def _directories(directory: Path) -> Iterator[os.DirEntry[str]]:
    return (entry for entry in list_directory(directory) if entry.is_dir())


def _queue_id(name: str) -> int | None:
    return int(name) if name.isascii() and name.isdigit() and len(name) <= 10 else None


def _majority_length(queues: list[list[os.DirEntry[str]]]) -> int | None:
    lengths: Counter[int] = Counter()
    for entries in queues:
        for entry in entries:
            if parse_offset_name(entry.name) is not None and entry.is_file():
                lengths[entry.stat().st_size] += 1
    del lengths[0]
    # More of one length win; between equals the longer one, because copies and crashes cut files but never extend them.
    return max(lengths, key=lambda length: (lengths[length], length), default=None)


def _text_or_none(path: Path) -> str | None:
    return read_whole(path, 65536).decode("utf-8", "replace") if path.is_file() else None
