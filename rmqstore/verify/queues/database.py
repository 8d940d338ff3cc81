"""Queues in RocksDB, compared with the commit log like queues in files: their entries are read into temporary files first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from rmqstore.errors import RmqstoreError
from rmqstore.findings import Finding
from rmqstore.store.liveness import liveness
from rmqstore.store.rocksdb.databases import Database, DatabaseUse, databases, is_needed
from rmqstore.store.rocksdb.library import probe
from rmqstore.store.rocksdb.queuefiles import QueueFiles, queue_files
from rmqstore.store.root import QueueDirectory, Store
from rmqstore.verify.context import Context
from rmqstore.verify.queues.units import QueueKey

_ABSENT = frozenset({"RMQ-CQ-BEHIND", "RMQ-CQ-HOLE", "RMQ-CQ-GAP", "RMQ-CQ-MISSING"})
_WRONG = frozenset(
    {
        *("RMQ-CQ-SIZE", "RMQ-CQ-TAGS", "RMQ-CQ-UNIT", "RMQ-CQ-SHIFTED", "RMQ-CQ-ORDER", "RMQ-CQ-SURPLUS"),
        *("RMQ-CQ-REPEATED", "RMQ-CQ-EXCHANGED", "RMQ-CQ-STALE", "RMQ-CQ-BEYOND", "RMQ-CQ-PREBLANK"),
    }
)


@dataclass(frozen=True, slots=True)
class DatabaseQueues:
    """The queues of a database, readable as file queues, and the physical offset up to which it knows the log."""

    database: Database
    queues: QueueFiles
    reached: int

    def directories(self) -> dict[QueueKey, QueueDirectory]:
        """Return the queues by topic and queue id."""
        place = str(self.database.directory)
        return {key: QueueDirectory(*key, files, place) for key, files in self.queues.files.items()}

    def findings(self, context: Context, found: Iterator[Finding]) -> Iterator[Finding]:
        """Yield what is found about queues with codes and places of the database, without what it does not claim to know."""
        if self.queues.others:
            message = f"{self.queues.others} of its entries have a form or a place that no broker writes"
            yield context.finding("RMQ-RD-OTHER", message, file=self.database.directory)
        for finding in found:
            if not finding.code.startswith("RMQ-CQ-"):
                yield finding
                continue
            code = "RMQ-RD-MISSING" if finding.code in _ABSENT else "RMQ-RD-ENTRY" if finding.code in _WRONG else None
            if code is None:
                yield replace(finding, file=context.store.relative(self.database.directory), position=None, length=None)
            elif not self._is_reported(context, finding):
                yield self._of_database(context, code, finding)

    def _is_reported(self, context: Context, finding: Finding) -> bool:
        """Return whether a finding about the whole database says it: queues that end before the log, or after it."""
        if finding.code in _ABSENT:
            return finding.offset is not None and finding.offset >= self.reached
        return finding.code == "RMQ-CQ-BEYOND" and self.reached > context.log.end_offset

    def _of_database(self, context: Context, code: str, finding: Finding) -> Finding:
        message = finding.message
        if finding.code == "RMQ-CQ-MISSING":
            message = f"{finding.expected} records of this queue are in the log, and the database has no entry that a broker serves"
        return context.finding(
            code,
            f"queue {finding.topic}/{finding.queue_id}: {message}",
            file=self.database.directory,
            offset=finding.offset,
            topic=finding.topic,
            queue_id=finding.queue_id,
            queue_offset=finding.queue_offset,
            expected=finding.expected,
            found=finding.found,
        )


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
def compared_queues(context: Context) -> Iterator[DatabaseQueues | None]:
    """Yield the queues in RocksDB to compare with the log; None without any, and where the context names why they are not compared."""
    with ExitStack() as stack:
        queues = None
        if context.options.wants("consumequeue") and context.store.only is None and context.store.rocksdb_queues:
            try:
                queues = stack.enter_context(queues_in_database(context.store))
            except (RmqstoreError, OSError) as error:
                context.uncompared = str(error)
        context.database_reached = None if queues is None else queues.reached
        yield queues
