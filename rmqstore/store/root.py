"""A store on disk: its root, the parts below it, and the commit log directories wherever they are."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path

from rmqstore.formats import consumequeue, dledger
from rmqstore.store.brokerconf import ROCKSDB_STORE, BrokerConfig
from rmqstore.store.commitlogpaths import CommitLogDirectories, find_commit_log_directories
from rmqstore.store.ends import placed_by_records
from rmqstore.store.entries import Entry, statuses
from rmqstore.store.kinds.identify import identify_directory
from rmqstore.store.kinds.recognise import is_index_name, not_a_store, require_directory, tells_a_root
from rmqstore.store.links import PartLink, part_links
from rmqstore.store.mapped import MappedFile, MappedFileQueue, infer_file_size, list_directory, once, skipped
from rmqstore.store.obstacles import Obstacle, in_files, obstacles
from rmqstore.store.parts import Part, PartKind, list_parts, part_kind, relative_to_root
from rmqstore.store.queues import QueueDirectory, QueuePlace, Stray, directories, open_queues, single_queues, tree_queues, tree_strays
from rmqstore.store.rocksdb.databases import DatabaseUse, databases, had_database

__all__ = ["DLedgerLog", "IndexFile", "QueueDirectory", "Store", "Stray"]

_DLEDGER_PREFIX = "dledger-"


@dataclass(frozen=True, slots=True)
class IndexFile:
    """One file of `index/`; `named_right`: the name is the 17 digits a broker gives (yyyyMMddHHmmssSSS, local time)."""

    path: Path
    length: int
    allocated: int
    named_right: bool

    @property
    def mapped(self) -> MappedFile:
        """Return the file with its name as number. Raises ValueError if the name is not `named_right`."""
        return MappedFile(self.path, int(self.path.name), self.length, self.allocated)


@dataclass(frozen=True, slots=True)
class DLedgerLog:
    """The commit log of a DLedger group member: entries of 48 bytes header around each record (fact sheet commit log §8.4)."""

    directory: Path
    self_id: str
    data: MappedFileQueue
    index: MappedFileQueue


class Store:
    """A store opened for reading. Nothing is read before it is needed; every property lists directories once."""

    def __init__(self, root: Path, config: BrokerConfig, only: PartKind | None = None) -> None:
        self.root = root
        self.config = config
        self.only = only
        self._log_is_given = False
        self._given_queues: tuple[QueueDirectory, ...] | None = None

    @classmethod
    def open(cls, path: Path | str, *, broker_conf: Path | None = None, settings: Mapping[str, str] | None = None) -> Store:
        """Open the store at `path`: a storePathRootDir, or a copied directory of one part (then `only` names it).

        Raises UnreadableError, NotAStoreError, UsageError (a bad setting).
        """
        root = Path(path).absolute()
        config = BrokerConfig.load(broker_conf, settings, root=root)
        require_directory(root)
        entries = list_directory(root)
        if any(map(tells_a_root, entries)):
            return cls(root, config)
        only = identify_directory(root)
        if only is not None:
            return cls(root, config, only)
        if config.explicit("storePathCommitLog") is not None and cls(root, config).commitlog.files:
            return cls(root, config)
        raise not_a_store(root, entries)

    # Paths

    def covers(self, kind: PartKind) -> bool:
        """Return whether a part of this kind can be here: always in a whole store, only its own part in a copied directory."""
        return self.only in (None, kind)

    def path_of(self, kind: PartKind) -> Path:
        """Return the directory or file of a part, whether or not it exists."""
        return self.root if self.only is kind else self.root / kind.value

    def relative(self, path: Path) -> str:
        """Return `path` as in findings: relative to the root with `/`, absolute outside of the root."""
        return relative_to_root(path, self.root)

    @property
    def checkpoint_path(self) -> Path:
        """Return the `checkpoint` file, whether or not it exists."""
        return self.path_of(PartKind.CHECKPOINT)

    @property
    def abort_path(self) -> Path:
        """Return the `abort` file, whether or not it exists."""
        return self.path_of(PartKind.ABORT)

    @property
    def lock_path(self) -> Path:
        """Return the `lock` file, whether or not it exists."""
        return self.path_of(PartKind.LOCK)

    @property
    def config_path(self) -> Path:
        """Return the directory of the broker's JSON files, whether or not it exists."""
        return self.path_of(PartKind.CONFIG)

    @property
    def abort_present(self) -> bool:
        """Return whether `abort` exists: while a broker runs, and after it died."""
        return self.only is None and os.path.lexists(self.abort_path)

    # Commit log

    @cached_property
    def commitlog_directories(self) -> CommitLogDirectories:
        """Return the directories that together hold the commit log, and how they were found."""
        if self.only is not None:
            return CommitLogDirectories((self.root,) if self.only is PartKind.COMMITLOG else (), (), ())
        return find_commit_log_directories(self.root, self.config)

    def part_links(self) -> list[PartLink]:
        """Return the parts that are symbolic links to directories. Raises UnreadableError."""
        return [] if self.only is not None else list(part_links(self.root, self.config, self.commitlog_directories))

    def unnamed_links(self) -> list[PartLink]:
        """Return those whose target no setting names: only the link itself connects the directory with the store."""
        return [link for link in self.part_links() if link.named is None]

    @cached_property
    def commitlog(self) -> MappedFileQueue:
        """Return the files of all commit log directories as one queue. Empty on a pure DLedger store."""
        paths = [*self.commitlog_directories.writable, *self.commitlog_directories.read_only]
        default = BrokerConfig().integer("mappedFileSizeCommitLog")
        log = MappedFileQueue.scan(paths, configured_size=self.config.commit_log_file_size, expected_size=default)
        if self.config.commit_log_file_size is not None or log.is_even:
            return log
        # Some files have another length or a wrong name: their records outvote the names.
        return replace(log, file_size=infer_file_size(placed_by_records(log.files), default))

    def with_commitlog(self, files: MappedFileQueue) -> Store:
        """Return the same store with other commit log files, from any directory: a repair's view of the log that it is going to write."""
        store = self._with_given(self._given_queues)
        store.commitlog = files
        store._log_is_given = True
        return store

    def with_queues(self, queues: Iterable[QueueDirectory] | None) -> Store:
        """Return the same store with other file consume queues, by topic and queue id, from any directory; None: with its own again."""
        return self._with_given(None if queues is None else tuple(sorted(queues, key=lambda queue: (queue.topic, queue.queue_id))))

    def _with_given(self, queues: tuple[QueueDirectory, ...] | None) -> Store:
        store = Store(self.root, self.config, self.only)
        store._given_queues = queues
        if self._log_is_given:
            store.commitlog = self.commitlog
            store._log_is_given = True
        return store

    def reopened(self) -> Store:
        """Return the same store, its directories to be listed again; files of the log or of queues that it was given are kept."""
        given = self._log_is_given or self._given_queues is not None
        return self if given else Store(self.root, self.config, self.only)

    @cached_property
    def dledger(self) -> DLedgerLog | None:
        """Return the DLedger commit log of this store; None without one."""
        if self.only is PartKind.DLEDGER:
            return self._dledger(self.root if (self.root / "data").is_dir() else self.root.parent)
        members = {
            entry.name.removeprefix(_DLEDGER_PREFIX): Path(entry.path)
            for entry in directories(self.root)
            if entry.name.startswith(_DLEDGER_PREFIX)
        }
        if self.only is not None or not members:
            return None
        return self._dledger(members.get(self.config.text("dLegerSelfId")) or members[min(members)])

    def _dledger(self, directory: Path) -> DLedgerLog:
        data = self.root if self.only is PartKind.DLEDGER and directory != self.root else directory / "data"
        return DLedgerLog(
            directory,
            directory.name.removeprefix(_DLEDGER_PREFIX),
            MappedFileQueue.scan(data, configured_size=self.config.commit_log_file_size),
            MappedFileQueue.scan(directory / "index", expected_size=dledger.DEFAULT_INDEX_FILE_SIZE),
        )

    @cached_property
    def message_log(self) -> MappedFileQueue:
        """Return the files with the messages, by physical offset: those of the commit log, then those of DLedger."""
        if self.dledger is None:
            return self.commitlog
        data = self.dledger.data
        return replace(data, files=(*(file for file in self.commitlog.files if file.end <= data.min_offset), *data.files))

    def entry_header(self, file: MappedFile) -> int:
        """Return the bytes before every record of a file of `message_log`: those of a DLedger entry header, or 0."""
        return dledger.ENTRY_HEADER_SIZE if self.dledger is not None and file in self.dledger.data.files else 0

    # Queues

    def queue_directories(self, topic: str | None = None) -> Iterator[QueueDirectory]:
        """Yield the file consume queues, by topic and queue id; those of one topic alone are listed without the others."""
        if self._given_queues is not None:
            return (queue for queue in self._given_queues if topic in (None, queue.topic))
        return self._queues(PartKind.CONSUMEQUEUE, self.config.consume_queue_file_size, consumequeue.DEFAULT_FILE_SIZE, topic=topic)

    @property
    def queue_count(self) -> int:
        """Return the number of file consume queues, whose files are not listed for it."""
        return sum(1 for _ in self._places(PartKind.CONSUMEQUEUE, self.path_of(PartKind.CONSUMEQUEUE)))

    def first_queue_files(self, count: int) -> Iterator[MappedFileQueue]:
        """Yield the files of the first `count` file consume queues; the directories of other queues are not listed."""
        if self.covers(PartKind.CONSUMEQUEUE):
            places = self._places(PartKind.CONSUMEQUEUE, self.path_of(PartKind.CONSUMEQUEUE))
            yield from (queue.files for queue in open_queues(islice(places, count), None, None))

    def batch_queue_directories(self) -> Iterator[QueueDirectory]:
        """Yield the batch consume queues, by topic and queue id."""
        return self._queues_by_key(PartKind.BATCHCONSUMEQUEUE, "mapperFileSizeBatchConsumeQueue")

    def ext_queue_directories(self) -> Iterator[QueueDirectory]:
        """Yield the consume queue extensions, by topic and queue id."""
        return self._queues_by_key(PartKind.CONSUMEQUEUE_EXT, "mappedFileSizeConsumeQueueExt")

    def compaction_log_directories(self) -> Iterator[QueueDirectory]:
        """Yield the compacted message logs, by topic and queue id."""
        return self._queues(PartKind.COMPACTION, None, None, "compactionLog")

    def compaction_queue_directories(self) -> Iterator[QueueDirectory]:
        """Yield the sparse queues of the compacted logs, by topic and queue id; files are named after the log's files."""
        return self._queues(PartKind.COMPACTION, None, None, "compactionCq")

    def strays(self, kind: PartKind) -> Iterator[Stray]:
        """Yield entries of a queue tree (consumequeue, consumequeue_ext, batchconsumequeue) that are no topic and no queue."""
        if not self.covers(kind) or (self.only is kind and single_queues(self.root) is not None):
            return
        yield from tree_strays(self.path_of(kind), rocksdb=kind is PartKind.CONSUMEQUEUE and self.rocksdb_queues)

    @cached_property
    def rocksdb_queues(self) -> bool:
        """Return whether queues are in RocksDB: a database exists, or its remains, or one is configured and there is no file queue."""
        if self._given_queues is not None:
            return False
        configured = self.config.explicit("storeType") == ROCKSDB_STORE
        return any(map(had_database, self._rocksdb_places)) or (configured and next(self.queue_directories(), None) is None)

    @cached_property
    def has_only_rocksdb_queues(self) -> bool:
        """Return whether queues are in RocksDB, and none is in files."""
        return self.rocksdb_queues and next(self.queue_directories(), None) is None

    @cached_property
    def rocksdb_database(self) -> bool:
        """Return whether there is a RocksDB database of queues, whole or damaged, in `consumequeue` itself or beside it."""
        return next(databases(self, DatabaseUse.QUEUES), None) is not None

    @property
    def _rocksdb_places(self) -> list[Path]:
        places = (PartKind.CONSUMEQUEUE, PartKind.CONSUMEQUEUE_ROCKSDB)
        return [self.path_of(kind) for kind in places if self.covers(kind)]

    def _queues_by_key(self, kind: PartKind, key: str) -> Iterator[QueueDirectory]:
        return self._queues(kind, self.config.explicit_integer(key), BrokerConfig().integer(key))

    def _queues(
        self, kind: PartKind, configured: int | None, default: int | None, below: str | None = None, topic: str | None = None
    ) -> Iterator[QueueDirectory]:
        tree = self.path_of(kind) if below is None else self.path_of(kind) / below
        if not self.covers(kind):
            return
        key = (tree, self.only, configured, default, topic, skipped())
        yield from once(key, lambda: tuple(open_queues(self._places(kind, tree, topic), configured, default)))

    def _places(self, kind: PartKind, tree: Path, topic: str | None = None) -> Iterable[QueuePlace]:
        return (single_queues(self.root) if self.only is kind else None) or tree_queues(tree, topic)

    # Index, timer, the rest

    def index_files(self) -> list[IndexFile]:
        """Return the files of `index/` by name; entries that are no files are left out (see `index_obstacles`)."""
        result = []
        for entry, status in statuses(entry for entry in self._entries(PartKind.INDEX) if entry.is_file()):
            result.append(IndexFile(Path(entry.path), status.st_size, status.st_blocks * 512, is_index_name(entry.name)))
        return result

    def index_obstacles(self) -> Iterator[Obstacle]:
        """Yield entries of `index/` that are no files; a directory stops a 5.x broker from starting (fact sheet commit log §4.3)."""
        if self.covers(PartKind.INDEX):
            yield from in_files(self.path_of(PartKind.INDEX), named=is_index_name)

    def obstacles(self) -> Iterator[Obstacle]:
        """Yield the obstacles in a whole store. Raises UnreadableError."""
        if self.only is None:
            yield from obstacles(self.root, self.commitlog_directories, rocksdb=self.rocksdb_queues)

    @cached_property
    def timerlog(self) -> MappedFileQueue:
        """Return the files of the timer log."""
        key = "mappedFileSizeTimerLog"
        return MappedFileQueue.of_entries(
            self._entries(PartKind.TIMERLOG),
            configured_size=self.config.explicit_integer(key),
            expected_size=BrokerConfig().integer(key),
        )

    def timerwheel_paths(self) -> list[Path]:
        """Return the timer wheel and its snapshots, by name."""
        wheel = PartKind.TIMERWHEEL
        return [Path(entry.path) for entry in list_directory(self.root) if part_kind(entry.name) is wheel and entry.is_file()]

    def _entries(self, kind: PartKind) -> list[Entry]:
        return list_directory(self.path_of(kind)) if self.covers(kind) else []

    def parts(self) -> list[Part]:
        """Return every existing part, with sizes, known ones first, then what no broker knows. Walks all directories, reads no file."""
        directories = self.commitlog_directories
        return list_parts(self.root, [*directories.writable, *directories.read_only], self.only)
