"""The target of a dump: a root, a directory of a part, one queue, or a single file, and the requested part of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from rmqstore.dump.queues import QueueFiles
from rmqstore.dump.request import Filters
from rmqstore.errors import NotAStoreError, RefusedError, UsageError
from rmqstore.formats.tiered_names import base_offset_of
from rmqstore.store.access import Denied, denied_below, is_denied
from rmqstore.store.brokerconf import BrokerConfig
from rmqstore.store.kinds.identify import FileKind, has_name_of_store, identify, kind_by_name
from rmqstore.store.liveness import lock_holder
from rmqstore.store.mapped import MappedFile, MappedFileQueue, list_directory, parse_offset_name, skipping_denied, unreadable
from rmqstore.store.parts import PartKind
from rmqstore.store.queues import open_queues, tree_queues
from rmqstore.store.rocksdb.databases import LOCK, Database, database_in, databases, use_of
from rmqstore.store.root import QueueDirectory, Store

PARTS: Mapping[str, FileKind] = {
    kind.value: kind
    for kind in (
        FileKind.COMMITLOG,
        FileKind.CONSUMEQUEUE,
        FileKind.CONSUMEQUEUE_EXT,
        FileKind.BATCHCONSUMEQUEUE,
        FileKind.INDEX,
        FileKind.CHECKPOINT,
        FileKind.ABORT,
        FileKind.LOCK,
        FileKind.TIMERWHEEL,
        FileKind.TIMERLOG,
        FileKind.TIMERCHECK,
        FileKind.EPOCH,
        FileKind.DLEDGER,
        FileKind.DLEDGER_INDEX,
        FileKind.COMPACTION,
        FileKind.COMPACTION_LOG,
        FileKind.COMPACTION_QUEUE,
        FileKind.TIERED_INDEX,
        FileKind.PROPERTIES,
        FileKind.JSON,
        FileKind.ROCKSDB,
    )
}
"""Parts that `--part` can name."""

QUEUE_KINDS = {
    FileKind.CONSUMEQUEUE,
    FileKind.CONSUMEQUEUE_EXT,
    FileKind.BATCHCONSUMEQUEUE,
    FileKind.COMPACTION_LOG,
    FileKind.COMPACTION_QUEUE,
}
_DIRECTORY_OF = {
    **{kind: kind.value for kind in (FileKind.CONSUMEQUEUE, FileKind.CONSUMEQUEUE_EXT, FileKind.BATCHCONSUMEQUEUE)},
    **dict.fromkeys((FileKind.COMPACTION, FileKind.COMPACTION_LOG, FileKind.COMPACTION_QUEUE), "compaction"),
    **dict.fromkeys((FileKind.JSON, FileKind.TIMERCHECK), "config"),
    FileKind.INDEX: "index",
    FileKind.TIMERLOG: "timerlog",
    FileKind.TIERED_INDEX: "tiered_index_file",
}
_COMPACTION_TREES = {"compactionLog": FileKind.COMPACTION_LOG, "compactionCq": FileKind.COMPACTION_QUEUE}
_NAME_DIRECTORY = "Name the directory of the database."


@dataclass(frozen=True, slots=True)
class Target:
    """Files to dump: `queues` for the parts that consist of queues, `files` for all others, in order. `name` returns the name of a file.

    `places`: the files and directories that it consists of. `denied`: those without read permission, if the others were requested.
    `database`: the name of the RocksDB database that has the queues, where no files were made of them; `queues` is empty then.
    `databases`: those whose entries are dumped, with their names.
    """

    kind: FileKind
    files: tuple[MappedFile, ...]
    queues: tuple[QueueFiles, ...]
    name: Callable[[MappedFile], str]
    delay_levels: tuple[int, ...]
    hash_slots: int | None
    places: tuple[Path, ...]
    denied: tuple[Denied, ...] = ()
    database: str | None = None
    databases: tuple[tuple[str, Database], ...] = ()

    def last_files(self, count: int) -> Target:
        """Return the last `count` files alone."""
        queues: list[QueueFiles] = []
        left = count
        for queue in reversed(self.queues):
            if left > 0:
                queues.append(replace(queue, files=queue.files[-left:]))
                left -= len(queue.files)
        return replace(self, files=self.files[-count:], queues=tuple(reversed(queues)))


def find_readable_target(
    path: Path, part: str | None, broker_conf: Path | None, settings: Mapping[str, str], filters: Filters, stack: ExitStack
) -> Target:
    """Return the readable files of the store or directory at `path`, and those without read permission.

    A file of a log without read permission stays in it, so that it does not count as missing. `stack`, and raises, as `find_target`.
    """
    if is_denied(path) or not path.is_dir():
        return find_target(path, part, broker_conf, settings, filters, stack)
    with skipping_denied():
        target = find_target(path, part, broker_conf, settings, filters, stack)
    places = [_narrowed(place, target.kind, filters.topic) for place in target.places]
    denied = [one for one in denied_below(path.absolute(), places) if _concerns(target, filters, one.path)]
    return replace(target, denied=tuple(denied))


def _narrowed(place: Path, kind: FileKind, topic: str | None) -> Path:
    """Return the directory of a topic where only that is listed, otherwise the whole place."""
    if kind is not FileKind.CONSUMEQUEUE or topic is None or is_denied(place):
        return place
    return place / topic if (place / topic).is_dir() else place


def _concerns(target: Target, filters: Filters, path: Path) -> bool:
    """Return whether what cannot be read at `path` is missing in `target`."""
    if kind_by_name(path) not in (None, target.kind):
        return False
    queue = next((path.relative_to(place).parts for place in target.places if path.is_relative_to(place)), ())
    asked = filters.topic, None if filters.queue_id is None else str(filters.queue_id)
    return target.kind not in QUEUE_KINDS or all(wanted in (None, name) for wanted, name in zip(asked, queue, strict=False))


def find_target(
    path: Path,
    part: str | None,
    broker_conf: Path | None,
    settings: Mapping[str, str],
    filters: Filters,
    stack: ExitStack | None = None,
) -> Target:
    """Return the target at `path`. Raises UnreadableError, NotAStoreError, UsageError.

    Queues in RocksDB become files that exist until the end of `stack`; without one the target names their database alone.
    """
    try:
        is_directory = path.stat() and path.is_dir()
    except OSError as error:
        raise unreadable(path, error) from error
    if not is_directory:
        return _single_file(path, part, BrokerConfig.load(broker_conf, settings))
    config = BrokerConfig.load(broker_conf, settings, root=path)
    alone = _database(path, part, config) or _compaction(path, part, config, filters) or _directory_of_files(path, part, config, filters)
    if alone is not None:
        return alone
    store = Store.open(path, broker_conf=broker_conf, settings=settings)
    kind = PARTS[part] if part is not None else _default_part(store)
    if kind is FileKind.ROCKSDB:
        return _of_databases([(store.relative(one.directory), one) for one in databases(store)], store.config)
    in_files = store
    if kind is FileKind.CONSUMEQUEUE and store.rocksdb_queues and stack is not None:
        from rmqstore.store.rocksdb.asfiles import with_file_queues

        in_files = stack.enter_context(with_file_queues(store))

    def name(file: MappedFile) -> str:
        """Return the path of a file, or of the database that it was made from."""
        return store.relative(file.path if file.path.is_relative_to(store.root) else store.path_of(PartKind.CONSUMEQUEUE))

    target = _target(
        kind,
        tuple(_files(store, kind)),
        tuple(_chosen(_queues(in_files, kind, filters.topic), filters)),
        name if in_files is not store else lambda file: store.relative(file.path),
        store.config,
        tuple(_places(store, kind)),
    )
    in_database = kind is FileKind.CONSUMEQUEUE and in_files is store and store.has_only_rocksdb_queues
    return replace(target, database=store.relative(store.path_of(PartKind.CONSUMEQUEUE))) if in_database else target


def _target(
    kind: FileKind,
    files: tuple[MappedFile, ...],
    queues: tuple[QueueFiles, ...],
    name: Callable[[MappedFile], str],
    config: BrokerConfig,
    places: tuple[Path, ...],
) -> Target:
    return Target(kind, files, queues, name, config.known_delay_levels, config.explicit_integer("maxHashSlotNum"), places)


def _single_file(path: Path, part: str | None, config: BrokerConfig) -> Target:
    path = path.absolute()
    kind = PARTS[part] if part is not None else identify(path)
    if kind is FileKind.ROCKSDB:
        raise NotAStoreError(f"{path} belongs to a RocksDB database.", _NAME_DIRECTORY)
    if kind is FileKind.UNKNOWN or (part is None and kind is FileKind.TEXT and not has_name_of_store(path)):
        hint = "Name its kind with --part, for example --part commitlog."
        raise NotAStoreError(f"{path} is not a known kind of store file.", hint)
    file = mapped_file(path)
    named = parse_offset_name(path.name) is not None or base_offset_of(path.name) is not None
    if kind in (FileKind.COMMITLOG, FileKind.DLEDGER, FileKind.COMPACTION_LOG) and not named:
        file = MappedFile(path, _start_of_renamed_log(file, kind), file.length, file.allocated)
    queues = (_queue_of(path.parent, (file,)),) if kind in QUEUE_KINDS else ()
    return _target(kind, (file,), queues, lambda one: one.path.name, config, (path,))


def mapped_file(path: Path) -> MappedFile:
    """Return a file by its path; its start is the offset in its name, also that of a segment, 0 without one. Raises UnreadableError."""
    try:
        status = path.stat()
    except OSError as error:
        raise unreadable(path, error) from error
    return MappedFile(path, parse_offset_name(path.name) or base_offset_of(path.name) or 0, status.st_size, status.st_blocks * 512)


def _start_of_renamed_log(file: MappedFile, kind: FileKind) -> int:
    """Return the offset of the first byte, from the PHYSICALOFFSET of the first record."""
    from rmqstore.formats.dledger import ENTRY_HEADER_SIZE
    from rmqstore.formats.layout import fixed_layout
    from rmqstore.formats.record import MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2, RECORD_PREFIX
    from rmqstore.store.window import read_at

    prefix = fixed_layout(RECORD_PREFIX)
    skip = ENTRY_HEADER_SIZE if kind is FileKind.DLEDGER else 0
    head = read_at(file, 0, min(file.length, skip + prefix["physical_offset"].end))[skip:]
    magic = int.from_bytes(head[prefix["magic_code"].offset : prefix["magic_code"].end], "big")
    field = prefix["physical_offset"]
    if len(head) < field.end or magic not in (MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2):
        return 0
    return max(0, int.from_bytes(head[field.offset : field.end], "big", signed=True) - skip)


def _queue_of(directory: Path, files: tuple[MappedFile, ...]) -> QueueFiles:
    """Return topic and queue id by the names of the directories `topic/queueId` of files."""
    if directory.name.isascii() and directory.name.isdigit() and len(directory.name) <= 10:
        return QueueFiles(directory.parent.name, int(directory.name), files)
    return QueueFiles(None, None, files)


def _directory_of_files(path: Path, part: str | None, config: BrokerConfig, filters: Filters) -> Target | None:
    """Return a directory of one queue, or of the queues of one topic, outside of its tree; None for any other directory."""
    path = path.absolute()
    own = MappedFileQueue.scan(path).files
    if own:
        queues = [_queue_of(path, own)]
    else:
        below = (Path(entry.path) for entry in list_directory(path) if entry.name.isdigit() and entry.is_dir())
        queues = [queue for queue in (_queue_of(one, MappedFileQueue.scan(one).files) for one in below) if queue.files]
    if not queues:
        return None
    kind = PARTS[part] if part is not None else _kind_of(queues)
    if kind is None:
        return None
    files = tuple(file for queue in queues for file in queue.files)
    chosen = tuple(_chosen(iter(queues), filters)) if kind in QUEUE_KINDS else ()
    return _target(kind, files, chosen, lambda file: file.path.relative_to(path).as_posix(), config, (path,))


def _compaction(path: Path, part: str | None, config: BrokerConfig, filters: Filters) -> Target | None:
    """Return the logs or queues in a directory of the compaction store, or in one of its two trees; None for any other directory."""
    path = path.absolute()
    trees = {name: path if path.name == name else path / name for name in _COMPACTION_TREES}
    found = [name for name, tree in trees.items() if tree.is_dir()]
    kinds = [_COMPACTION_TREES[name] for name in found]
    kind = PARTS[part] if part is not None else next(iter(kinds), None)
    if kind not in kinds:
        return None
    tree = trees[found[kinds.index(kind)]]
    queues = (QueueFiles(one.topic, one.queue_id, one.files.files) for one in open_queues(tree_queues(tree), None, None))
    return _target(kind, (), tuple(_chosen(queues, filters)), lambda file: file.path.relative_to(path).as_posix(), config, (tree,))


def _database(path: Path, part: str | None, config: BrokerConfig) -> Target | None:
    """Return the RocksDB database in a directory, None for any other directory."""
    if PARTS.get(part or "") not in (None, FileKind.ROCKSDB):
        return None
    path = path.absolute()
    found = database_in(path, use_of(path))
    return None if found is None else _of_databases([(path.name, found)], config)


def _of_databases(found: list[tuple[str, Database]], config: BrokerConfig) -> Target:
    """Return databases by their names. Raises RefusedError if a broker has one of them open."""
    for name, database in found:
        if lock_holder(database.directory / LOCK) is not None:
            raise RefusedError(f"A process has the RocksDB database {name} open, and changes its files.", "Stop the broker first.")
    target = _target(FileKind.ROCKSDB, (), (), lambda file: file.path.name, config, tuple(database.directory for _, database in found))
    return replace(target, databases=tuple(found))


def _kind_of(queues: list[QueueFiles]) -> FileKind | None:
    kinds = (identify(file.path) for queue in queues for file in queue.files[:2])
    return next((kind for kind in kinds if kind is not FileKind.UNKNOWN), None)


def _default_part(store: Store) -> FileKind:
    if store.only is not None:
        return PARTS[store.only.value]
    if not store.commitlog.files and store.dledger is not None:
        return FileKind.DLEDGER
    return FileKind.COMMITLOG


def _files(store: Store, kind: FileKind) -> Iterator[MappedFile]:
    """Yield the files of a part of a root."""
    if kind is FileKind.COMMITLOG:
        yield from store.commitlog.files
    elif kind is FileKind.DLEDGER:
        yield from store.dledger.data.files if store.dledger else ()
    elif kind is FileKind.DLEDGER_INDEX:
        yield from store.dledger.index.files if store.dledger else ()
    elif kind is FileKind.TIMERLOG:
        yield from store.timerlog.files
    else:
        for path in _paths(store, kind):
            if not is_denied(path) and path.is_file():
                yield mapped_file(path)


def _places(store: Store, kind: FileKind) -> Iterator[Path]:
    """Yield the files and directories that a part of a root consists of, whether or not they exist."""
    log = store.commitlog_directories
    if store.only is not None:
        yield store.root
    elif kind is FileKind.COMMITLOG:
        yield from (*log.writable, *log.read_only)
    elif kind in (FileKind.DLEDGER, FileKind.DLEDGER_INDEX):
        yield from (store.dledger.directory,) if store.dledger else ()
    elif kind in _DIRECTORY_OF:
        yield store.root / _DIRECTORY_OF[kind]
    else:
        yield from _paths(store, kind)


def _paths(store: Store, kind: FileKind) -> list[Path]:
    root, config = store.root, store.config_path
    if kind is FileKind.INDEX:
        return [file.path for file in store.index_files()]
    if kind is FileKind.TIERED_INDEX:
        directory = root / "tiered_index_file"
        return [Path(entry.path) for place in (directory, directory / "compacting") for entry in list_directory(place)]
    if kind is FileKind.TIMERWHEEL:
        return store.timerwheel_paths()
    if kind is FileKind.JSON:
        return _of_kind(kind, [config])
    if kind is FileKind.PROPERTIES:
        # DLedger keeps two text files; a broker.conf may have been copied into the root.
        return _of_kind(kind, [root, config] + ([store.dledger.directory] if store.dledger else []))
    single = {
        FileKind.CHECKPOINT: store.checkpoint_path,
        FileKind.ABORT: store.abort_path,
        FileKind.LOCK: store.lock_path,
        FileKind.TIMERCHECK: config / "timercheck",
        FileKind.EPOCH: Path(store.config.text("storePathEpochFile") or root / "epochFileCheckpoint"),
        FileKind.COMPACTION: root / "compaction" / "position-checkpoint",
    }
    return [single[kind]] if kind in single else []


def _of_kind(kind: FileKind, directories: list[Path]) -> list[Path]:
    """Return the files of a kind in these directories; of those without read permission only those with its name."""
    paths = (Path(entry.path) for directory in directories for entry in list_directory(directory) if entry.is_file())
    return [path for path in paths if (kind_by_name(path) if is_denied(path) else identify(path)) is kind]


def _queues(store: Store, kind: FileKind, topic: str | None) -> Iterator[QueueFiles]:
    """Yield the queues of a part of a root; of consume queues those of `topic`, None: of all."""
    trees: dict[FileKind, Callable[[], Iterator[QueueDirectory]]] = {
        FileKind.CONSUMEQUEUE: partial(store.queue_directories, topic),
        FileKind.CONSUMEQUEUE_EXT: store.ext_queue_directories,
        FileKind.BATCHCONSUMEQUEUE: store.batch_queue_directories,
        FileKind.COMPACTION_LOG: store.compaction_log_directories,
        FileKind.COMPACTION_QUEUE: store.compaction_queue_directories,
    }
    for queue in trees[kind]() if kind in trees else ():
        yield QueueFiles(queue.topic, queue.queue_id, queue.files.files)


def _chosen(queues: Iterator[QueueFiles], filters: Filters) -> Iterator[QueueFiles]:
    for queue in queues:
        if filters.topic in (None, queue.topic) and filters.queue_id in (None, queue.queue_id):
            yield queue


_ALL_FILTERS = ("topic", "queue_id", "queue_offset", "from_offset", "to_offset", "from_time", "to_time", "key", "tag")
_QUEUE_FILTERS = ("topic", "queue_id", "queue_offset", "from_offset", "to_offset", "tag")
_TIME_FILTERS = ("from_time", "to_time")
_FILTERS: Mapping[FileKind, tuple[str, ...]] = {
    FileKind.COMMITLOG: _ALL_FILTERS,
    FileKind.COMPACTION_LOG: _ALL_FILTERS,
    FileKind.DLEDGER: _ALL_FILTERS,
    FileKind.CONSUMEQUEUE: _QUEUE_FILTERS,
    FileKind.BATCHCONSUMEQUEUE: _QUEUE_FILTERS + _TIME_FILTERS,
    FileKind.COMPACTION_QUEUE: _QUEUE_FILTERS + _TIME_FILTERS,
    FileKind.CONSUMEQUEUE_EXT: ("topic", "queue_id", "tag", *_TIME_FILTERS),
    FileKind.INDEX: ("topic", "key", "from_offset", "to_offset", *_TIME_FILTERS),
    FileKind.TIMERLOG: ("from_offset", "to_offset"),
    FileKind.COMPACTION: ("topic", "queue_id"),
}


def require_sensible(kind: FileKind, filters: Filters) -> None:
    """Refuse filters that the part cannot answer. Raises UsageError."""
    known = _FILTERS.get(kind, ())
    for name in _ALL_FILTERS:
        if getattr(filters, name) is not None and name not in known:
            option = "--queue" if name == "queue_id" else "--" + name.replace("_", "-")
            usable = ", ".join("--queue" if one == "queue_id" else "--" + one.replace("_", "-") for one in known) or "none"
            raise UsageError(f"{option} does not apply to the part {kind}", f"filters of this part: {usable}")
    if kind is FileKind.INDEX and (filters.topic is None) != (filters.key is None):
        raise UsageError("an index entry holds topic and key only as one hash", "give both --topic and --key, or neither")
