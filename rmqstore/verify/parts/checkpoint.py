"""The checkpoint against the log: times and offsets must be of something that was written, and not older than a broker leaves them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rmqstore.findings import Finding
from rmqstore.formats import index
from rmqstore.formats.checkpoint import CHECKPOINT, FILE_SIZE, parse_checkpoint
from rmqstore.formats.layout import fixed_layout
from rmqstore.store.parts import PartKind
from rmqstore.store.window import read_whole
from rmqstore.verify.context import Context
from rmqstore.verify.guard import guarded

_LAYOUT = fixed_layout(CHECKPOINT)

# The log time advances with every "flush everything", each 10 s; the queue time from 5.5.0 on with every full queue flush, each 60 s.
# Both may be skipped once more by the stop itself (fact sheet commit log §4.5, sheet of the newer releases §6).
LOG_LAG_MS = 20_000
QUEUE_LAG_MS = 120_000


class _Time(NamedTuple):
    field: str
    name: str


PHYSIC = _Time("physic_msg_timestamp", "log time (physicMsgTimestamp)")
LOGICS = _Time("logics_msg_timestamp", "queue time (logicsMsgTimestamp)")
INDEX = _Time("index_msg_timestamp", "index time (indexMsgTimestamp)")
OFFSETS = {
    "master_flushed_offset": "masterFlushedOffset",
    "confirm_phy_offset": "confirmPhyOffset",
    "logics_physical_offset": "logicsPhysicalOffset",
}
# -1 is the "not known" of the broker's own fields.
NO_OFFSET = -1


def check(context: Context) -> Iterator[Finding]:
    """Yield findings about `checkpoint`. Reads the file, heads of index files, and the records that its offsets name."""
    store = context.store
    path = store.checkpoint_path
    if not store.covers(PartKind.CHECKPOINT):
        return
    if not os.path.lexists(path):
        yield context.finding("RMQ-CP-MISSING", "there is no checkpoint", file=path)
    elif not path.is_file():
        yield context.finding("RMQ-ST-KIND", "checkpoint is not a file: no release starts", file=path)
    else:
        yield from guarded(context, path, lambda: _file(context))


def _file(context: Context) -> Iterator[Finding]:
    path = context.store.checkpoint_path
    length = path.stat().st_size
    if length != FILE_SIZE:
        message = f"the checkpoint is {length} bytes long instead of {FILE_SIZE}"
        yield context.finding("RMQ-CP-LENGTH", message, file=path, expected=FILE_SIZE, found=length)
    fields = parse_checkpoint(read_whole(path, FILE_SIZE))
    invalid = list(_invalid(context, fields))
    yield from invalid
    # Of a file full of noise one finding is enough.
    if not invalid and context.log.last_timestamp > 0:
        yield from _ahead(context, fields)
        yield from _behind(context, fields)
        yield from _offsets(context, fields)
        yield from _doomed_index_files(context, fields)


def _about(context: Context, code: str, field: str, message: str, **where: Any) -> Finding:
    place = _LAYOUT[field]
    return context.finding(code, message, file=context.store.checkpoint_path, position=place.offset, length=place.width, **where)


def _invalid(context: Context, fields: Any) -> Iterator[Finding]:
    for time in (PHYSIC, LOGICS, INDEX):
        if fields[time.field] < 0:
            yield _about(context, "RMQ-CP-INVALID", time.field, f"the {time.name} is negative", found=fields[time.field])
    for field, name in OFFSETS.items():
        if fields[field] < NO_OFFSET:
            yield _about(context, "RMQ-CP-INVALID", field, f"{name} is negative", found=fields[field])
    used = next((position for position, byte in enumerate(fields.reserved) if byte), None)
    if used is not None:
        position = _LAYOUT["reserved"].offset + used
        message, found = f"byte {position} is not zero, as every release leaves it", fields.reserved[used]
        path = context.store.checkpoint_path
        yield context.finding("RMQ-CP-INVALID", message, file=path, position=position, expected=0, found=found)


def _ahead(context: Context, fields: Any) -> Iterator[Finding]:
    last = context.log.last_timestamp
    for time in (PHYSIC, LOGICS, INDEX):
        value = fields[time.field]
        if value > last:
            message = f"the {time.name} is {value - last} ms later than the last message"
            yield _about(context, "RMQ-CP-AHEAD", time.field, message, expected=last, found=value)


def _behind(context: Context, fields: Any) -> Iterator[Finding]:
    """Yield findings about times that are older than a stop leaves them. Without file queues the queue time is never written."""
    last = context.log.last_timestamp
    lags = {PHYSIC: LOG_LAG_MS, LOGICS: QUEUE_LAG_MS if fields.logics_physical_offset > 0 else LOG_LAG_MS}
    if fields.logics_msg_timestamp == 0 and (context.store.rocksdb_queues or _may_be_first_minute(context, fields)):
        del lags[LOGICS]
    for time, lag in lags.items():
        value = fields[time.field]
        if value < last - lag:
            message = f"the {time.name} is 0" if value == 0 else f"the {time.name} is {last - value} ms before the last message"
            yield _about(context, "RMQ-CP-BEHIND", time.field, message, expected=last, found=value)


def _may_be_first_minute(context: Context, fields: Any) -> bool:
    """Return whether both queue fields may be 0: from 5.5.0 on until the first full flush; `rocksdbstore` is a sign of 5.4.0 and later."""
    log = context.log
    empty = fields.logics_msg_timestamp == 0 and fields.logics_physical_offset == 0 and fields.physic_msg_timestamp > 0
    return empty and log.last_timestamp - log.first_timestamp < QUEUE_LAG_MS and (context.store.root / PartKind.ROCKSDBSTORE).exists()


def _offsets(context: Context, fields: Any) -> Iterator[Finding]:
    confirm = fields.confirm_phy_offset
    # With a controller it is what all replicas have acknowledged, which may end inside a record.
    controlled = (context.store.root / PartKind.EPOCH).exists()
    if not _is_start(context, confirm, or_end=True) and not (controlled and confirm <= context.log.end_offset):
        yield _about(context, "RMQ-CP-OFFSET", "confirm_phy_offset", _offset_message(context, "confirmPhyOffset", confirm), offset=confirm)
    logics = fields.logics_physical_offset
    if not _is_start(context, logics, or_end=False):
        message = _offset_message(context, "logicsPhysicalOffset", logics)
        yield _about(context, "RMQ-CP-OFFSET", "logics_physical_offset", message, offset=logics)


def _is_start(context: Context, offset: int, *, or_end: bool) -> bool:
    """Return whether a record begins there; offsets before the log or in a damaged range cannot be checked and pass."""
    log = context.log
    if offset <= 0 or offset < log.min_offset or log.is_damaged(offset) or (or_end and offset == log.end_offset):
        return True
    return context.record_at(offset) is not None


def _offset_message(context: Context, name: str, offset: int) -> str:
    end = context.log.end_offset
    if offset == end:
        return f"{name} {offset} is the end of the log: no record begins there"
    return f"{name} {offset} is beyond the end of the log, {end}" if offset > end else f"{name} {offset} is not the start of a record"


def _doomed_index_files(context: Context, fields: Any) -> Iterator[Finding]:
    """Yield a finding about the index files that the start after a crash deletes: those that end after the index time."""
    if not context.crashed:
        return
    limit = fields.index_msg_timestamp
    files = [file for file in context.store.index_files() if file.named_right and file.length >= index.HEADER_SIZE]
    ends = {file.path.name: _end_timestamp(file.path) for file in files}
    doomed = sorted(name for name, end in ends.items() if end > limit)
    if doomed:
        names = ", ".join(doomed[:5]) + (", …" if doomed[5:] else "")
        message = f"the start after this crash deletes {len(doomed)} of {len(files)} index files: {names}"
        yield _about(context, "RMQ-CP-INDEX", INDEX.field, message, expected=max(ends.values()), found=limit)


def _end_timestamp(path: Path) -> int:
    return int(index.HEADER.parse(read_whole(path, index.HEADER_SIZE)).end_timestamp)
