"""RocksDB databases of a store: whether the library opens them and can read them. Their entries are not compared with the log."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from rmqstore.findings import Finding
from rmqstore.store.liveness import liveness
from rmqstore.store.parts import PartKind
from rmqstore.store.rocksdb.databases import CURRENT, Database, databases, is_needed, searched_files
from rmqstore.store.rocksdb.library import EVERYTHING, START, Report, place_of, probe
from rmqstore.verify.context import Context
from rmqstore.verify.guard import guarded

_SHOWN = 3


def check(context: Context, limit: int = EVERYTHING) -> Iterator[Finding]:
    """Yield findings about the databases. Up to `limit` bytes of tables are read of each, in a separate process; nothing is written."""
    store = context.store
    yield from guarded(context, store.path_of(PartKind.CONSUMEQUEUE), partial(_missing_queues, context))
    if liveness(store).in_use:
        return  # the files change while they are read; `unchecked.py` reports it
    for database in databases(store):
        yield from guarded(context, database.directory, partial(_database, context, database, limit))


def check_start(context: Context) -> Iterator[Finding]:
    """Return the findings of `check`, reading no more than a prediction reads."""
    return check(context, START)


def _missing_queues(context: Context) -> Iterator[Finding]:
    store = context.store
    if store.only is not None or not store.rocksdb_queues or store.rocksdb_database or not store.message_log.files:
        return
    then = "the next start builds the queues from the log" if store.abort_present else "without `abort` a start does not read the whole log"
    path = store.path_of(PartKind.CONSUMEQUEUE)
    yield context.finding("RMQ-RD-NEW", f"there is no RocksDB database of the queues: {then}", file=path)
    files, searched = len(store.message_log.files), searched_files(store)
    if files > searched and (store.root / PartKind.ROCKSDBSTORE).exists():  # a sign of 5.4.0 and later
        message = f"the next start builds the queues from the last {searched} files of the log, which has {files}"
        yield context.finding("RMQ-RD-REACH", message, file=path, expected=files, found=searched)


def _database(context: Context, database: Database, limit: int) -> Iterator[Finding]:
    needed = is_needed(context.store, database)
    if not needed and not database.tables:
        return  # from 5.4.0 on every broker creates `rocksdbstore`; without a table nothing is in it
    report = probe(database, limit)
    if report.failed is not None:
        yield context.finding("RMQ-RD-LIBRARY", report.failed, file=database.directory)
    elif not needed:
        yield from _unused(context, report)
    elif report.refused is not None:
        yield _refused(context, report, report.refused)
    else:
        yield from _damaged(context, report)
        yield from _unlisted(context, report)
        yield from _damaged_log(context, report)
        yield from _against_log(context, report)


def _unused(context: Context, report: Report) -> Iterator[Finding]:
    text = report.refused or next((family.error for family in report.damaged), report.log_damage)
    if text is not None:
        message = f"this database ({report.database.use}) is damaged, and no setting that is known needs it: {text}"
        yield context.finding("RMQ-RD-UNUSED", message, file=report.database.directory)


def _refused(context: Context, report: Report, text: str) -> Finding:
    database = report.database
    if database.starts_empty:
        message = (
            f"{CURRENT} of this database ({database.use}) is missing: a start creates a new one and deletes {len(database.tables)} tables"
        )
        return context.finding("RMQ-RD-OPEN", message, file=database.directory / CURRENT)
    message = f"RocksDB does not open this database ({database.use}): {text}"
    return _finding(context, "RMQ-RD-OPEN", message, database, text)


def _damaged(context: Context, report: Report) -> Iterator[Finding]:
    for family in report.damaged:
        message = (
            f"family {family.name} of this database ({report.database.use}) cannot be read after {family.entries} entries: {family.error}"
        )
        yield _finding(context, "RMQ-RD-BLOCK", message, report.database, family.error or "")


def _unlisted(context: Context, report: Report) -> Iterator[Finding]:
    if report.unlisted:
        listed = len(report.database.tables) - len(report.unlisted)
        names = ", ".join((*report.unlisted[:_SHOWN], *(["…"] if len(report.unlisted) > _SHOWN else [])))
        what = f"{len(report.unlisted)} tables ({names}) of this database ({report.database.use})"
        message = f"{what} are not listed by its MANIFEST, which lists {listed}: a start deletes them"
        where = report.database.directory / report.unlisted[0]
        yield context.finding("RMQ-RD-UNLISTED", message, file=where, found=len(report.unlisted))


def _damaged_log(context: Context, report: Report) -> Iterator[Finding]:
    if report.log_damage is not None:
        message = f"the write-ahead log of this database ({report.database.use}) is damaged: {report.log_damage}"
        yield _finding(context, "RMQ-RD-WAL", message, report.database, report.log_damage)


def _against_log(context: Context, report: Report) -> Iterator[Finding]:
    """Yield a finding about queues that end before or after the log. A database beside file queues is a copy that no broker waits for."""
    reached, end = report.reached, context.log.end_offset
    beside_files = next(context.store.queue_directories(), None) is not None
    if reached is None or reached == end or report.unlisted or beside_files or not end:  # without an end the log was not read
        return
    if reached < end:
        code = "RMQ-RD-BEHIND"
        then = "the next start dispatches the rest" if context.store.abort_present else "a start without `abort` leaves out records"
    else:
        code = "RMQ-RD-AHEAD"
        then = "brokers do not always find the last entry before that end"
    message = f"the queues in RocksDB have entries of the log up to {reached}, its records end at {end}: {then}"
    yield context.finding(code, message, file=report.database.directory, offset=reached, expected=end, found=reached)


def _finding(context: Context, code: str, message: str, database: Database, text: str) -> Finding:
    """Return a finding at the place that the library names."""
    place = place_of(text)
    file: Path = database.directory if place is None else database.directory / place.file
    position, length = (None, None) if place is None else (place.position, place.length)
    return context.finding(code, message, file=file, position=position, length=length)
