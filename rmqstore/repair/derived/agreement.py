"""Agreement of everything that is derived from the log with a future log: queues, index, timer, transactions, checkpoint, then `abort`."""

from __future__ import annotations

from collections.abc import Sequence

from rmqstore.errors import RefusedError
from rmqstore.formats.naming import TIMER_TOPIC
from rmqstore.repair.derived.checkpoint import plan_abort, plan_checkpoint
from rmqstore.repair.derived.config import FutureQueues, plan_configuration
from rmqstore.repair.derived.consumequeues import LostUnits, QueueWish, choose_queues, plan_queues
from rmqstore.repair.derived.index import choose_index, full_until, plan_index
from rmqstore.repair.derived.judgement import judge, present_log
from rmqstore.repair.derived.rebuild import rebuild_derived
from rmqstore.repair.derived.requests import Planning
from rmqstore.repair.derived.rescue.sources import ConfigCopy
from rmqstore.repair.derived.settings_evidence import note_on_log
from rmqstore.repair.derived.timer.plan import plan_timer
from rmqstore.repair.log.future import FutureLog
from rmqstore.repair.rocksdb.messages import plan_messages
from rmqstore.repair.rocksdb.plan import plan_new_database
from rmqstore.repair.rocksdb.use import QueueDatabase
from rmqstore.store.root import Store
from rmqstore.verify.parts.config import EndsOfQueues

_QUEUES, _INDEX = frozenset({"consumequeue"}), frozenset({"index"})


def plan_derived(
    planning: Planning,
    store: Store,
    log: FutureLog,
    *,
    lost_units: LostUnits = LostUnits.NEIGHBOUR,
    complete: bool = True,
    copies: Sequence[ConfigCopy] = (),
) -> None:
    """Plan what a broker needs to start on the future `log` as after a clean stop, and to change nothing.

    If `complete`, configuration is restored from its backups, or from `copies`, and the next start is one after a clean stop.
    Raises RefusedError, UnreadableError, StoreChangedError, OSError.
    """
    builder, profile = planning.builder, planning.profile
    judgement = judge(store, advance=planning.advance, given_up=log.damages)
    queues = choose_queues(store, log, judgement, QueueWish(lost_units=lost_units))
    index = choose_index(store, profile, log, judgement)
    rebuilt = rebuild_derived(planning, store, log, queues=queues.request, index=index.requests)
    ends = queues.plan(builder, rebuilt.queues)
    index_full_until = index.plan(builder, rebuilt.index)
    plan_timer(builder, store, log, judgement.log.last_timestamp, ends.get((TIMER_TOPIC, 0)))
    plan_messages(planning, store, log, judgement)
    plan_configuration(builder, store, FutureQueues(log, ends, EndsOfQueues(store)), restores=complete, copies=copies)
    database = queues.database
    plan_checkpoint(builder, store, profile, log, index_full_until, database)  # which depends on whether anything else changes
    if complete or database.goes_beyond:
        database.plan(builder, profile, log.files)
    if complete:
        plan_abort(builder, store, database)
    about_log = note_on_log(store) if builder.changes_something else None
    if about_log is not None:
        builder.note(about_log)


def plan_rebuilt_queues(planning: Planning, store: Store, wish: QueueWish) -> None:
    """Plan queues of the log as it is. Raises RefusedError for single queues of a database, and as `plan_derived` does."""
    judgement = judge(store, parts=_QUEUES, advance=planning.advance)
    if store.has_only_rocksdb_queues:
        if wish.topics or wish.queues:
            raise RefusedError("The queues of this store are in one RocksDB database.", "Rebuild all of them: name no topic and no queue.")
        if judgement.database or not (wish.only_needed or wish.only_missing) or not store.rocksdb_database:
            plan_new_database(planning, store)
        return
    plan_queues(planning, store, present_log(store, judgement.log), judgement, wish)


def plan_rebuilt_index(planning: Planning, store: Store, *, everything: bool) -> None:
    """Plan the index of the log as it is. Raises as `plan_derived` does."""
    judgement = judge(store, parts=_INDEX, advance=planning.advance)
    plan_index(planning, store, present_log(store, judgement.log), judgement, everything=everything)


def plan_rebuilt_checkpoint(planning: Planning, store: Store) -> None:
    """Plan a checkpoint for the log and the index as they are. Raises as `plan_derived` does."""
    judgement = judge(store, parts=_INDEX, advance=planning.advance)
    log = present_log(store, judgement.log)
    plan_checkpoint(planning.builder, store, planning.profile, log, full_until(store), QueueDatabase(store, log.end_offset))
