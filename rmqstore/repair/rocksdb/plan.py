"""Plans of new databases of queues: for a store with queues in files, and in the place of a database."""

from __future__ import annotations

from collections.abc import Mapping

from rmqstore.errors import RefusedError
from rmqstore.rebuild.result import QueueKind
from rmqstore.rebuild.settings import Mode
from rmqstore.repair.derived.judgement import judge, present_log
from rmqstore.repair.derived.rebuild import rebuild_derived
from rmqstore.repair.derived.requests import Planning, QueueRequest
from rmqstore.repair.rocksdb.database import queue_database
from rmqstore.store.ends import queue_ends
from rmqstore.store.mapped import list_directory
from rmqstore.store.parts import PartKind
from rmqstore.store.rocksdb.asfiles import queues_in_database
from rmqstore.store.rocksdb.databases import is_database_name
from rmqstore.store.root import Store
from rmqstore.verify.parts.config import CONSUMER_OFFSETS, GROUPS, TOPICS
from rmqstore.verify.queues.spans import QueueKey
from rmqstore.wording import counted

_PARTS = frozenset({"consumequeue"})
_REASON = "kept in RocksDB from now on"
_START = (
    "Before the next start, put storeType=defaultRocksDB into the broker.conf. That start reads topics, groups and consumer offsets from "
    "their JSON files into databases of its own; later changes are in the databases only."
)
_CLEANED = (
    "A broker deletes the queues of topics that its configuration does not have from the database, ten minutes after a start: compare "
    "`rmqstore topics` first."
)


def plan_to_database(planning: Planning, store: Store) -> None:
    """Plan that the queues of a store are in RocksDB. Nothing for a store that has them there already.

    Raises RefusedError for a release or a queue for which that is not possible, UnreadableError, StoreChangedError, OSError.
    """
    builder, profile = planning.builder, planning.profile
    if not profile.rocksdb_queues:
        raise RefusedError(
            f"A broker of {builder.broker_version} keeps no queues in RocksDB.", "Name the release with --broker-version: 5.2.0 or later."
        )
    has_files = next(store.queue_directories(), None) is not None
    if store.rocksdb_database and has_files:
        raise RefusedError(
            "The store has queues in files and in RocksDB.",
            "Which of them a broker uses is a setting: remove the others yourself, after a copy.",
        )
    if store.rocksdb_queues and not has_files:
        builder.note("The queues are in RocksDB already.")
        return
    compacted = store.path_of(PartKind.COMPACTION) / "compactionLog"
    if compacted.is_dir() and any(not entry.is_file() for entry in list_directory(compacted)):
        raise RefusedError(
            "The store has compacted topics: with storeType=defaultRocksDB a broker does not load their logs, and does not start.",
            "Keep the queues in files, or move `compaction` out of the store: no client can pull these topics then.",
        )
    has_json = any((store.config_path / name).exists() for name in (TOPICS, GROUPS, CONSUMER_OFFSETS))
    if has_json and not profile.rocksdb_imports_json:
        raise RefusedError(
            f"With storeType=defaultRocksDB a broker of {builder.broker_version} ignores the JSON files of topics, groups and offsets.",
            "Convert the store for a broker of 5.3.1 or later, which reads them.",
        )
    _plan(planning, store, {(queue.topic, queue.queue_id): queue_ends(queue.files).max_offset for queue in store.queue_directories()})
    for entry in list_directory(store.path_of(PartKind.CONSUMEQUEUE)):
        if not entry.is_file():
            builder.quarantine_directory(entry.path, reason=_REASON)
    extensions = store.path_of(PartKind.CONSUMEQUEUE_EXT)
    if extensions.is_dir():
        builder.quarantine_directory(extensions, reason="queues in RocksDB have no extension")
    builder.note(_START)
    builder.note(_CLEANED)


def plan_new_database(planning: Planning, store: Store) -> None:
    """Plan a new database in the place of the one of a store, with what the log has. Raises as `plan_to_database` does."""
    builder = planning.builder
    with queues_in_database(store) as held:
        ends = {} if held is None else dict(held.queues.ends)
    if held is None and store.rocksdb_database:
        builder.note("The database could not be read: queues without a record in the log begin at queue offset 0 again.")
    for entry in list_directory(store.path_of(PartKind.CONSUMEQUEUE)):
        if entry.is_file() and is_database_name(entry.name):
            builder.quarantine(entry.path, reason="replaced by a new database")
    _plan(planning, store.with_queues(()), ends)


def _plan(planning: Planning, store: Store, ends: Mapping[QueueKey, int]) -> None:
    """Plan the files of a database; `ends` are the next queue offsets that are known."""
    builder = planning.builder
    if next(store.batch_queue_directories(), None) is not None:
        raise RefusedError("The store has batch queues, which RocksDB does not hold.", "Keep the queues in files.")
    judgement = judge(store, parts=_PARTS, advance=planning.advance)
    log = present_log(store, judgement.log)
    request = QueueRequest(Mode.USEFUL, lambda key: key not in judgement.absent or not ends, ext=False)
    built = rebuild_derived(planning, store, log, queues=request).queues
    assert built is not None
    result, made = built
    batch = sorted({queue.topic for queue in result.queues if queue.kind is QueueKind.BATCH})
    if batch:
        raise RefusedError(f"The queues of {batch[0]} are batch queues, which RocksDB does not hold.", "Keep the queues in files.")
    queues = {(queue.topic, queue.queue_id): queue for queue in result.queues}
    emptied = {key: end for key, end in ends.items() if end and key not in queues}
    directory = store.path_of(PartKind.CONSUMEQUEUE)
    for name, staged in queue_database(planning.staging, log, queues, made, emptied).items():
        builder.create(directory / name, staged, reason="a database with the entries of the queues")
    entries = sum(queue.end_offset - queue.first_offset for queue in queues.values())
    builder.note(f"The database has {counted(len(queues) + len(emptied), 'queue')} with {entries} entries.")
