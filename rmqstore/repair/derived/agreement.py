"""Agreement of everything that is derived from the log with a future log: queues, index, timer, checkpoint, then `abort`."""

from __future__ import annotations

from collections.abc import Callable

from rmqstore.errors import RefusedError
from rmqstore.formats.naming import TIMER_TOPIC
from rmqstore.repair.derived.checkpoint import plan_abort, plan_checkpoint
from rmqstore.repair.derived.config import FutureQueues, plan_configuration
from rmqstore.repair.derived.consumequeues import LostUnits, QueueWish, choose_queues, plan_queues
from rmqstore.repair.derived.index import choose_index, full_until, plan_index
from rmqstore.repair.derived.judgement import judge, present_log
from rmqstore.repair.derived.rebuild import Rebuilder, rebuild_derived
from rmqstore.repair.derived.rocksdb import goes_beyond, plan_queue_database
from rmqstore.repair.derived.settings_evidence import note_on_log
from rmqstore.repair.derived.timer.plan import plan_timer
from rmqstore.repair.log.future import FutureLog
from rmqstore.repair.plan.builder import PlanBuilder
from rmqstore.repair.plan.staging import Staging
from rmqstore.store.root import Store
from rmqstore.verify.parts.config import EndsOfQueues
from rmqstore.versions import Profile

Advance = Callable[[int], None]
_QUEUES, _INDEX = frozenset({"consumequeue"}), frozenset({"index"})


def plan_derived(
    builder: PlanBuilder,
    staging: Staging,
    store: Store,
    profile: Profile,
    log: FutureLog,
    *,
    lost_units: LostUnits = LostUnits.NEIGHBOUR,
    complete: bool = True,
    advance: Advance = lambda count: None,
    rebuilder: Rebuilder | None = None,
) -> None:
    """Plan what a broker needs to start on the future `log` as after a clean stop, and to change nothing.

    `rebuilder` builds queues and index, without it this process. `advance` is called with the bytes of the log as they are read.
    If `complete`, configuration is restored from its backups, and the next start is one after a clean stop.
    Raises RefusedError, UnreadableError, StoreChangedError, OSError.
    """
    judgement = judge(store, advance=advance, given_up=log.damages)
    queues = choose_queues(store, log, judgement, QueueWish(lost_units=lost_units))
    index = choose_index(store, profile, log, judgement)
    rebuilt = rebuild_derived(
        store, log, profile, staging, queues=queues.request, index=index.requests, advance=advance, rebuilder=rebuilder
    )
    ends = queues.plan(builder, staging, rebuilt.queues)
    index_full_until = index.plan(builder, rebuilt.index)
    plan_timer(builder, staging, store, log, judgement.log.last_timestamp, ends.get((TIMER_TOPIC, 0)))
    plan_configuration(builder, store, FutureQueues(log, ends, EndsOfQueues(store)), restores=complete)
    plan_checkpoint(builder, store, profile, log, index_full_until)  # which depends on whether anything else changes
    if complete or goes_beyond(store, log.end_offset):
        plan_queue_database(builder, store, profile, log.files, log.end_offset)
    if complete:
        plan_abort(builder, store, log)
    about_log = note_on_log(store) if builder.changes_something else None
    if about_log is not None:
        builder.note(about_log)


def plan_rebuilt_queues(
    builder: PlanBuilder,
    staging: Staging,
    store: Store,
    profile: Profile,
    wish: QueueWish,
    advance: Advance = lambda count: None,
    rebuilder: Rebuilder | None = None,
) -> None:
    """Plan queues of the log as it is. Raises RefusedError for a store without file queues, and as `plan_derived` does."""
    if store.rocksdb_queues and next(store.queue_directories(), None) is None:
        raise RefusedError(
            "The queues of this store are kept in RocksDB, which this tool does not write.",
            "A start after a crash dispatches the log again: create an empty file `abort` in the store, and see `rmqstore doctor`.",
        )
    judgement = judge(store, parts=_QUEUES, advance=advance)
    log = present_log(store, judgement.log)
    plan_queues(builder, staging, store, profile, log, judgement, wish, advance=advance, rebuilder=rebuilder)


def plan_rebuilt_index(
    builder: PlanBuilder,
    staging: Staging,
    store: Store,
    profile: Profile,
    *,
    everything: bool,
    advance: Advance = lambda count: None,
    rebuilder: Rebuilder | None = None,
) -> None:
    """Plan the index of the log as it is. Raises as `plan_derived` does."""
    judgement = judge(store, parts=_INDEX, advance=advance)
    log = present_log(store, judgement.log)
    plan_index(builder, staging, store, profile, log, judgement, everything=everything, advance=advance, rebuilder=rebuilder)


def plan_rebuilt_checkpoint(builder: PlanBuilder, store: Store, profile: Profile, advance: Advance = lambda count: None) -> None:
    """Plan a checkpoint for the log and the index as they are. Raises as `plan_derived` does."""
    judgement = judge(store, parts=_INDEX, advance=advance)
    plan_checkpoint(builder, store, profile, present_log(store, judgement.log), full_until(store))
