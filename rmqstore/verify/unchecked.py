"""Areas of a store that hold data and were not looked at in depth: part of every answer, and no findings.

Each function of `AREAS` reports one area. A new check of an area removes its function, or limits it to what is still unchecked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rmqstore.errors import RmqstoreError
from rmqstore.formats.indexentry import FAMILY as INDEX
from rmqstore.reading.rocksdb.halves import FAMILY as TRANSACTIONS
from rmqstore.reading.rocksdb.messagedatabase import readable_database
from rmqstore.store.liveness import liveness
from rmqstore.store.mapped import list_directory
from rmqstore.store.parts import PartKind
from rmqstore.store.rocksdb.databases import DatabaseUse, databases
from rmqstore.store.rocksdb.library import probe
from rmqstore.store.root import Store
from rmqstore.verify.context import Context
from rmqstore.verify.index.database import MOST_ENTRIES, is_compared
from rmqstore.verify.parts.compacted import queues_of_logs
from rmqstore.verify.parts.config import CONSUMER_OFFSETS, GROUPS, TOPICS, State, in_rocksdb, texts_in_database
from rmqstore.verify.tiered import check as tiered
from rmqstore.wording import counted


@dataclass(frozen=True, slots=True)
class NotChecked:
    """An area that holds data and was not looked at in depth, and why. `area` fits before "were not read"."""

    area: str
    reason: str
    store: str | None = None
    """The place of the store, if there are several."""

    def as_json(self) -> dict[str, str]:
        """Return the object in `not_checked` of a summary."""
        store = {} if self.store is None else {"store": self.store}
        return {**store, "area": self.area, "reason": self.reason}


Area = Callable[[Context], Iterator[NotChecked]]


def not_checked(context: Context) -> Iterator[NotChecked]:
    """Yield the areas of a store that were requested, hold data and were not looked at in depth. Lists directories."""
    for area in AREAS:
        try:
            yield from area(context)
        except (RmqstoreError, OSError) as error:
            yield NotChecked(area.__name__.strip("_").replace("_", " "), f"it cannot be listed: {error}")


def _compaction(context: Context) -> Iterator[NotChecked]:
    store = context.store
    if not context.options.wants("consumequeue") or not store.covers(PartKind.COMPACTION):
        return
    queues = queues_of_logs(store)
    logs = [one for one in store.compaction_log_directories() if one.files.files and (one.topic, one.queue_id) not in queues]
    if logs:
        what = counted(len(logs), "compacted log")
        yield NotChecked("compaction/", f"{what} of topics without consume queues could not be compared with the commit log")


def _rocksdb_queues(context: Context) -> Iterator[NotChecked]:
    places = (PartKind.CONSUMEQUEUE, PartKind.CONSUMEQUEUE_ROCKSDB)
    if not context.options.wants("consumequeue") or not _any_database(context.store, map(context.store.path_of, places)):
        return
    if context.database_reached is None:
        yield NotChecked("RocksDB queues", context.uncompared or _why(context, "compared with the commit log"))


def _rocksdb_configuration(context: Context) -> Iterator[NotChecked]:
    store = context.store
    if not context.options.wants("config") or not in_rocksdb(store) or store.only is not None:
        return
    known = not store.rocksdb_queues or context.database_ends is not None
    if not known or any(texts_in_database(store)[name].state is not State.WHOLE for name in (TOPICS, GROUPS, CONSUMER_OFFSETS)):
        yield NotChecked("topics, groups and offsets in RocksDB", _why(context, "verified"))


def _rocksdb_store(context: Context) -> Iterator[NotChecked]:
    if not any(map(context.options.wants, ("index", "timer", "store"))) or not _any_database(
        context.store, [context.store.path_of(PartKind.ROCKSDBSTORE)]
    ):
        return
    read = None if liveness(context.store).in_use else probe(next(databases(context.store, DatabaseUse.MESSAGES)))
    if read is None or not read.sound:
        yield NotChecked("rocksdbstore/", _why(context, "verified"))
        return
    entries = {family.name: family.entries or 0 for family in read.families}
    if context.options.wants("index") and entries.get(INDEX) and context.store.dledger is not None:
        yield NotChecked("the index in rocksdbstore/", _why(context, "compared with a DLedger log"))
    elif context.options.wants("index") and not is_compared(entries.get(INDEX, 0)):
        yield NotChecked("the index in rocksdbstore/", f"it has {entries[INDEX]} entries; up to {MOST_ENTRIES} are compared with the log")
    if context.options.wants("store") and entries.get(TRANSACTIONS) and context.store.dledger is not None:
        yield NotChecked("transactions in rocksdbstore/", _why(context, "compared with a DLedger log"))


def _pop_consumption(context: Context) -> Iterator[NotChecked]:
    if not context.options.wants("store") or not _any_database(context.store, [context.store.path_of(PartKind.KV_STORE)]):
        return
    if readable_database(context.store, DatabaseUse.POP) is None:
        yield NotChecked("kvStore/", _why(context, "verified"))
    elif context.crashed:
        yield NotChecked(
            "kvStore/", "queues may lack messages after a crash, so it was not compared with their ends; `rmqstore doctor` does that"
        )


def _tiered_storage(context: Context) -> Iterator[NotChecked]:
    if context.store.only is None and context.options.wants("tiered"):
        yield from (NotChecked(area, reason) for area, reason in tiered.unread(context))


AREAS: tuple[Area, ...] = (_compaction, _rocksdb_queues, _rocksdb_configuration, _rocksdb_store, _pop_consumption, _tiered_storage)


def _why(context: Context, what: str) -> str:
    if liveness(context.store).in_use:
        return "a broker has the RocksDB database open, and nothing of it was read"
    return f"RocksDB checked the files of the database; its entries were not {what}"


def _any_database(store: Store, paths: Iterable[Path]) -> bool:
    """Return whether one of these directories is a RocksDB database with entries: in sorted files, or in a log that was not sorted yet."""
    return store.only is None and any(
        (path / "CURRENT").exists() and (_holds_data(path, ".sst") or _holds_data(path, ".log")) for path in paths
    )


def _holds_data(path: Path, ending: str) -> bool:
    """Return whether a file below `path` with this ending is not empty."""
    pending = [path]
    while pending:
        directory = pending.pop()
        if not directory.is_dir():
            continue
        for entry in list_directory(directory):
            if entry.is_dir(follow_symlinks=False):
                pending.append(Path(entry.path))
            elif entry.name.endswith(ending) and entry.length:
                return True
    return False
