"""A store whose queues are in RocksDB, opened as one that has them in files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rmqstore.errors import UnreadableError
from rmqstore.store.liveness import liveness
from rmqstore.store.rocksdb.databases import Database, DatabaseUse, databases, is_needed
from rmqstore.store.rocksdb.library import probe
from rmqstore.store.rocksdb.queuefiles import QueueFiles, queue_files
from rmqstore.store.root import QueueDirectory, Store


@dataclass(frozen=True, slots=True)
class DatabaseQueues:
    """The queues of a database, readable as file queues, and the physical offset up to which it knows the log."""

    database: Database
    queues: QueueFiles
    reached: int

    def directories(self) -> Iterator[QueueDirectory]:
        """Yield the queues; the directory of each is that of the database."""
        place = str(self.database.directory)
        return (QueueDirectory(*key, files, place) for key, files in self.queues.files.items())


@contextmanager
def queues_in_database(store: Store) -> Iterator[DatabaseQueues | None]:
    """Yield the queues of a store that has them in RocksDB alone, in a database that can be read; None for every other store.

    Reads the whole database. Raises UnreadableError, OSError.
    """
    found = [database for database in databases(store, DatabaseUse.QUEUES) if is_needed(store, database)]
    readable = len(found) == 1 and next(store.queue_directories(), None) is None and not liveness(store).in_use
    report = probe(found[0]) if readable else None
    if report is None or not report.sound or report.unlisted or report.reached is None:
        yield None
        return
    with queue_files(found[0], store.message_log.min_offset) as queues:
        yield DatabaseQueues(found[0], queues, report.reached)


@contextmanager
def with_file_queues(store: Store) -> Iterator[Store]:
    """Yield the store with queues in files: itself, or, where RocksDB alone has them, with files that exist until the end of the context.

    Reads the whole database then. Raises UnreadableError where it cannot be read, or is in use.
    """
    if not store.has_only_rocksdb_queues:
        yield store
        return
    with queues_in_database(store) as held:
        if held is None:
            raise UnreadableError(
                f"the queues of {store.root} are kept in RocksDB, and their database is in use, or cannot be read.",
                "Run `rmqstore verify`, which names what is wrong with it; of a running broker copy the store first.",
            )
        yield store.with_queues(held.directories())
