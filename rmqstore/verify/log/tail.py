"""The end of the log: how each file ends, what follows the last live record, and files without records."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

from rmqstore.findings import Finding
from rmqstore.formats.naming import HALF_TOPIC, ROCKSDB_HALF_TOPIC
from rmqstore.scan.columns import Stop
from rmqstore.store.mapped import MappedFile
from rmqstore.verify.context import Context
from rmqstore.verify.log.live import Tail, is_without_records
from rmqstore.verify.log.result import FileResult

HALF_TOPICS = (HALF_TOPIC, ROCKSDB_HALF_TOPIC)
_TAIL_CODES = {"torn": "RMQ-CL-TORN", "stale": "RMQ-CL-STALE", "bytes": "RMQ-CL-TAILBYTES"}
_NO_RECORD = {"stale": "records of another position", "bytes": "bytes that are no record"}


def check(context: Context, results: Sequence[FileResult]) -> Iterator[Finding]:
    """Yield findings about the ends of all files, in offset order."""
    with_records = [number for number, result in enumerate(results) if result.records]
    last = with_records[-1] if with_records else -1
    for number, result in enumerate(results):
        yield from _of_tallies(context, result)
        if result.tail is not None:
            at_start = result.file.start == context.store.message_log.min_offset
            yield _of_no_record(context, result.tail) if at_start and without_records(results) else _of_tail(context, result.tail)
        if result.records == 0 and result.tail is None and not result.damages:
            yield from _without_records(context, result.file, behind=number > last, alone=last < 0 and number == 0)
        elif number < last and result.end is not None:
            yield from _inner_end(context, result)
    yield from _time_between_files(context, [results[number] for number in with_records])
    yield from _hosts(context, results)
    for result in results:
        for position, prepared in result.commits:
            if prepared < context.log.min_offset or context.log.is_damaged(prepared):
                continue
            half = context.record_at(prepared)
            if half is None or half.topic not in HALF_TOPICS:
                yield context.log_finding(
                    "RMQ-CL-TRANSACTION",
                    "PREPAREDTRANSACTIONOFFSET of a committed message is not the position of a half message",
                    position,
                    found=prepared,
                )


def without_records(results: Sequence[FileResult]) -> bool:
    """Return whether these files have bytes, and no record of their own."""
    return is_without_records((result.records, bool(result.damages), result.tail) for result in results)


def _time_between_files(context: Context, results: Sequence[FileResult]) -> Iterator[Finding]:
    """Yield a finding for each file whose first record is older than the last one of the file before."""
    for before, after in itertools.pairwise(results):
        if after.first_timestamp < before.last_timestamp:
            yield context.log_finding(
                "RMQ-CL-TIME",
                "STORETIMESTAMP is smaller than that of the last record of the file before",
                after.first_position,
                expected=before.last_timestamp,
                found=after.first_timestamp,
            )


def _hosts(context: Context, results: Sequence[FileResult]) -> Iterator[Finding]:
    """Yield findings about records with a store host that no other record of the log has, between two that agree."""
    seen: Counter[int] = Counter()
    for result in results:
        seen.update(result.hosts)
    for result in results:
        for position, size, host in result.odd_hosts:
            if seen[host] == 1:
                message = "STOREHOST differs from that of both neighbours, which agree, and no other record has it"
                yield context.log_finding("RMQ-CL-HOST", message, position, size)


def _of_tallies(context: Context, result: FileResult) -> Iterator[Finding]:
    late, malformed = result.late, result.malformed
    if late.count:
        last_write, stored = context.last_write_ms, result.last_timestamp
        message = f"{late.count} records from here on were stored up to {(stored - last_write) // 1000} s after the last write to any file"
        yield context.log_finding("RMQ-CL-FUTURE", message, late.position, expected=last_write, found=stored)
    if malformed.count:
        message = f"{malformed.count} records of this file have a topic, tags or keys that are not UTF-8; this is the first one"
        yield context.log_finding("RMQ-CL-TEXT", message, malformed.position, found=malformed.count)


def _of_no_record(context: Context, tail: Tail) -> Finding:
    message = f"the log begins with {_NO_RECORD[tail.kind]}, and no record of its own follows in any of its files"
    return context.log_finding("RMQ-CL-NORECORD", message, tail.start, tail.end - tail.start)


def _of_tail(context: Context, tail: Tail) -> Finding:
    length = tail.end - tail.start
    texts = {
        "torn": f"the last record is only partly written: {length} bytes of it",
        "stale": f"{length} bytes of older records after the end of the log",
        "bytes": f"{length} bytes after the end of the log that are no record",
    }
    return context.log_finding(_TAIL_CODES[tail.kind], texts[tail.kind], tail.start, length, found=length)


def _without_records(context: Context, file: MappedFile, *, behind: bool, alone: bool) -> Iterator[Finding]:
    where = {"file": file.path, "position": 0, "length": file.length, "offset": file.start}
    if behind and not alone:
        yield context.finding("RMQ-CL-PREALLOC", "a pre-allocated file without records follows the last record", **where)
    elif not behind:
        yield context.finding("RMQ-CL-ZEROFILE", "a file without records is between files with records", **where)


def _inner_end(context: Context, result: FileResult) -> Iterator[Finding]:
    end = result.end
    if end is not None and end.reason in (Stop.END_OF_DATA, Stop.TRUNCATED):
        yield context.log_finding(
            "RMQ-CL-NOBLANK",
            "records end here without a BLANK, although later files hold records",
            end.position,
            result.file.end - end.position,
        )
