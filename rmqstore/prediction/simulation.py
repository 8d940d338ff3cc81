"""One start of a broker, from the load to the stop: the steps in the broker's order, each implemented in its own module.

Source: `DefaultMessageStore.load`, `start`, `shutdown`; fact sheet commit log §4.1, §6, §10 (the recipe).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rmqstore.formats.dledger import ENTRY_HEADER_SIZE
from rmqstore.prediction.blockers import Blocker, BlockerCode, BrokerKilled, LoadStopped, Unknown
from rmqstore.prediction.changes import Changes
from rmqstore.prediction.checkpoint import Checkpoint
from rmqstore.prediction.compaction import check_compaction
from rmqstore.prediction.growth import goes_on
from rmqstore.prediction.indexes import IndexService
from rmqstore.prediction.log.commitlog import CommitLogRecovery
from rmqstore.prediction.log.firstfile import FirstFile
from rmqstore.prediction.log.limits import known_in_rocksdb
from rmqstore.prediction.log.mappedfiles import MappedFiles, SimulatedFile
from rmqstore.prediction.log.member import MemberRecovery
from rmqstore.prediction.log.reader import LogReader
from rmqstore.prediction.log.record_check import RecordCheck
from rmqstore.prediction.losses import NOTHING_LOST, Lost, lost_records
from rmqstore.prediction.options import Options
from rmqstore.prediction.outcome import Dispatched, Mode, Outcome, QueueState, Scan, State
from rmqstore.prediction.places import Places, known_to, places_of
from rmqstore.prediction.queues.dispatch import Dispatcher
from rmqstore.prediction.queues.reput import Reput
from rmqstore.prediction.queues.rocksdb import EVERYTHING_KNOWN, NOTHING_KNOWN, RocksDBQueues, agreed, state_of
from rmqstore.prediction.queues.service import QueueStore
from rmqstore.prediction.surroundings import Surroundings
from rmqstore.store.brokerconf import ROCKSDB_STORE
from rmqstore.store.mapped import MappedFile
from rmqstore.store.rocksdb.databases import DatabaseUse
from rmqstore.store.root import Store
from rmqstore.versions import Profile, profile_of


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Hypothetical changes to a store: None leaves `abort` as it is, `checkpoint_removed` starts without the file."""

    abort: bool | None = None
    checkpoint_removed: bool = False


def simulate(store: Store, release: str, what_if: WhatIf | None = None, *, counts_lost: bool = True) -> Outcome:
    """Simulate the next start and stop of a broker of `release` on `store`. Writes nothing.

    Counting what is lost requires reading everything after the end that recovery finds, which a broker does not; without
    `counts_lost` nothing is read that it does not read, and `lost` is None.

    Raises UsageError for an unknown release, UnreadableError and StoreChangedError if files cannot be read.
    """
    what_if = what_if or WhatIf()
    if not _in_rocksdb(store, profile_of(release)):
        return _Start(store, release, what_if, counts_lost=counts_lost).run()
    state = state_of(store, DatabaseUse.QUEUES, profile_of(release))
    bounds = (NOTHING_KNOWN, EVERYTHING_KNOWN)
    known = bounds if state.reached is None else (state.reached, state.reached)
    dispatched = bounds if Options.of(store.config).recheck_reput_offset_from_cq else known
    runs = sorted(set(zip(known, dispatched, strict=True)))  # one, or the least and the most
    outcomes = [_Start(store, release, what_if, RocksDBQueues(*ends, state), counts_lost=counts_lost).run() for ends in runs]
    return agreed(outcomes[0], outcomes[-1])


def _in_rocksdb(store: Store, profile: Profile) -> bool:
    """Return whether the broker keeps the queues in RocksDB: by its setting, else if there is a database and no file queue."""
    if not profile.rocksdb_queues:
        return False
    if store.config.explicit("storeType") is None:
        return store.has_only_rocksdb_queues
    return store.config.text("storeType") == ROCKSDB_STORE


_LONGEST_V1 = 127
"""Bytes of a topic that a V1 record can hold; only records of longer ones are V2."""


class _Start:
    """The broker's memory while it starts."""

    def __init__(
        self, store: Store, release: str, what_if: WhatIf, rocksdb: RocksDBQueues | None = None, *, counts_lost: bool = True
    ) -> None:
        self._counts_lost = counts_lost
        self._store = store
        self._release = release
        self._profile: Profile = profile_of(release)
        self._options = Options.of(store.config)
        self._places: Places = known_to(places_of(store), store, self._profile)
        self._changes = Changes()
        places, profile, options = self._places, self._profile, self._options
        ledger = store.dledger
        if ledger is None:
            self._log = MappedFiles(places.commitlog, places.commitlog_file_size, self._changes)
        else:
            self._log = MappedFiles((ledger.directory / "data",), ledger.data.file_size or 0, self._changes)
        self._queues = rocksdb or QueueStore(places.queues, profile, self._changes)
        self._checkpoint = Checkpoint(store.checkpoint_path, profile, removed=what_if.checkpoint_removed)
        self._index = IndexService(places.index, profile, places.index_slots, places.index_items, self._changes)
        self._dispatcher = Dispatcher(profile, options, self._queues, self._index, self._checkpoint)
        self._surroundings = Surroundings(store, profile, options, self._changes, abort=what_if.abort)
        self._recovery: CommitLogRecovery | MemberRecovery | None = None
        self._member = None if ledger is None else MemberRecovery(ledger, self._log, self._queues, self._dispatcher, profile)
        self._reput = Reput(
            self._log,
            self._dispatcher,
            LogReader(RecordCheck.of_dispatch(profile, options)),
            profile,
            skips_bad_records=options.skips_bad_records,
        )
        self._blockers: list[Blocker] = []
        self._confirm_field = -1
        self._listed: list[SimulatedFile | MappedFile] = []
        self._queue_ends: dict[tuple[str, int], int] = {}
        self._unknown: str | None = None
        self._gone = False
        """The process died or hangs: no stop routine runs."""

    def run(self) -> Outcome:
        """Run load, start and stop."""
        mode = Mode.ABNORMAL if self._surroundings.abort_present else Mode.NORMAL
        load_ok = self._attempt(self._load_configuration) and self._attempt(lambda: self._load(mode))
        after_load = self._state()
        after_start, started, caught_up = None, False, None
        if load_ok:
            started = self._attempt(self._start)
            after_start = self._state()
            caught_up = self._behind() <= 0 if started else None
        stopped = not self._gone and self._unknown is None and (started or self._profile.failed_load_stops_store)
        abort_after = self._stop(started=started) if stopped else self._surroundings.abort_present
        self._settle(stopped=stopped)
        scan = self._recovery.scan if self._recovery is not None else None
        return Outcome(
            release=self._release,
            mode=mode,
            starts=None if self._unknown else load_ok and started,
            unknown=self._unknown,
            load_ok=load_ok,
            blockers=tuple(self._blockers),
            scan=scan,
            queue_ends=self._queue_ends,
            after_load=after_load,
            after_start=after_start,
            caught_up=caught_up,
            dispatched_in_load=self._recovery.dispatched if self._recovery is not None else Dispatched(),
            dispatched_after_start=self._reput.dispatched if after_start is not None else None,
            changes=self._changes.listed(self._store.root) if self._unknown is None else {},
            index_deleted=tuple(self._index.deleted),
            abort_after_stop=abort_after,
            checkpoint_after=self._checkpoint.in_file(),
            lost=self._lost(scan) if self._counts_lost else None,
        )

    def _lost(self, scan: Scan | None) -> Lost:
        end = scan.stop_offset if scan is not None else self._log.max_offset if self._log.ignored else None
        lost = NOTHING_LOST if end is None else lost_records(self._listed, end)
        return NOTHING_LOST if scan is not None and lost.messages and goes_on(self._store, self._release, scan) else lost

    def _attempt(self, steps: Callable[[], bool]) -> bool:
        """Return whether the steps succeed; keep what stops them."""
        try:
            return steps()
        except Unknown as unknown:
            self._unknown = str(unknown)
        except BrokerKilled as stopped:
            self._gone = True
            self._blockers.append(stopped.blocker)
        except LoadStopped as stopped:
            self._blockers.append(stopped.blocker)
        return False

    # load

    def _load_configuration(self) -> bool:
        """Open the databases of the configuration, as the broker does before it constructs the store; it ends if that fails."""
        if self._profile.rocksdb_queues:
            state = state_of(self._store, DatabaseUse.CONFIGURATION, self._profile)
            if state.stop is not None:
                raise BrokerKilled(state.stop.code, state.stop.message, state.stop.file)
            state.require_open()
        self._surroundings.construct()
        return True

    def _load(self, mode: Mode) -> bool:
        """Run the steps of `load()`. Raises LoadStopped, Unknown."""
        if self._options.enable_controller_mode:
            raise Unknown("a controller decides how far the log is confirmed")
        if self._options.enable_dledger_commit_log and self._member is None:
            raise Unknown("the commit log is that of a DLedger group, and this member has none yet")
        if self._profile.delay_table_in_recovery and not self._surroundings.load_schedule(self._blockers):
            return False
        if self._member is not None:
            self._require_member_alone()
            self._member.load()
        else:
            self._log.load(self._profile)
            self._listed = [*self._log.files, *self._log.ignored]
        self._queues.load()
        if self._profile.compaction and self._options.enable_compaction:
            check_compaction(self._store)
        self._checkpoint.load(self._changes)
        if self._profile.confirms:
            self._confirm_field = self._checkpoint.values["confirm_phy_offset"]
        index_ok = self._load_index(mode)
        self._recover(mode)
        return self._surroundings.load_schedule(self._blockers) and index_ok

    def _load_index(self, mode: Mode) -> bool:
        try:
            self._index.load(last_exit_ok=mode is Mode.NORMAL, index_msg_timestamp=self._checkpoint.values["index_msg_timestamp"])
        except LoadStopped as stopped:
            if self._profile.index_load_decides:
                self._blockers.append(stopped.blocker)
                return False
        return True

    def _recover(self, mode: Mode) -> None:
        self._queues.recover()
        self._queue_ends = {(queue.topic, queue.queue_id): queue.max_offset for queue in self._queues}
        if self._member is not None:
            self._recover_member(self._member, mode)
            return
        reader = LogReader(RecordCheck.of_recovery(self._profile, self._options))
        self._recovery = CommitLogRecovery(
            self._log,
            self._queues,
            self._dispatcher,
            self._checkpoint,
            reader,
            self._profile,
            self._options,
            self._confirm_field,
            self._confirm_offset(),
            known_in_rocksdb(self._store, self._profile),
        )
        try:
            self._recovery.run(normally=mode is Mode.NORMAL)
        finally:
            self._confirm_field = self._recovery.confirm_offset
        self._queues.recover_offset_table(self._log.min_offset)
        if self._counts_unconfirmed() and any(len(queue.topic.encode("utf-8", "surrogateescape")) > _LONGEST_V1 for queue in self._queues):
            raise Unknown("with duplicationEnable a start fails on records of long topics after the confirmed end")

    def _require_member_alone(self) -> None:
        """Raise Unknown if it is not known whether the broker is a member, or has a commit log as well."""
        if self._store.config.explicit("enableDLegerCommitLog") is not None and not self._options.enable_dledger_commit_log:
            raise Unknown("there is the log of a member of a DLedger group, and enableDLegerCommitLog=false")
        if self._store.commitlog.files:
            raise Unknown("there is a commit log beside that of a DLedger group")

    def _recover_member(self, member: MemberRecovery, mode: Mode) -> None:
        self._recovery = member
        check = RecordCheck.of_recovery(self._profile, self._options)
        max_cq = self._queues.max_physic_offset
        rules = FirstFile(self._profile, self._options, check, self._checkpoint, max_cq, self._queues.in_rocksdb, lead=ENTRY_HEADER_SIZE)
        member.run(rules, normally=mode is Mode.NORMAL)
        self._queues.recover_offset_table(self._log.min_offset)

    def _counts_unconfirmed(self) -> bool:
        """Return whether queue offsets of records after the confirmed end are counted twice, by a reader that knows no V2 records."""
        return self._profile.confirms and self._options.duplication_enable and self._confirm_field < self._log.max_offset

    # start

    def _start(self) -> bool:
        """Run the steps of `start()`. Raises Unknown."""
        self._surroundings.lock()
        profile = self._profile
        from_queues = profile.reput_from_queues or (profile.confirms and self._options.recheck_reput_offset_from_cq)
        self._reput.offset = self._dispatched_before(from_queues=from_queues)
        if self._member is not None:
            self._member.dispatch(self._reput.offset, RecordCheck.of_dispatch(profile, self._options), self._reput.dispatched)
            self._reput.offset = self._log.max_offset
        else:
            self._reput.run(self._reput_end())
        if from_queues:
            if self._behind() > 0:
                self._gone = True
                text = f"start() waits forever: nothing can be dispatched at {self._reput.offset}, the log ends at {self._log.max_offset}"
                self._blockers.append(Blocker(BlockerCode.DISPATCH_STUCK, text))
                return False
            self._queues.recover_offset_table(self._log.min_offset)
        return self._surroundings.create_abort(self._blockers)

    def _dispatched_before(self, *, from_queues: bool) -> int:
        """Return the offset at which dispatch continues after a start."""
        if from_queues:
            return max(self._log.min_offset, self._queues.dispatched_until, 0)
        if self._member is not None:
            return self._member.committed()
        if self._profile.confirms or self._options.duplication_enable:
            return self._confirm_offset()
        return self._log.max_offset

    def _confirm_offset(self) -> int:
        """Return `getConfirmOffset()` without a controller (commit log §5.5)."""
        if self._member is not None:
            return self._log.max_offset
        if not self._profile.confirms or self._options.duplication_enable:
            return self._confirm_field
        if self._profile.sync_flush_confirms_flushed and self._options.sync_flush:
            return self._log.flushed_where
        return self._log.max_offset

    def _reput_end(self) -> int:
        """Return the offset up to which the dispatcher runs."""
        if self._profile.confirms:
            return self._log.max_offset if self._options.read_uncommitted else self._confirm_offset()
        # Nothing is confirmed yet, and with duplication nothing unconfirmed is dispatched.
        return self._confirm_field if self._options.duplication_enable else self._log.max_offset

    def _behind(self) -> int:
        """Return `dispatchBehindBytes()`."""
        end = self._confirm_offset() if self._profile.confirms else self._log.max_offset
        return end - self._reput.offset

    # stop

    def _stop(self, *, started: bool) -> bool:
        """Run the stop routine and return whether `abort` exists afterwards."""
        if started:
            self._checkpoint.queues_flushed()
        if self._checkpoint.loaded:
            self._checkpoint.flush()
        return self._surroundings.stop(started=started, sound=self._behind() == 0 and not self._queues.write_error)

    def _settle(self, *, stopped: bool) -> None:
        self._queues.settle()
        self._index.settle(flushed=stopped and self._profile.flushes_index)
        self._checkpoint.settle(self._changes)

    # results

    def _state(self) -> State:
        files = tuple((file.path.name, file.wrote) for file in self._log.files)
        queues = {
            f"{queue.topic}/{queue.queue_id}": QueueState(
                queue.min_offset,
                queue.max_offset,
                queue.max_physic_offset,
                queue.min_logic_offset,
                len(queue.files.files),
                queue.shifted,
                queue.filled_until,
            )
            for queue in self._queues
        }
        return State(
            min_phy_offset=self._log.min_offset,
            max_phy_offset=self._log.max_offset,
            flushed_where=self._log.flushed_where,
            confirm_offset=self._confirm_offset(),
            confirm_field=self._confirm_field,
            reput_from_offset=self._reput.offset,
            dispatch_behind_bytes=self._behind(),
            commitlog_files=files,
            queues=queues,
            next_offsets=dict(self._queues.next_offsets),
            index_files=tuple(file.header() for file in self._index.files),
        )
