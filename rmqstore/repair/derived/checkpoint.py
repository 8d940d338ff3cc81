"""Plans for the checkpoint and for `abort`: as a clean stop leaves them, so that the next start neither cuts nor deletes anything."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rmqstore.catalogue import CATALOGUE
from rmqstore.findings import Finding, Severity
from rmqstore.formats.checkpoint import CHECKPOINT, parse_checkpoint
from rmqstore.formats.layout import fixed_layout
from rmqstore.formats.sysflag import SysFlag
from rmqstore.rebuild import CheckpointValues
from rmqstore.repair.derived.rebuild import records_of
from rmqstore.repair.log.future import FutureLog
from rmqstore.repair.plan.builder import PlanBuilder
from rmqstore.repair.rocksdb.use import QueueDatabase
from rmqstore.store.parts import PartKind
from rmqstore.store.root import Store
from rmqstore.store.window import read_whole
from rmqstore.verify.context import Context, LogFacts, Options
from rmqstore.verify.parts import checkpoint as judging
from rmqstore.verify.parts.checkpoint import NO_OFFSET
from rmqstore.versions import Profile

_CONFIRM_LONGS = 5
_LOGICS_OFFSET_LONGS = 6
_FILE_LENGTH = 4096
_INDEX = "RMQ-CP-INDEX"
_LAYOUT = fixed_layout(CHECKPOINT)
_DAMAGED = frozenset({"RMQ-CP-INVALID", "RMQ-CP-LENGTH", "RMQ-CP-OFFSET"})
"""Findings that the bytes of the file, and not only its age, are wrong."""


@dataclass(frozen=True, slots=True)
class Place:
    """Physical offset of a record and its STORETIMESTAMP (ms)."""

    offset: int
    store_timestamp: int


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The last record of a log, and the last one that has a place in a queue; None without one."""

    last: Place | None = None
    last_queued: Place | None = None


def plan_checkpoint(builder: PlanBuilder, store: Store, profile: Profile, log: FutureLog, full_until: int, database: QueueDatabase) -> None:
    """Plan a checkpoint for the future `log`, if the present one is not right. Raises UnreadableError, StoreChangedError.

    `full_until`: end timestamp (ms) of the last full index file there will be, 0 for none. Values that every start writes are no reason to
    change a valid store; where something changes anyway, they are written as that start would, which then changes nothing.
    """
    end = log_end(store, log)
    path = store.checkpoint_path
    data = read_whole(path, _FILE_LENGTH) if path.is_file() else b""
    fields = parse_checkpoint(data)
    finding = _wrong(store, log, end)
    code = finding.code if finding is not None else _INDEX
    confirm = _confirmed(store, profile, fields.confirm_phy_offset, log, end, database)
    if finding is not None or fields.index_msg_timestamp < full_until:
        flushed = _master_flushed(fields.master_flushed_offset, finding, log)
        if fields.master_flushed_offset not in (flushed, NO_OFFSET):
            builder.note(
                f"masterFlushedOffset of the checkpoint, {fields.master_flushed_offset}, is not reliable and becomes 0, as after an "
                "upgrade: nothing in the store proves it, no start of a master reads it, and a slave gets it from its master."
            )
        values = _values(profile, flushed, end, full_until, confirm)
        builder.write_checkpoint(values.encode(), reason=CATALOGUE[code].title, code=code)
    elif confirm != fields.confirm_phy_offset and (builder.changes_something or _loses_abort(store, database)):
        place = _LAYOUT["confirm_phy_offset"]
        builder.write(path, place.offset, confirm.to_bytes(place.width, "big"), reason="the last record of the log, as every start has it")


def plan_abort(builder: PlanBuilder, store: Store, database: QueueDatabase) -> None:
    """Plan to remove `abort`: everything agrees, so the next start may be a normal one, unless it has to build queues in RocksDB."""
    if _loses_abort(store, database):
        builder.remove_abort(reason="log, queues and index agree, so the next start need not recover from a crash")


def _loses_abort(store: Store, database: QueueDatabase) -> bool:
    return store.abort_present and not database.needs_dispatch


def log_end(store: Store, log: FutureLog) -> LogEnd:
    """Return the end of the log. Reads its last file, and earlier ones while they hold none of the records asked for."""
    end = LogEnd()
    for file in reversed(log.files):
        if file.start >= log.end_offset:
            continue
        here = _end_of(store, replace(log, files=(file,)))
        end = LogEnd(end.last or here.last, end.last_queued or here.last_queued)
        if end.last_queued is not None:
            break
    return end


def _end_of(store: Store, log: FutureLog) -> LogEnd:
    last = queued = None
    for batch in records_of(store, log, keys=False):
        records = batch.records
        last = Place(int(records["position"][-1]), int(records["store_timestamp"][-1]))
        rows = (records["sys_flag"] & int(SysFlag.TRANSACTION_PREPARED)) == 0
        if rows.any():
            row = records[rows][-1]
            queued = Place(int(row["position"]), int(row["store_timestamp"]))
    return LogEnd(last, queued)


def _wrong(store: Store, log: FutureLog, end: LogEnd) -> Finding | None:
    """Return the first finding of verification on the checkpoint of a broker that stopped cleanly on the future log."""
    context = Context(store, Options(crashed=False))
    last = end.last.store_timestamp if end.last is not None else 0
    context.log = LogFacts(log.min_offset, log.end_offset, last_timestamp=last, damages=list(log.damages))
    return next((finding for finding in judging.check(context) if finding.severity is not Severity.INFO), None)


def _confirmed(store: Store, profile: Profile, found: int, log: FutureLog, end: LogEnd, database: QueueDatabase) -> int:
    """Return the confirm offset that a start on the future log sets: that of the last record, whatever it is (fact sheet commit log §5.5).

    With a controller, whose brokers have an epoch file, it is what all replicas have, and stays if it is possible.
    """
    if profile.checkpoint_longs < _CONFIRM_LONGS:
        return found
    if (store.root / PartKind.EPOCH).exists() and 0 < found < log.end_offset and log.record_at(found) is not None:
        return found
    last = end.last.offset if end.last is not None else None
    position = log.min_offset if last is None else last
    while position < log.end_offset:
        record = log.record_at(position)
        file = log.queue.find(position)
        if record is not None:
            last, position = position, position + record.size
        elif file is not None:
            position = file.end
        else:
            break
    return _confirmed_without_records(store, profile, log, database) if last is None else last


def _confirmed_without_records(store: Store, profile: Profile, log: FutureLog, database: QueueDatabase) -> int:
    """Return the confirm offset that a start sets on a log without records: after a clean stop, all of its files count as full."""
    if not log.files or (store.abort_present and not _loses_abort(store, database)):
        return log.min_offset
    if profile.sync_flush_confirms_flushed and store.config.text("flushDiskType") == "SYNC_FLUSH":
        return 0
    return log.files[-1].end


def _master_flushed(found: int, finding: Finding | None, log: FutureLog) -> int:
    """Return masterFlushedOffset, which only a master knows: as it is, but 0 if impossible or where other bytes of the file are damaged."""
    damaged = finding is not None and finding.code in _DAMAGED
    return found if not damaged and 0 <= found <= log.end_offset else 0


def _values(profile: Profile, flushed: int, end: LogEnd, full_until: int, confirm: int) -> CheckpointValues:
    """Return the values that a clean stop leaves."""
    last, queued = end.last, end.last_queued
    return CheckpointValues(
        physic_msg_timestamp=last.store_timestamp if last is not None else 0,
        logics_msg_timestamp=queued.store_timestamp if queued is not None else 0,
        index_msg_timestamp=full_until,
        master_flushed_offset=flushed,
        confirm_phy_offset=confirm if profile.checkpoint_longs >= _CONFIRM_LONGS else 0,
        logics_physical_offset=queued.offset if queued is not None and profile.checkpoint_longs >= _LOGICS_OFFSET_LONGS else 0,
    )
