"""Entries of queues and index, compared with the log where that is small: damage that a start neither makes nor repairs.

Of a larger log the areas name what was not compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rmqstore.doctor.areas import Area, Effect, Harm, State, short_queue
from rmqstore.doctor.checks.progress import Found
from rmqstore.doctor.foresight import next_start
from rmqstore.doctor.predicted import Prediction
from rmqstore.findings import Finding, Severity
from rmqstore.formats.batchconsumequeue import UNIT_SIZE as BATCH_UNIT_SIZE
from rmqstore.formats.consumequeue import UNIT_SIZE
from rmqstore.verify.context import Context, Options
from rmqstore.verify.engine import Verification
from rmqstore.wording import counted

_MOST_QUEUES = 1000
_PARTS = frozenset({"consumequeue", "index"})
# What other checks count: messages of damaged parts of the log, entries that the start writes or not, files that it does not accept.
_COUNTED_ELSEWHERE = frozenset(
    {"RMQ-CQ-LOST", "RMQ-CQ-START", "RMQ-CQ-MISSING", "RMQ-CQ-GONE", "RMQ-CQ-DELETED", "RMQ-CQ-FILELEN", "RMQ-CQ-ZEROLEN", "RMQ-CQ-NAME"}
    | {"RMQ-CQ-ZEROFILE", "RMQ-IX-FILELEN", "RMQ-IX-NAME"}
)
_OF_DATABASE = frozenset({"RMQ-RD-ENTRY", "RMQ-RD-MISSING"})
_NOT_READ = "RocksDB queues were not read"
_COUNTED_BY_THE_START = {"RMQ-CQ-BEYOND": "RMQ-CQ-BEYOND", "RMQ-CQ-BEHIND": "RMQ-CQ-START"}


def check(prediction: Prediction, *, written: bool) -> Iterator[Found]:
    """Yield damage in entries of queues and index, and what was not compared; of a store that is `written` to meanwhile nothing is.

    Raises UnreadableError, StoreChangedError.
    """
    store, scanned = prediction.context.store, prediction.range
    begin, end = store.message_log.min_offset, scanned.start_offset
    yield from _unread_log(prediction, begin, end)
    queues = len(prediction.queues) + len(prediction.batch_queues)
    if written or prediction.sample.unread or queues > _MOST_QUEUES or not prediction.sample.bytes:
        if begin < end and prediction.queues:
            yield Effect(
                Area.QUEUES, State.OK, f"entries of messages before offset {end} were not compared; `rmqstore verify` compares them"
            )
        if any(file.length for file in store.index_files()):
            yield Effect(Area.INDEX, State.OK, "entries were not compared with the log; `rmqstore verify` compares them")
        if store.rocksdb_queues:
            yield Effect(Area.QUEUES, State.NOT_CHECKED, _NOT_READ)
        return
    start = next_start(store, prediction.outcome)
    verification = Verification(store, Options(parts=_PARTS, quick=True, threads=1), foresight=lambda store: start)
    found = list(verification.run())
    if store.rocksdb_queues and not _keeps_database(prediction, verification.context):
        yield Effect(Area.QUEUES, State.NOT_CHECKED, _NOT_READ)
    errors = [one for one in found if one.severity is Severity.ERROR and one.code not in _COUNTED_ELSEWHERE]
    # Of these queues the prediction counts the messages.
    known = {(one.code, one.topic, one.queue_id) for one in prediction.findings()}
    errors = [one for one in errors if (_COUNTED_BY_THE_START.get(one.code), one.topic, one.queue_id) not in known]
    yield from _of_queues([one for one in errors if one.code.startswith("RMQ-CQ-")])
    yield from _of_database([one for one in errors if one.code in _OF_DATABASE])
    yield from _of_index([one for one in errors if one.code.startswith("RMQ-IX-")])


def _keeps_database(prediction: Prediction, compared: Context) -> bool:
    """Return whether entries in RocksDB were compared, and are served after the start, with all that it dispatches.

    Where the log ends earlier than the queues, a broker searches their new ends, and may not find them.
    """
    reached, end = compared.database_reached, compared.log.end_offset
    if reached is None or reached > end or prediction.cuts_log or prediction.outcome.scan is None:
        return False
    return reached == end or prediction.range.start_offset <= reached


def _unread_log(prediction: Prediction, begin: int, end: int) -> Iterator[Effect]:
    """Yield the bytes that a start does not read, in which a damage changes nothing at the start."""
    ranges = [(begin, end)] if begin < end else []
    ranges += [(file.start, file.end) for file in prediction.range.unread]
    if ranges:
        first, more = ranges[0], sum(after - before for before, after in ranges[1:])
        rest = f" and {counted(more, 'byte')} after the range that the start reads" if more else ""
        text = f"bytes {first[0]} to {first[1]}{rest} were not verified; `rmqstore verify` reads them"
        yield Effect(Area.COMMIT_LOG, State.OK, text)


def _of_queues(errors: Sequence[Finding]) -> Iterator[Found]:
    if not errors:
        return
    queues = sorted({(one.topic or "", one.queue_id or 0) for one in errors})
    count = sum(max(1, (one.length or 0) // (BATCH_UNIT_SIZE if one.code == "RMQ-CQ-BATCH" else UNIT_SIZE)) for one in errors)
    where = short_queue(*queues[0]) if len(queues) == 1 else counted(len(queues), "queue")
    match = "entry of {} does not match its message" if count == 1 else "entries of {} do not match their messages"
    text = f"{count} {match.format(where)}"
    yield Effect(Area.QUEUES, State.LOSES, text, Harm.INVISIBLE, count)
    yield from errors


def _of_database(errors: Sequence[Finding]) -> Iterator[Found]:
    if not errors:
        return
    queues = sorted({(one.topic or "", one.queue_id or 0) for one in errors})
    where = short_queue(*queues[0]) if len(queues) == 1 else counted(len(queues), "queue")
    yield Effect(Area.QUEUES, State.LOSES, f"entries of {where} in RocksDB do not match their messages", Harm.INVISIBLE, len(errors))
    yield from errors


def _of_index(errors: Sequence[Finding]) -> Iterator[Found]:
    if not errors:
        return
    files = sorted({one.file or "" for one in errors})
    where = files[0] if len(files) == 1 else counted(len(files), "index file")
    yield Effect(Area.INDEX, State.LOSES, f"queries by key miss messages: {where} is damaged", Harm.UNREACHABLE, len(errors))
    yield from errors
