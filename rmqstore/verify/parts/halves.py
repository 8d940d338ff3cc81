"""Open transactions in RocksDB against half messages and their answers, both ways (sheet of the newer releases §7.3)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rmqstore.findings import Finding
from rmqstore.formats.naming import ROCKSDB_HALF_TOPIC
from rmqstore.formats.rocksdb import LAST_OFFSET_KEY
from rmqstore.reading.rocksdb.halves import FAMILY, Half, Halves, halves_of, place_of
from rmqstore.reading.rocksdb.messagedatabase import message_database
from rmqstore.store.parts import PartKind
from rmqstore.store.rocksdb.asfiles import with_file_queues
from rmqstore.store.rocksdb.streams import pairs_of_database
from rmqstore.verify.context import Context
from rmqstore.verify.guard import guarded, limited
from rmqstore.wording import counted

_CODE = "RMQ-RD-TRANS"
_INTERVAL, _MOST_CHECKS = ("transactionCheckInterval", 30_000), ("transactionCheckMax", 15)


def check(context: Context) -> Iterator[Finding]:
    """Yield findings about open transactions in RocksDB. Reads the column family, and the half messages and answers of the log."""
    path = context.store.path_of(PartKind.ROCKSDBSTORE)
    if path.is_dir() and context.log.end_offset:
        yield from guarded(context, path, lambda: limited(context, path, _check(context, path)))


def _check(context: Context, path: Path) -> Iterator[Finding]:
    database = message_database(context.store, family=FAMILY) if context.store.dledger is None else None
    if database is None:
        return
    entries = dict(pair for _, pair in pairs_of_database(database, FAMILY) if pair is not None)
    stored = entries.pop(LAST_OFFSET_KEY, None)
    last = -1 if stored is None else int.from_bytes(stored, "big", signed=True)
    with with_file_queues(context.store) as store:
        halves = halves_of(store)
    for key, value in entries.items():
        place = place_of(key)
        if place is None:
            yield context.finding(_CODE, f"an entry of the family {FAMILY} has another form: {key[:40]!r}", file=path, count=1)
            continue
        why = _wrong(context, halves, place, key, value)
        if why is not None:
            yield context.finding(_CODE, f"the transaction at {place}: {why}", file=path, offset=place, count=1)
    absent = [half for half in halves.open.values() if half.physical_offset <= last and half.key not in entries]
    lost = [half for half in absent if _is_young(context, half) and not _may_be_answered(context, half)]
    if lost:
        text = f"{counted(len(lost), 'open transaction')} that the broker has read {'is' if len(lost) == 1 else 'are'} not in the family"
        yield context.finding(
            _CODE, f"{text} {FAMILY}: no producer is asked for them", file=path, offset=lost[0].physical_offset, count=len(lost)
        )
    if last >= context.log.end_offset:
        end = context.log.end_offset
        text = f"the last half message is at {last}, the log ends at {end}: half messages that come up to there are ignored"
        yield context.finding(_CODE, text, file=path, offset=last, expected=end, found=last)


def _wrong(context: Context, halves: Halves, place: int, key: bytes, value: bytes) -> str | None:
    """Return how an entry contradicts the log, None if it does not; what the start after a crash corrects is no contradiction."""
    half = halves.open.get(place)
    if half is not None:
        return None if half.is_named_by(key, value) else "its entry has another topic, transaction or size than the half message"
    if place in halves.answered:
        return None if context.crashed else "it ended, and the producer is asked for it again"
    if place < context.store.message_log.min_offset or context.log.is_damaged(place):
        return None
    record = context.record_at(place)
    if record is not None and record.topic == ROCKSDB_HALF_TOPIC:
        return None  # its queue ends before it, as after a kill with queues in RocksDB
    return "no half message is there, and the broker drops the entry"


def _may_be_answered(context: Context, half: Half) -> bool:
    """Return whether messages after it are lost: its answer can be one of them, and then the broker has no entry for a good reason."""
    facts = context.log
    return facts.last_filler > half.physical_offset or any(end > half.physical_offset for _, end in facts.damages)


def _is_young(context: Context, half: Half) -> bool:
    """Return whether a producer cannot have been asked for it as often as is allowed; then the entry goes, without an answer."""
    record = context.record_at(half.physical_offset)
    interval, most = (context.store.config.explicit_integer(name) or default for name, default in (_INTERVAL, _MOST_CHECKS))
    return record is not None and context.log.last_timestamp - record.store_timestamp < interval * most
