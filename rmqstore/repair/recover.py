"""Recovery: one plan for log, queues, index, checkpoint and abort, after which a broker starts and changes nothing more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from rmqstore.errors import RefusedError
from rmqstore.prediction.outcome import Outcome
from rmqstore.prediction.simulation import simulate
from rmqstore.repair.compaction.content import plan_content
from rmqstore.repair.compaction.replacement import plan_replacements
from rmqstore.repair.derived.agreement import plan_derived
from rmqstore.repair.derived.config import plan_backups
from rmqstore.repair.derived.consumequeues import LostUnits
from rmqstore.repair.derived.requests import Planning
from rmqstore.repair.dledger.plan import cut_entries, recover_entries
from rmqstore.repair.log.edits import LogRepair, plan_log
from rmqstore.repair.log.epoch import plan_epoch
from rmqstore.repair.log.relocation import Healing
from rmqstore.repair.log.salvage import salvage
from rmqstore.repair.log.segments import LogFiles
from rmqstore.repair.log.survey import FileSurvey
from rmqstore.repair.log.truncate import cut_where_broker_stops, truncate
from rmqstore.repair.minimal import plan_minimal
from rmqstore.repair.obstacles import plan_surroundings
from rmqstore.repair.plan.staging import Staging
from rmqstore.repair.rocksdb.use import QueueDatabase
from rmqstore.repair.sources.copies import Source, configurations, open_copy
from rmqstore.repair.sources.healing import heal
from rmqstore.store.rocksdb.asfiles import queues_in_database
from rmqstore.store.root import DLedgerLog, Store
from rmqstore.wording import counted

_IN_ROCKSDB = (
    "The queues are kept in RocksDB, whose entries are not changed: a consumer that reaches a lost message gets its placeholder, or bytes "
    "that are not a message where it is unknown where the message began."
)
_NOT_READ = "The database of the queues was not read: lost messages that only its entries would show are not listed."


class Strategy(StrEnum):
    """The treatment of damage in the log."""

    SALVAGE = "salvage"
    """Damage is repaired where that is certain, else plugged: everything valid is kept."""
    BROKER = "broker"
    """The log is cut where the recovery of the broker stops, as a start would do, and everything else is made to agree."""
    MINIMAL = "minimal"
    """Only what keeps every broker from starting is removed or corrected; recovery is left to the next start."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """A request for recovery: the release of the broker, the treatment of damage, and of the queue entries of lost messages.

    `copies`: other copies of the log, from which damaged records are taken; with `extend` also those after its end.
    """

    release: str
    strategy: Strategy = Strategy.SALVAGE
    lost_units: LostUnits = LostUnits.NEIGHBOUR
    copies: tuple[Source, ...] = ()
    extend: bool = False

    def plan(self, planning: Planning, store: Store) -> None:
        """Plan the recovery. Raises RefusedError, UnreadableError, StoreChangedError, OSError."""
        builder = planning.builder
        plan_surroundings(builder, store)
        if store.dledger is not None:
            self._plan_dledger(planning, store, store.dledger)
            return
        replaced = plan_replacements(planning, store)
        if self.strategy is Strategy.MINIMAL:
            plan_backups(builder, store)
            plan_minimal(planning, store)
            QueueDatabase(store, store.commitlog.max_offset).plan(builder, planning.profile, store.commitlog.files)
            return
        repair = self._log_repair(planning, store)
        plan_log(builder, repair)
        plan_content(planning, store, repair.future, left_out=replaced)
        # With a log, only copies that were proven to be of the same one come so far.
        is_proven = self.strategy is Strategy.SALVAGE and bool(repair.future.files)
        copies = configurations(self.copies) if is_proven else ()
        plan_derived(planning, repair.store or store, repair.future, lost_units=self.lost_units, copies=copies)

    def _plan_dledger(self, planning: Planning, store: Store, log: DLedgerLog) -> None:
        """Plan the recovery of a member of a DLedger group, whose log other members can complete."""
        if self.strategy is not Strategy.SALVAGE:
            raise RefusedError(
                f"--strategy {self.strategy} is not for a member of a DLedger group: the group decides what it loses.",
                "Use --strategy salvage; `rmqstore truncate` cuts the log where a member that starts stops reading.",
            )
        _require_no_plain_log(store)
        future = recover_entries(planning, store, log, self.copies)
        plan_derived(planning, store, future, lost_units=self.lost_units)

    def _log_repair(self, planning: Planning, store: Store) -> LogRepair:
        """Return the repair of the log, and add notes that compare it with a start of the broker."""
        builder, advance = planning.builder, planning.advance
        outcome = simulate(store, self.release)
        if self.strategy is Strategy.BROKER:
            if outcome.scan is None:
                raise RefusedError(
                    f"It is unknown where a broker of {self.release} would cut the log: {outcome.unknown or 'it does not get so far'}.",
                    "Use --strategy salvage, or --strategy minimal first.",
                )
            repair = cut_where_broker_stops(store, self.release, outcome.scan.stop_offset, advance=advance)
            plan_epoch(builder, store, repair.future.end_offset)
        else:
            placeholders = self.lost_units is LostUnits.PLACEHOLDER
            heal = partial(self._heal, store, planning.staging) if self.copies else None
            with queues_in_database(store) as held:  # their entries are evidence, like those of queue files
                repair = salvage(
                    store if held is None else store.with_queues(held.directories()),
                    self.release,
                    staging=planning.staging,
                    placeholders=placeholders,
                    queues_stay=store.rocksdb_queues,
                    heal=heal,
                    advance=advance,
                )
            if held is None and store.rocksdb_queues:
                builder.note(_NOT_READ)
            elif held is not None and repair.store is not None:
                repair = replace(repair, store=repair.store.with_queues(None))
        if repair.future.damages and store.rocksdb_queues:
            builder.note(_IN_ROCKSDB)
        if repair.lost or outcome.starts is not True or (outcome.lost is not None and outcome.lost.messages):
            builder.note(f"{self.strategy}: {counted(len(repair.lost), 'message')} lost. {_what_a_start_does(outcome)}")
        return repair

    def _heal(self, store: Store, staging: Staging, log: LogFiles, results: Sequence[FileSurvey]) -> Healing:
        copies = [open_copy(source, store, log.file_size) for source in self.copies]
        return heal(store, log, results, copies, staging, extend=self.extend)


def plan_truncate(planning: Planning, store: Store, *, at: int | None) -> None:
    """Plan to cut the log at physical offset `at`, or after its last valid record, and everything derived from it.

    `abort` stays as it is, but is set for queues in RocksDB that have to be built.
    Raises RefusedError, UnreadableError, StoreChangedError, OSError.
    """
    if store.dledger is not None:
        _require_no_plain_log(store)
        plan_derived(planning, store, cut_entries(planning, store, store.dledger, at), complete=False)
        return
    repair = truncate(store, planning.builder.broker_version, at, advance=planning.advance)
    plan_log(planning.builder, repair)
    if repair.lost:
        plan_epoch(planning.builder, store, repair.future.end_offset)
    plan_derived(planning, store, repair.future, complete=False)


def _require_no_plain_log(store: Store) -> None:
    """Raise RefusedError for a store whose log begins with plain files, which DLedger continues."""
    if store.commitlog.files:
        raise RefusedError(
            "The log of this store begins with plain files and continues with those of DLedger; both together are not repaired.",
            "Copy the store of a healthy member, or let the group rebuild this one from an empty store.",
        )


def _what_a_start_does(outcome: Outcome) -> str:
    """Return a sentence about a broker start without a repair."""
    release = outcome.release
    if outcome.starts is None:
        return f"It is unknown what a broker of {release} would do: {outcome.unknown}."
    lost = outcome.lost.messages if outcome.lost is not None else 0
    starts = "starts on the store as it is" if outcome.starts else "does not start on the store as it is"
    thrown = f"{lost} valid message{'s' * (lost != 1)}" if lost else "no valid message"
    return f"A broker of {release} {starts} and discards {thrown}."
