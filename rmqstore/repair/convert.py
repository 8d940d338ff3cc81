"""Conversion of a store that keeps queues and configuration in RocksDB into one that keeps them in files.

Queues are built from the commit log, configuration is written as the JSON files that the databases replaced, and the databases leave the
store. A broker starts on it with `storeType=default`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rmqstore.errors import RefusedError
from rmqstore.repair.compaction.content import plan_content
from rmqstore.repair.derived.checkpoint import plan_checkpoint
from rmqstore.repair.derived.consumequeues import QueueWish, plan_queues
from rmqstore.repair.derived.index import full_until
from rmqstore.repair.derived.judgement import judge, present_log
from rmqstore.repair.derived.requests import Planning
from rmqstore.repair.rocksdb.configuration import quarantine_databases
from rmqstore.repair.rocksdb.use import QueueDatabase
from rmqstore.store.mapped import list_directory
from rmqstore.store.parts import PartKind
from rmqstore.store.rocksdb.asfiles import queues_in_database
from rmqstore.store.rocksdb.configuration import configuration_in_database
from rmqstore.store.rocksdb.databases import is_database_name
from rmqstore.store.root import Store
from rmqstore.verify.parts.config import CONSUMER_OFFSETS, GROUPS, TOPICS, in_rocksdb, texts_in_database
from rmqstore.verify.queues.spans import QueueKey
from rmqstore.wording import counted

_PARTS = frozenset({"consumequeue"})
_REASON = "kept in files from now on"
_START = (
    "Before the next start, put storeType=default into the broker.conf, and remove configManagerVersion and rocksdbCQDoubleWriteEnable: "
    "with the old settings a broker creates new, empty databases."
)
_MOST_NAMED = 20


def plan_files(planning: Planning, store: Store) -> None:
    """Plan that queues and configuration are in files. Nothing for a store that has them in files already.

    Raises RefusedError where queues are in both, or a configuration in RocksDB cannot be read, UnreadableError, StoreChangedError, OSError.
    """
    builder = planning.builder
    of_queues = store.rocksdb_queues
    if of_queues and next(store.queue_directories(), None) is not None:
        raise RefusedError(
            "The store has queues in files and in RocksDB.",
            "Which of them a broker uses is a setting: remove the others yourself, after a copy.",
        )
    objects = _configuration(store)
    if not of_queues and objects is None:
        builder.note("Queues and configuration are in files already.")
        return
    if of_queues:
        _plan_queues(planning, store)
    for name, value in (objects or {}).items():
        path = store.config_path / name
        builder.replace(path, json.dumps(value, indent=1).encode(), reason=_REASON)
        builder.quarantine(path.with_name(f"{name}.bak"), reason="older than the configuration in RocksDB")
    if objects is not None:
        quarantine_databases(builder, store, _REASON)
    builder.note(_START)


def _configuration(store: Store) -> Mapping[str, Mapping[str, Any]] | None:
    """Return the objects of the JSON files to write, None where RocksDB has no configuration."""
    if not in_rocksdb(store):
        return None
    found = configuration_in_database(store)
    texts = texts_in_database(store)
    if found is None or found.others or any(texts[name].value is None for name in (TOPICS, GROUPS, CONSUMER_OFFSETS)):
        raise RefusedError(
            "Topics, groups and consumer offsets in RocksDB cannot be read, are of several databases, or are older than a JSON file.",
            "`rmqstore verify` names what is wrong with a database; pass the settings of the broker with --broker-conf.",
        )
    return found.objects


def _plan_queues(planning: Planning, store: Store) -> None:
    """Plan queues from the log in the place of the databases."""
    builder = planning.builder
    in_files = store.with_queues(())
    judgement = judge(in_files, parts=_PARTS, advance=planning.advance)
    log = present_log(in_files, judgement.log)
    for entry in list_directory(store.path_of(PartKind.CONSUMEQUEUE)):
        if entry.is_file() and is_database_name(entry.name):  # also the rest of a database
            builder.quarantine(entry.path, reason=_REASON)
    separate = store.path_of(PartKind.CONSUMEQUEUE_ROCKSDB)
    if separate.is_dir():
        builder.quarantine_directory(separate, reason=_REASON)
    ends = plan_queues(planning, in_files, log, judgement, QueueWish(rebuild=True))
    plan_checkpoint(builder, in_files, planning.profile, log, full_until(in_files), QueueDatabase(in_files, log.end_offset))
    plan_content(planning, in_files, log, new=ends.keys())
    _note_on_emptied(planning, store, ends)


def _note_on_emptied(planning: Planning, store: Store, ends: Mapping[QueueKey, int]) -> None:
    """Name the queues whose numbers only the database has, because the log holds none of their records any more."""
    with queues_in_database(store) as held:
        known = {} if held is None else held.queues.ends
    emptied = sorted(key for key, end in known.items() if end and key not in ends)
    if held is None and store.rocksdb_database:
        planning.builder.note("The database could not be read: queues without a record in the log begin at queue offset 0 again.")
    elif emptied:
        names = ", ".join(f"{topic}/{queue_id}" for topic, queue_id in emptied[:_MOST_NAMED])
        more = f" and {len(emptied) - _MOST_NAMED} more" if len(emptied) > _MOST_NAMED else ""
        planning.builder.note(
            f"{counted(len(emptied), 'queue')} without a record in the log: queue offsets begin at 0 again, and those of consumers may be "
            f"larger: {names}{more}."
        )
