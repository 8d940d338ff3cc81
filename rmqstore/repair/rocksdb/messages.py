"""A new database of index, timed messages and transactions, for a store whose own is damaged, missing or lacks what the log has.

A broker of 5.4.0 or later keeps what it writes to `rocksdbstore` in memory until a stop or a full table [R 5.5.1]: a kill loses it. The
next start indexes only the files of the log that it searches, and delivers the timed messages of all that time again. After a start as
of a clean stop the index lacks them for good. The log has all of it (sheet of the newer releases §5.2, §7.2, §7.3).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from rmqstore.formats.indexentry import FAMILY as INDEX
from rmqstore.formats.naming import ROCKSDB_HALF_TOPIC
from rmqstore.formats.rocksdb import (
    DELIVERED_KEY,
    HALF_ENTRY,
    LAST_OFFSET_KEY,
    SCANNED_KEY,
    TIMELINE_ENTRY,
    TIMELINE_KEY,
)
from rmqstore.reading.rocksdb.halves import FAMILY as HALVES
from rmqstore.reading.rocksdb.halves import HALF_TOPICS, Halves, place_of
from rmqstore.reading.rocksdb.timeline import FAMILY as TIMER
from rmqstore.reading.rocksdb.timeline import timeline_of
from rmqstore.repair.derived.judgement import Judgement
from rmqstore.repair.derived.requests import Planning
from rmqstore.repair.derived.timer.rebuilt import messages_of
from rmqstore.repair.log.future import FutureLog
from rmqstore.repair.rocksdb.content import Content, Pair, content_of, copied, pairs_in, send
from rmqstore.repair.rocksdb.database import made_database
from rmqstore.repair.rocksdb.messageindex import index_content
from rmqstore.scan.walk import LogScanner
from rmqstore.store.parts import PartKind
from rmqstore.store.rocksdb.databases import Database, DatabaseUse, databases, is_on
from rmqstore.store.rocksdb.library import Report, probe
from rmqstore.store.root import Store
from rmqstore.verify.context import Context, Options
from rmqstore.verify.parts.halves import check as check_halves
from rmqstore.verify.timer.files import open_timer, timer_queue
from rmqstore.wording import counted

_SWITCHES = {INDEX: "indexRocksDBEnable", TIMER: "timerRocksDBEnable", HALVES: "transRocksDBEnable"}
_BOTH = (
    "rocksdbstore cannot be read, and a timer log is there as well: its timed messages are not taken over, and a start reads their queue "
    "again from where timercheck says."
)
_LONG = 8
_LATEST = (1 << 63) - 1
"""The latest time that a key has room for; a damaged one may be any number."""


def plan_messages(planning: Planning, store: Store, log: FutureLog, judgement: Judgement) -> None:
    """Plan a new database if the present one is used and cannot be read, or has not what the future log shows; nothing otherwise.

    An index with findings is built as a whole, and so are transactions. A part is used if its setting says so, or, without a setting, if
    it has entries or cannot be read, or by other signs.

    Raises UnreadableError, StoreChangedError, OSError, RmqstoreError where the library fails.
    """
    if store.dledger is not None or not planning.profile.message_database:
        return
    database = next(databases(store, DatabaseUse.MESSAGES), None)
    report = None if database is None else probe(database)
    used = [name for name in _SWITCHES if _is_used(store, name, report)]
    if not used:
        return
    sound = database if report is not None and report.sound else None
    there = [] if report is None or sound is None else [family.name for family in report.families]
    contents = {name: copied(sound, name) for name in (*_SWITCHES, *there)}
    if INDEX in used:
        contents[INDEX] = index_content(store, log, None if judgement.index_database else sound)
    if TIMER in used and not store.timerlog.files:
        contents[TIMER] = _timeline(store, log, sound)
    elif TIMER in used and database is not None and sound is None:
        planning.builder.note(_BOTH)
    if HALVES in used:
        contents[HALVES] = _halves(log, sound, doubtful=_doubtful_halves(store, judgement))
    reasons = [content.why for content in contents.values() if content.why is not None]
    if not reasons and (sound is not None or database is None):
        return
    _plan(planning, store, database, report, contents, reasons)


def _is_used(store: Store, family: str, report: Report | None) -> bool:
    setting = store.config.explicit(_SWITCHES[family])
    if setting is not None:
        return is_on(setting)
    if report is not None and any(one.name == family and (one.entries or one.error) for one in report.families):
        return True
    return report is not None and family in _SIGNS and _SIGNS[family](store)


def _has_halves(store: Store) -> bool:
    return any(queue.topic == ROCKSDB_HALF_TOPIC and queue.files for queue in store.queue_directories(ROCKSDB_HALF_TOPIC))


def _times_without_wheel(store: Store) -> bool:
    """Return whether there are timed messages, and neither a timer log nor a place in their queue where the wheel continues."""
    check = open_timer(store, 0).check
    return check is not None and check.last_timer_queue_offset == 0 and not store.timerlog.files and bool(timer_queue(store).files)


_SIGNS = {TIMER: _times_without_wheel, HALVES: _has_halves}
"""Signs of use in a store whose database is empty, as a kill leaves it, and whose settings are unknown; there is none of the index."""


def _plan(
    planning: Planning, store: Store, database: Database | None, report: Report | None, contents: Mapping[str, Content], reasons: list[str]
) -> None:
    builder, directory = planning.builder, store.path_of(PartKind.ROCKSDBSTORE)
    counts: dict[str, int] = {}
    made = made_database(planning.staging, list(contents), lambda target: counts.update(send(target, contents)))
    if database is None:
        reason, code = "the database of index, timed messages and transactions is missing", None
    elif report is not None and report.sound:
        reason, code = reasons[0], None
    else:
        reason = "RocksDB cannot read this database whole"
        code = "RMQ-RD-OPEN" if report is not None and report.refused is not None else "RMQ-RD-BLOCK"
    for name in () if database is None else database.files:
        builder.quarantine(directory / name, reason=f"replaced: {reason}", code=code)
    for name, staged in made.items():
        builder.create(directory / name, staged, reason="a database with what the log shows", code=code)
    for why in reasons:
        builder.note(f"{PartKind.ROCKSDBSTORE}: {why}.")
    listed = ", ".join(f"{count} in {name}" for name, count in counts.items())
    builder.note(f"The new {PartKind.ROCKSDBSTORE} has these entries: {listed}.")


def _long(value: bytes | None) -> int:
    return -1 if value is None or len(value) != _LONG else int.from_bytes(value, "big", signed=True)


# Timed messages


def _timeline(store: Store, log: FutureLog, sound: Database | None) -> Content:
    """Return the messages that wait, or the present entries if a start delivers each of them once."""
    found = timeline_of(store) if sound is not None else None
    scanned = 0 if found is None or found.scanned is None else found.scanned
    delivered = -1 if found is None or found.delivered is None else found.delivered  # its evidence may be lost in the log
    known = {} if found is None else {(entry.due, entry.unique_key): entry.physical_offset for entry in found.pending}
    topic = messages_of(store, log)
    done = {(one.due, one.key) for one in topic.messages if one.done}
    waiting = {
        (one.due, one.key): one
        for one in sorted(topic.pending, key=lambda one: one.queue_offset)
        if one.key and 0 <= one.due <= _LATEST and (one.due, one.key) not in done and (one.due >= delivered or one.queue_offset >= scanned)
    }
    end = max((one.queue_offset + 1 for one in topic.messages), default=0)
    again = {key for key in done if key in known} | {
        (one.due, one.key) for one in topic.messages if one.done and one.queue_offset >= scanned
    }
    never = [key for key, one in waiting.items() if one.queue_offset < scanned and key not in known]
    reasons = [f"timed messages that would be delivered again: {len(again)}"] if again else []
    reasons += [f"timed messages that would not be delivered: {len(never)}"] if never else []
    if any(place >= log.end_offset or log.is_damaged(place) for place in known.values()):
        reasons.append("it has timed messages that are lost")
    if scanned > end and topic.messages:
        reasons.append(f"its timer continues at queue offset {scanned}, after the last timed message")
    if sound is not None and not reasons:
        return copied(sound, TIMER)

    def pairs() -> Iterator[Pair]:
        for (due, key), one in waiting.items():
            name = TIMELINE_KEY.build({"deliver_timestamp": due, "unique_key": key.encode("utf-8", "surrogateescape")})
            yield name, TIMELINE_ENTRY.build({"size": one.size, "physical_offset": one.position})
        yield SCANNED_KEY, end.to_bytes(_LONG, "big")
        first = min((due for due, _ in waiting), default=None)  # what is due before that time is never delivered
        if first is not None:
            yield DELIVERED_KEY, first.to_bytes(_LONG, "big")

    return content_of(pairs, " and ".join(reasons) or None)


# Transactions


def _doubtful_halves(store: Store, judgement: Judgement) -> bool:
    context = Context(store, Options())
    context.log = judgement.log
    return next(check_halves(context), None) is not None


def _halves(log: FutureLog, sound: Database | None, *, doubtful: bool) -> Content:
    """Return the half messages without an answer; unless it is doubtful, what a valid database has of older ones is taken over."""
    halves, scanner = Halves(), LogScanner(windows=log.window)
    for batch in log.batches(scanner):
        records = batch.records
        of_halves = [number for number in np.unique(records["topic"]).tolist() if scanner.topic(number) in HALF_TOPICS]
        for row in np.flatnonzero(np.isin(records["topic"], of_halves)).tolist() if of_halves else ():
            place, size = int(records["position"][row]), int(records["size"][row])
            halves.take(scanner.topic(int(records["topic"][row])), place, size, batch.properties(row))
    there = dict(pairs_in(sound, HALVES))
    last = _long(there.pop(LAST_OFFSET_KEY, None))
    doubtful = doubtful and not log.damages and last < log.end_offset  # in a damaged log the answers may be lost
    kept = {} if doubtful else {key: value for key, value in there.items() if _may_be_open(key, halves, log)}
    since = -1 if doubtful else last
    new = [half for half in halves.open.values() if half.physical_offset > since and half.topic and half.transaction]
    reached = halves.last if halves.last >= 0 else min(last, log.end_offset)

    def pairs() -> Iterator[Pair]:
        yield from kept.items()
        for half in new:
            known = there.get(half.key, b"")
            yield half.key, half.value(HALF_ENTRY.parse(known).check_times if len(known) == HALF_ENTRY.sizeof() else 0)
        if reached >= 0:
            yield LAST_OFFSET_KEY, reached.to_bytes(_LONG, "big")

    lacking = [half for half in new if half.key not in there]
    reasons = [f"it lacks {counted(len(lacking), 'open transaction')}"] if lacking else []
    ended = len(there.keys() - kept.keys() - {half.key for half in new})
    reasons += [f"it has {counted(ended, 'transaction')} that ended, or whose half message is lost"] if ended else []
    if doubtful and not reasons:
        reasons.append("its transactions contradict the log")
    return content_of(pairs, " and ".join(reasons) or None)


def _may_be_open(key: bytes, halves: Halves, log: FutureLog) -> bool:
    """Return whether an entry may be of a half message without an answer; one before the log stays."""
    place = place_of(key)
    return place is not None and place not in halves.answered and place < log.end_offset and not log.is_damaged(place)
