"""Queues in RocksDB, compared with the commit log like queues in files: their entries are read into temporary files first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rmqstore.errors import RmqstoreError
from rmqstore.findings import Finding
from rmqstore.formats.consumequeue import UNIT_SIZE
from rmqstore.formats.naming import PLACEHOLDER, is_filler_topic
from rmqstore.store.rocksdb.asfiles import DatabaseQueues, queues_in_database
from rmqstore.store.root import QueueDirectory
from rmqstore.verify.context import Context
from rmqstore.verify.queues.spans import QueueKey

_ABSENT = frozenset({"RMQ-CQ-BEHIND", "RMQ-CQ-HOLE", "RMQ-CQ-GAP", "RMQ-CQ-MISSING"})
_WRONG = frozenset(
    {
        *("RMQ-CQ-SIZE", "RMQ-CQ-TAGS", "RMQ-CQ-UNIT", "RMQ-CQ-SHIFTED", "RMQ-CQ-ORDER", "RMQ-CQ-SURPLUS"),
        *("RMQ-CQ-REPEATED", "RMQ-CQ-EXCHANGED", "RMQ-CQ-STALE", "RMQ-CQ-BEYOND", "RMQ-CQ-PREBLANK"),
    }
)


@dataclass(frozen=True, slots=True)
class ComparedQueues:
    """The queues of a database that are compared with the log."""

    held: DatabaseQueues

    @property
    def directories(self) -> dict[QueueKey, QueueDirectory]:
        """The queues by topic and queue id."""
        return {(queue.topic, queue.queue_id): queue for queue in self.held.directories()}

    @property
    def _place(self) -> Path:
        return self.held.database.directory

    def findings(self, context: Context, found: Iterator[Finding]) -> Iterator[Finding]:
        """Yield what is found about queues with codes and places of the database, without what it does not claim to know."""
        if self.held.queues.others:
            message = f"{self.held.queues.others} of its entries have a form or a place that no broker writes"
            yield context.finding("RMQ-RD-OTHER", message, file=self._place)
        yield from self._beginnings(context)
        repaired = _end_of_repairs(context)
        for finding in found:
            if not finding.code.startswith("RMQ-CQ-"):
                yield finding
                continue
            code = "RMQ-RD-MISSING" if finding.code in _ABSENT else "RMQ-RD-ENTRY" if finding.code in _WRONG else None
            if code is None:
                yield replace(finding, file=context.store.relative(self._place), position=None, length=None)
            elif not self._is_reported(context, finding):
                yield self._of_database(context, "RMQ-RD-REPLACED" if _is_replaced(context, finding, repaired) else code, finding)

    def _beginnings(self, context: Context) -> Iterator[Finding]:
        """Yield queues that begin after entries of theirs: brokers take the stored beginning if its record is in the log."""
        queues = self.held.queues
        for key, files in queues.files.items():
            stored, first = queues.stored[key].first, files.min_offset // UNIT_SIZE
            if stored is not None and stored > first:
                yield context.finding(
                    "RMQ-RD-ENTRY",
                    f"queue {key[0]}/{key[1]}: it begins at {stored} in the family `offset`, and at {first} by its entries",
                    file=self._place,
                    topic=key[0],
                    queue_id=key[1],
                    queue_offset=first,
                    expected=first,
                    found=stored,
                )

    def _is_reported(self, context: Context, finding: Finding) -> bool:
        """Return whether a finding about the whole database says it: queues that end before the log, or after it."""
        if finding.code in _ABSENT:
            return finding.offset is not None and finding.offset >= self.held.reached
        return finding.code == "RMQ-CQ-BEYOND" and self.held.reached > context.log.end_offset

    def _of_database(self, context: Context, code: str, finding: Finding) -> Finding:
        message = finding.message
        if finding.code == "RMQ-CQ-MISSING":
            message = f"{finding.expected} records of this queue are in the log, and the database has no entry that a broker serves"
        return context.finding(
            code,
            f"queue {finding.topic}/{finding.queue_id}: {message}",
            file=self._place,
            offset=finding.offset,
            topic=finding.topic,
            queue_id=finding.queue_id,
            queue_offset=finding.queue_offset,
            expected=finding.expected,
            found=finding.found,
        )


def _is_replaced(context: Context, finding: Finding, repaired: int) -> bool:
    """Return whether an entry is that of a lost message, which a repair replaced by a placeholder or by bytes that are no message.

    `repaired`: the physical offset after the last record of a repair. Entries in RocksDB stay as they are then, and the placeholder may be
    at another place, or shorter.
    """
    if finding.offset is None:
        return finding.code not in _ABSENT and context.log.last_filler >= 0
    record = context.record_at(finding.offset)
    if record is not None and PLACEHOLDER in record.properties:
        return True
    claimed = finding.found is not None or finding.code in _ABSENT  # by a record of the queue
    return not claimed and finding.offset < repaired and (record is None or is_filler_topic(record.topic))


def _end_of_repairs(context: Context) -> int:
    """Return the physical offset after the last record that a repair wrote, -1 if there is no filler."""
    position, record = -1, context.record_at(context.log.last_filler) if context.log.last_filler >= 0 else None
    while record is not None and (position < 0 or PLACEHOLDER in record.properties):
        position = record.physical_offset + record.size
        record = context.record_at(position)
    return position


@contextmanager
def compared_queues(context: Context) -> Iterator[ComparedQueues | None]:
    """Yield the queues in RocksDB to compare with the log; None without any, and where the context names why they are not compared."""
    with ExitStack() as stack:
        queues = None
        if context.options.wants("consumequeue") and context.store.only is None and context.store.rocksdb_queues:
            try:
                queues = stack.enter_context(queues_in_database(context.store))
            except (RmqstoreError, OSError) as error:
                context.uncompared = str(error)
        if queues is not None:
            context.database_reached, context.database_ends = queues.reached, queues.queues.ends
        yield None if queues is None else ComparedQueues(queues)
