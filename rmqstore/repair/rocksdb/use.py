"""Queues in RocksDB that cannot be used: the database leaves the store, and the next start builds the queues from the commit log.

Done by brokers of 5.2.0, 5.3.3 and 5.5.1 in tests/rocksdb: with `abort`, and a directory without a database, every message of the log is
served again. IDENTITY and LOCK stay, so that the directory is still known as one of RocksDB; brokers take them over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rmqstore.errors import RefusedError
from rmqstore.repair.plan.builder import PlanBuilder
from rmqstore.repair.rocksdb.configuration import replaced_databases
from rmqstore.store.mapped import MappedFile
from rmqstore.store.rocksdb.databases import KEPT, DatabaseUse, databases, is_needed, searched_files
from rmqstore.store.rocksdb.library import Report, probe
from rmqstore.store.root import Store
from rmqstore.versions import Profile

_BUILT = (
    "The next start creates the RocksDB database of the queues and builds all queues from the log, and the index as well; until then "
    "`rmqstore verify` reports this. On 5.3.3 consumers do not get past a gap in a queue. A queue without a record in the log "
    "begins at queue offset 0 again."
)
_AHEAD = "RMQ-RD-AHEAD"


@dataclass(frozen=True, slots=True)
class QueueDatabase:
    """The queues of `store` if they are in RocksDB, and a log that will end at `end_offset`. `unfit`: the code of a
    finding on entries that do not fit the log, None without any.
    """

    store: Store
    end_offset: int
    unfit: str | None = None

    @property
    def is_built(self) -> bool:
        """Whether the next start has to build the queues: there is no database, or none that fits the log."""
        return self.store.rocksdb_queues and (not self.store.rocksdb_database or next(self._unusable(), None) is not None)

    @property
    def goes_beyond(self) -> bool:
        """Whether the queues continue after the end of the log."""
        return self.store.rocksdb_queues and any(code == _AHEAD for _, code, _ in self._unusable())

    @property
    def needs_dispatch(self) -> bool:
        """Whether the queues lack records of the log: only a start after a crash dispatches all of them."""
        reached = self._reached
        return reached is not None and reached < self.end_offset

    def plan(self, builder: PlanBuilder, profile: Profile, files: Sequence[MappedFile]) -> None:
        """Plan that the next start builds the queues, where they cannot be used, go beyond the log, or lack records of it.

        `files` are those of the log. Raises RefusedError where that start would not go back far enough, UnreadableError, OSError.
        """
        _note_on_configuration(builder, self.store, profile)
        for report, code, reason in self._unusable():
            for name in report.database.files:
                if name not in KEPT:
                    builder.quarantine(report.database.directory / name, reason=reason, code=code)
        reached = self._reached
        if reached is None or reached >= self.end_offset:
            return
        _require_reach(self.store, profile, sum(file.end > reached for file in files), len(files))
        builder.set_abort(reason="a start after a crash dispatches what the queues in RocksDB lack", code="RMQ-RD-BEHIND")
        if self.is_built:
            builder.note(_BUILT)

    @property
    def _reached(self) -> int | None:
        """The physical offset up to which the queues will know the log, None where they are not in RocksDB, or not known."""
        if not self.store.has_only_rocksdb_queues:
            return None
        return 0 if self.is_built else probe(next(databases(self.store, DatabaseUse.QUEUES))).reached

    def _unusable(self) -> Iterator[tuple[Report, str, str]]:
        """Yield the databases that no broker reads whole or brings to the end of the log, with the finding's code and a reason."""
        for database in databases(self.store, DatabaseUse.QUEUES):
            if not is_needed(self.store, database):
                continue
            report = probe(database)
            alone = next(self.store.queue_directories(), None) is None  # beside file queues it is a second copy
            if report.refused is not None:
                yield report, "RMQ-RD-OPEN", "RocksDB does not open this database of queues"
            elif report.damaged:
                yield report, "RMQ-RD-BLOCK", "RocksDB cannot read this database of queues"
            elif report.unlisted and not self.store.abort_present:
                yield report, "RMQ-RD-UNLISTED", "the MANIFEST of this database of queues lacks tables"
            elif report.reached is not None and report.reached > self.end_offset and alone:
                yield report, _AHEAD, "this database of queues has entries after the end of the log"
            elif self.unfit is not None and alone:
                yield report, self.unfit, "entries of this database of queues do not fit the log"


def _require_reach(store: Store, profile: Profile, needed: int, files: int) -> None:
    """Raise RefusedError where the search of the next start ends before the first file of the log."""
    reach = searched_files(store)
    if profile.limits_search and reach < needed:
        raise RefusedError(
            f"The queues in RocksDB have to be built from the log, and from 5.4.0 on a start reads only the last {reach} of {files} files: "
            "messages of the others would not be served.",
            f"Put commitLogRecoverMaxNum={needed} into the broker.conf of the broker, then run the command again with "
            f"`--set commitLogRecoverMaxNum={needed}` (or with `--broker-conf`); or build them with `rmqstore rebuild-consumequeue`.",
        )


def _note_on_configuration(builder: PlanBuilder, store: Store, profile: Profile) -> None:
    """Add notes on the databases that cannot be read and are not replaced by files."""
    replaced = [one.database for one in replaced_databases(store, profile)]
    for database in databases(store, DatabaseUse.CONFIGURATION):
        if is_needed(store, database) and database not in replaced:
            report = probe(database)
            text = report.refused or next((family.error for family in report.damaged), report.log_damage)
            if text is not None:
                where = store.relative(database.directory)
                builder.note(f"{where} cannot be read, and is left unchanged; restore it from a copy before the next start: {text}")
