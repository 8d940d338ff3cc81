"""One look at a whole store: one pass over the log, everything compared both ways, findings in a stable order.

The pass is a map over commit-log files (threads here; other runners may use other processes or machines) and a merge of their results in
offset order. Nothing is written.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from rmqstore.errors import RmqstoreError, StoreChangedError, UnreadableError
from rmqstore.findings import Finding
from rmqstore.reading.progress import Advance, silent
from rmqstore.reading.records import record_at
from rmqstore.reading.rocksdb.indexdatabase import last_indexed
from rmqstore.store.mapped import MappedFile, with_listings
from rmqstore.store.root import QueueDirectory, Store
from rmqstore.store.window import read_at
from rmqstore.verify.context import Context, LogFacts, Options
from rmqstore.verify.index import coverage, database, structure
from rmqstore.verify.index.match import IndexFiles
from rmqstore.verify.index.views import IndexView, open_views
from rmqstore.verify.log import displaced, dledger, tail
from rmqstore.verify.log.commitlog import FileVerifier, Surroundings, workers
from rmqstore.verify.log.pieces import Piece
from rmqstore.verify.log.result import FileResult
from rmqstore.verify.log.runs import Run
from rmqstore.verify.parts import (
    checkpoint,
    compacted,
    compaction,
    config,
    configbackups,
    configcontent,
    configlinks,
    confignames,
    files,
    halves,
    manifest,
    popped,
    rocksdb,
    surroundings,
    transactions,
)
from rmqstore.verify.queues import batchqueue, ext, judgement
from rmqstore.verify.queues.database import ComparedQueues, compared_queues
from rmqstore.verify.queues.exchanged import Held
from rmqstore.verify.queues.spans import QueueKey
from rmqstore.verify.tiered import check as tiered
from rmqstore.verify.timer import timeline, wheel
from rmqstore.verify.unchecked import NotChecked, not_checked

Outcome = FileResult | RmqstoreError
Passes = Callable[[Sequence[MappedFile], Advance], list[Outcome]]
"""Runner of the pass over each of the files, anywhere and in any order; returns the outcomes in the order of the files."""
Followed = Sequence[Future[structure.Chains | RmqstoreError]]


@dataclass(frozen=True, slots=True)
class Check:
    """A check of the whole store, done if one of `parts` is wanted, without parts always."""

    run: Callable[[Context], Iterator[Finding]]
    parts: tuple[str, ...] = ()


BEFORE_LOG = (
    Check(transactions.check),
    Check(files.check),
    Check(manifest.check, ("store",)),
    Check(compaction.check, ("consumequeue",)),
    Check(compacted.check, ("consumequeue",)),
    Check(ext.check_units, ("consumequeue",)),
)
BESIDE_LOG = Check(surroundings.check, ("store",))
AFTER_LOG = (
    Check(checkpoint.check, ("checkpoint",)),
    Check(wheel.check, ("timer",)),
    Check(timeline.check, ("timer",)),
    Check(database.check, ("index",)),
    Check(halves.check, ("store",)),
    Check(popped.check, ("store",)),
    Check(config.check, ("config",)),
    Check(configcontent.check, ("config",)),
    Check(configlinks.check, ("config",)),
    Check(confignames.check, ("config",)),
    Check(configbackups.check, ("config",)),
    Check(rocksdb.check, ("consumequeue", "config", "store")),
    Check(tiered.check, ("tiered",)),
)
"""Checks that use what the log holds."""


@dataclass
class Totals:
    """The extent of a verification: bytes of the commit log, live records, seconds of wall time."""

    bytes: int = 0
    records: int = 0
    seconds: float = 0.0
    indexed_keys: int = 0
    queues: int = 0
    notes: list[str] = field(default_factory=list)
    not_checked: list[NotChecked] = field(default_factory=list)

    def add(self, other: Totals) -> None:
        """Add what another verification covered; `seconds` is not accumulated."""
        self.bytes += other.bytes
        self.records += other.records
        self.indexed_keys += other.indexed_keys
        self.queues += other.queues
        self.notes += other.notes
        self.not_checked += other.not_checked


class Look:
    """One look at one store. If that is written to meanwhile, the look reports things that the writer explains: see `engine`."""

    def __init__(
        self, store: Store, options: Options, passes: Passes | None = None, settled: Mapping[Path, FileResult] | None = None
    ) -> None:
        """Take what runs the passes over files of the log, without it threads of this process. `settled` files are not read again."""
        self.store = store
        self._passes = passes
        self._settled = settled or {}
        self.options = options
        self.context = Context(store, options)
        self.totals = Totals()
        self.results: list[FileResult] = []
        self._database: ComparedQueues | None = None  # the queues, during the pass over the log, where RocksDB has them
        self.exchanged: dict[Path, Held] = {}  # queue files that hold units of another place, once the queues were judged
        # Chains take memory for all slots of a file: one file at a time.
        self._following = threading.Lock()

    @property
    def total_bytes(self) -> int:
        """Bytes of the commit log that the pass will read."""
        return sum(file.length for file in self.wanted_files)

    @property
    def _reads_log(self) -> bool:
        return self._reads_whole_log or any(map(self.options.wants, ("checkpoint", "timer", "store")))

    @property
    def _reads_whole_log(self) -> bool:
        return any(map(self.options.wants, ("commitlog", "consumequeue", "index")))

    @property
    def wanted_files(self) -> list[MappedFile]:
        """The files of the log to read: all, or those from the one before the last with data on, which show its end.

        If those hold no record, all are read after all.
        """
        if not self._reads_log:
            return []
        files = files_as_mapped(self.store)
        last = None if self._reads_whole_log else last_file_with_data(files)
        return files if last is None else files[max(0, files.index(last) - 1) :]

    def run(self, advance: Advance = silent) -> Iterator[Finding]:
        """Yield all findings. `advance` is called with the number of bytes of the log as they are read, from several threads."""
        started = time.perf_counter()
        for item in self._run(advance):
            if item.topic is None or self.options.wants_queue(item.topic, item.queue_id):
                yield item
        self.totals.seconds = time.perf_counter() - started

    def _run(self, advance: Advance) -> Iterator[Finding]:
        for check in BEFORE_LOG:
            yield from self._guarded(check)
        wanted = self.wanted_files
        about_log, after = self._with_log(wanted, advance)
        if self._reads_log and len(wanted) < len(self.store.message_log.files) and (after or not self.context.log.records):
            # These files may hold no record, and the clock may have been set back before them: the whole log decides.
            self.totals = Totals()
            about_log, after = self._with_log(files_as_mapped(self.store), advance)
        yield from about_log
        yield from after
        self.totals.records = self.context.log.records
        self.totals.not_checked = list(not_checked(self.context))

    def _with_log(self, wanted: list[MappedFile], advance: Advance) -> tuple[list[Finding], list[Finding]]:
        """Return the findings of the pass over these files of the log, and of the checks that use what they hold."""
        with compared_queues(self.context) as self._database:
            about_log = list(self._log(wanted, advance)) if self._reads_log else []
        return about_log, [finding for check in AFTER_LOG for finding in self._guarded(check)]

    def _guarded(self, check: Check) -> Iterator[Finding]:
        """Yield the findings of one check if it is wanted; what it cannot read becomes a finding."""
        if check.parts and not any(map(self.options.wants, check.parts)):
            return
        try:
            yield from check.run(self.context)
        except RmqstoreError as error:
            yield self.context.finding("RMQ-ST-UNREADABLE", error.message, mend=error.hint)
        except OSError as error:
            yield self.context.finding(
                "RMQ-ST-UNREADABLE", f"{error.filename or 'a file'} cannot be read: {error.strerror}", file=error.filename
            )

    # The log and what is derived from it

    def _log(self, log_files: list[MappedFile], advance: Advance) -> Iterator[Finding]:
        around, unreadable = self._surroundings(log_files)
        yield from unreadable
        runner = self._passes if self._database is None else None  # the queues of the database are files of this process
        with ThreadPoolExecutor(max_workers=max(self.options.threads, 1)) as pool:
            unread = [file for file in log_files if file.path not in self._settled]
            together = not runner and workers(unread, self.options.threads) > 1
            passes = [pool.submit(self._pass, around, file, advance) for file in unread] if together else []
            # After the passes: while the queues are judged, chains are still followed, and the surroundings of the data are checked.
            chains = [pool.submit(self._follow, view) for view in around.index.views]
            beside = pool.submit(with_listings(self._beside))
            try:
                if runner:
                    outcomes = runner(unread, advance)
                else:
                    outcomes = [future.result() for future in passes] or [self._pass(around, file, advance) for file in unread]
                expired = _expired_up_to(log_files, unread, outcomes)
                remaining = [both for both in zip(unread, outcomes, strict=True) if both[0].start >= expired]
                read = yield from self._results(around, remaining)
                known = [self._settled[file.path] for file in log_files if file.path in self._settled and file.start >= expired]
                self.results = sorted([*known, *read], key=lambda result: result.file.start)
                yield from self._merge(self.results, around, chains, beside)
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def pass_over(self, path: str, piece: Piece, advance: Advance = silent) -> Outcome:
        """Run the pass over a piece of a file of the log, for a runner whose passes are in other processes.

        What it compares with is listed once.
        """
        around, files = self._listed
        wanted = files.get(path)
        if wanted is None:
            return UnreadableError(f"{path} is no longer a file of the log.", "Run the command again when no process writes to the store.")
        return self._pass(around, wanted, advance, piece)

    @cached_property
    def _listed(self) -> tuple[Surroundings, dict[str, MappedFile]]:
        log_files = files_as_mapped(self.store)
        return self._surroundings(log_files)[0], {str(file.path): file for file in log_files}

    def _surroundings(self, log_files: list[MappedFile]) -> tuple[Surroundings, list[Finding]]:
        """Return what the passes compare with, and findings about the parts of it that cannot be read."""
        context, store, options = self.context, self.store, self.options
        compare_queues = options.wants("consumequeue") and bool(log_files)
        queue_directories = self._directories(store.queue_directories()) if options.wants("consumequeue") else {}
        if self._database is not None:
            queue_directories = self._database.directories
        batch_directories = self._directories(store.batch_queue_directories()) if options.wants("consumequeue") else {}
        ext_directories = self._directories(store.ext_queue_directories()) if options.wants("consumequeue") else {}
        views, unreadable = open_views(context) if options.wants("index") else ([], [])
        around = Surroundings(
            queue_directories,
            batch_directories,
            ext_directories,
            IndexFiles(views),
            compare_queues and (self._database is not None or not store.rocksdb_queues),
            options.wants("index") and bool(log_files),
            last_file_with_data(log_files),
        )
        return around, unreadable

    def _results(self, around: Surroundings, outcomes: Iterable[tuple[MappedFile, Outcome]]) -> Generator[Finding, None, list[FileResult]]:
        """Return the results of the passes and yield findings about unreadable files; such a file is one damaged range."""
        results: list[FileResult] = []
        for file, outcome in outcomes:
            if isinstance(outcome, StoreChangedError):
                # Lost pages are counted for the whole process: alone, only the file that lost them fails again.
                outcome = self._pass(around, file, silent)
            if isinstance(outcome, RmqstoreError):
                self.totals.notes.append(outcome.message)
                yield self.context.finding("RMQ-ST-UNREADABLE", outcome.message, file=file.path, offset=file.start, mend=outcome.hint)
                outcome = FileResult(file, damages=[(file.start, file.end)])
            results.append(outcome)
        return results

    def _pass(self, around: Surroundings, file: MappedFile, advance: Advance, piece: Piece | None = None) -> Outcome:
        try:
            return FileVerifier(self.context, around, file, advance, piece).run()
        except RmqstoreError as error:
            return error

    def _follow(self, view: IndexView) -> structure.Chains | RmqstoreError:
        try:
            with self._following:
                return structure.follow(view)
        except RmqstoreError as error:
            return error

    def _beside(self) -> list[Finding]:
        return list(self._guarded(BESIDE_LOG))

    def _directories(self, listed: Iterator[QueueDirectory]) -> dict[QueueKey, QueueDirectory]:
        return {(directory.topic, directory.queue_id): directory for directory in listed}

    def _merge(self, results: list[FileResult], around: Surroundings, chains: Followed, beside: Future[list[Finding]]) -> Iterator[Finding]:
        context, options = self.context, self.options
        context.log = _facts(self.store, results)
        self.totals.bytes = sum(result.file.length for result in results)
        for result in results:
            yield from (finding for finding in result.findings if options.wants(_part_of(finding)))
            if options.wants("commitlog"):
                for path, message in result.unreadable.items():
                    yield context.finding("RMQ-ST-UNREADABLE", message, file=path)
        if options.wants("commitlog"):
            yield from displaced.findings_of(context, _moved(results, context.log))
            yield from tail.check(context, results)
            if self.store.dledger is not None:
                yield from dledger.check(context, self.store.dledger, [result.entries for result in results if result.entries is not None])
        if options.wants("consumequeue"):
            queues = self._queues(results, around)
            yield from queues if self._database is None else self._database.findings(context, queues)
        yield from beside.result()
        if options.wants("index"):
            yield from self._index(results, around.index.views, chains)

    def _queues(self, results: list[FileResult], around: Surroundings) -> Iterator[Finding]:
        context = self.context
        histories, odd = judgement.merge(context, results)
        if self.options.wants("commitlog"):
            yield from odd
        self.totals.queues = len(around.queues) + len(around.batch_queues)
        if not around.compare_queues:
            return
        light_queues = judgement.dispatches_to_light_queues(context, around.queues)
        judge = judgement.QueueJudge(context, judgement.known_topics(context), light_queues)
        wanted = [key for key in sorted(around.queues) if self.options.wants_queue(*key)]
        found = {key: list(self._judged(judge, key, around, histories.get(key))) for key in wanted}
        try:
            judge.add_other_sides(around.queues, found)
        except RmqstoreError as error:
            yield context.finding("RMQ-ST-UNREADABLE", error.message)
        for key in wanted:
            yield from found.pop(key)
        for key in sorted(set(histories) - set(around.queues) - set(around.batch_queues)):
            if histories[key].runs.size:
                yield from judge.missing(key, histories[key])
        self.exchanged = judge.exchanged
        yield from judgement.renumbered(context, results)
        for key in sorted(around.batch_queues):
            try:
                matched = sum(result.batch_matched[key] for result in results)
                yield from batchqueue.check_surplus(context, key, around.batch_queues[key], matched)
            except RmqstoreError as error:
                yield context.finding("RMQ-ST-UNREADABLE", error.message, file=around.batch_queues[key].directory)

    def _judged(
        self, judge: judgement.QueueJudge, key: QueueKey, around: Surroundings, history: judgement.QueueHistory | None
    ) -> Iterator[Finding]:
        try:
            yield from judge.judge(key, around.queues[key], history)
        except RmqstoreError as error:
            yield self.context.finding("RMQ-ST-UNREADABLE", error.message, file=around.queues[key].directory, topic=key[0], queue_id=key[1])

    def _index(self, results: list[FileResult], views: Sequence[IndexView], chains: Followed) -> Iterator[Finding]:
        context = self.context
        for view, future in zip(views, chains, strict=True):
            followed = future.result()
            if isinstance(followed, RmqstoreError):
                yield context.finding("RMQ-ST-UNREADABLE", followed.message, file=view.file.path)
            else:
                yield from structure.check_file(context, view, followed)
        yield from coverage.check_order(context, views)
        if not results:
            return
        for result in results:
            yield from coverage.of_match(context, result.index)
            self.totals.indexed_keys += result.index.matched
        if views or last_indexed(context.store) is None:
            yield from coverage.coverage(context, [result.index for result in results], views)
        yield from coverage.beyond(context, views)


def _part_of(finding: Finding) -> str:
    """Return the part that a finding of the pass over the log is about: batch and ext units are compared record by record."""
    return "consumequeue" if finding.code.startswith("RMQ-CQ-") else "commitlog"


def files_as_mapped(store: Store) -> list[MappedFile]:
    """Return the files of the log, those that are too long cut to the length the broker maps."""
    size = store.message_log.file_size
    return [replace(file, length=size) if size and file.length > size else file for file in store.message_log.files]


def _missing_ranges(results: list[FileResult]) -> Iterator[tuple[int, int]]:
    """Yield ranges [start, end) of the log between its first and last record that no file holds, or a file without records."""
    with_records = [result for result in results if result.records]
    if not with_records:
        return
    first, last = with_records[0].file.start, with_records[-1].file.start
    reached = first
    for result in results:
        if not first <= result.file.start <= last:
            continue
        if result.file.start > reached:
            yield reached, result.file.start
        if not result.records:
            yield result.file.start, result.file.end
        reached = max(reached, result.file.end)


def _expired_up_to(log_files: Sequence[MappedFile], read: Sequence[MappedFile], outcomes: Sequence[Outcome]) -> int:
    """Return the physical offset up to which the log expired while it was read: brokers delete its first files."""
    failed = [file for file, outcome in zip(read, outcomes, strict=True) if isinstance(outcome, RmqstoreError)]
    missing = [file for file in failed if not file.path.exists()]
    first = next((file.start for file in log_files if missing and file.path.exists()), 0)
    return max((file.end for file in missing if file.end <= first), default=0)


def last_file_with_data(log_files: list[MappedFile]) -> MappedFile | None:
    """Return the last file whose first bytes are not zero: after it are only pre-allocated files."""
    for file in reversed(log_files):
        try:
            if file.length >= 8 and any(read_at(file, 0, min(file.length, 64))):
                return file
        except RmqstoreError:
            return file
    return None


def _moved(results: Sequence[FileResult], log: LogFacts) -> Iterator[Run]:
    """Yield runs of records of another place, and of those after the end of the log whose own place is damaged."""
    for result in results:
        yield from result.moved
        yield from (run for run in result.leftover if log.is_damaged(run.start) or log.is_damaged(run.end - 1))


def _facts(store: Store, results: list[FileResult]) -> LogFacts:
    """Return what the passes found about the log as a whole."""
    facts = LogFacts(min_offset=store.message_log.min_offset, end_offset=store.message_log.min_offset)
    for result in results:
        facts.damages += result.damages
        facts.last_filler = max(facts.last_filler, result.last_filler)
        if result.records:
            facts.first_timestamp = facts.first_timestamp or result.first_timestamp
            facts.last_timestamp = max(facts.last_timestamp, result.last_timestamp)
            facts.end_offset = result.end_offset
            facts.records += result.records
    facts.damages = judgement.union([*facts.damages, *_missing_ranges(results)])
    facts.without_records = tail.without_records(results)
    if results and results[0].file.start > store.message_log.min_offset:
        first = record_at(store.message_log, store.message_log.min_offset)
        facts.first_timestamp = first.store_timestamp if first is not None else facts.first_timestamp
    return facts
