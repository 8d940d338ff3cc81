"""The part of the commit log that a start reads, verified; of the files after it only the first bytes are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from rmqstore.errors import RmqstoreError
from rmqstore.findings import Finding
from rmqstore.prediction.outcome import Scan
from rmqstore.reading.progress import silent
from rmqstore.store.mapped import MappedFile
from rmqstore.store.root import QueueDirectory
from rmqstore.store.window import read_at
from rmqstore.verify.context import Context
from rmqstore.verify.engine import last_file_with_data
from rmqstore.verify.guard import limited
from rmqstore.verify.index.match import IndexFiles
from rmqstore.verify.log import tail
from rmqstore.verify.log.commitlog import FileVerifier, Surroundings
from rmqstore.verify.log.result import FileResult
from rmqstore.verify.queues.spans import QueueKey, QueueSpan

_HEAD = 64  # bytes, enough to distinguish a file of zeros from one with records


@dataclass(frozen=True, slots=True)
class ScanRange:
    """The contents of the range: its findings, the queues that its records belong to, the offset after its last record, its bytes.

    `start_offset`: where its first file begins, after the log without one. `unread` are the files after the range that hold something.
    """

    findings: tuple[Finding, ...]
    queues: Mapping[QueueKey, QueueSpan]
    end_offset: int
    last_timestamp: int
    bytes: int
    start_offset: int
    unread: tuple[MappedFile, ...]


def read_range(context: Context, scan: Scan | None, queues: Mapping[QueueKey, QueueDirectory]) -> ScanRange:
    """Read the files of `scan`; where a start does not get that far, the last file with records.

    Files that cannot be read become findings.
    """
    files = _whole_files(context)
    surroundings = Surroundings(queues, {}, {}, IndexFiles([]), False, False, last_file_with_data(files))
    first, last = _range(files, scan, surroundings.last_data_file)
    results: list[FileResult] = []
    found: list[Finding] = []
    unread: list[MappedFile] = []
    reached = 0
    for number, file in enumerate(files[first:], first):
        if number > last:
            holds = _holds_data(file)
            results.append(_not_read(file, reached, holds=holds))
            unread += [file] if holds else []
            continue
        try:
            result = FileVerifier(context, surroundings, file, silent).run()
        except RmqstoreError as error:
            found.append(context.finding("RMQ-ST-UNREADABLE", error.message, file=file.path, offset=file.start, mend=error.hint))
            continue
        # A commit names its half message anywhere in the log, also where a start does not read.
        result.commits.clear()
        found += result.findings
        results.append(result)
        reached = max(reached, result.last_timestamp)
    tree = context.store.commitlog_directories.writable
    found += limited(context, tree[0] if tree else context.store.root, tail.check(context, results))
    read = [result for result in results if result.records and result.end is not None]
    spans = _spans(read)
    return ScanRange(
        tuple(found),
        spans,
        max((result.end_offset for result in read), default=0),
        reached,
        sum(file.length for file in files[first : last + 1]),
        files[first].start if first <= last else context.store.message_log.max_offset,
        tuple(unread),
    )


def _whole_files(context: Context) -> list[MappedFile]:
    """Return the files of the log with the length that the broker maps, which reads no byte after it."""
    log = context.store.message_log
    size = log.file_size
    return [replace(file, length=size) if size and file.length > size else file for file in log.files]


def _range(files: list[MappedFile], scan: Scan | None, last_data_file: MappedFile | None) -> tuple[int, int]:
    """Return the numbers of the first and the last file that are read; an empty range without files."""
    if not files:
        return 0, -1
    if scan is None:
        number = files.index(last_data_file) if last_data_file is not None else len(files) - 1
        return number, number
    first = next((number for number, file in enumerate(files) if file.path.name == scan.first_file), 0)
    stopped = [number for number, file in enumerate(files) if file.start <= scan.stop_offset]
    return first, max(first, stopped[-1] if stopped else first)


def _holds_data(file: MappedFile) -> bool:
    try:
        return any(read_at(file, 0, min(_HEAD, file.length)))
    except RmqstoreError:
        return True


def _not_read(file: MappedFile, time: int, *, holds: bool) -> FileResult:
    """Return a stand-in for a file after the range: it has records or not, stored at `time` (ms), as those before it."""
    return FileResult(file, records=int(holds), first_timestamp=time, last_timestamp=time, end_offset=file.start)


def _spans(results: list[FileResult]) -> dict[QueueKey, QueueSpan]:
    """Return the span of each queue that reaches farthest."""
    spans: dict[QueueKey, QueueSpan] = {}
    for key, span in _all_spans(results):
        if key not in spans or span.last_position > spans[key].last_position:
            spans[key] = span
    return spans


def _all_spans(results: list[FileResult]) -> Iterator[tuple[QueueKey, QueueSpan]]:
    for result in results:
        yield from result.spans.by_queue().items()
