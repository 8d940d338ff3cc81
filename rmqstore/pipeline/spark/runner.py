"""The runner on Spark: parts in tasks, packets brought together by key in the tasks that reduce them.

Spark moves rows with one packet each, pickled, through Java, which copies every byte eight times: a job whose parts become many bytes
writes them into files and returns their paths. Spark's SQL, which takes seconds to start, is not used. Tasks with most bytes begin first.
An error that a retry cannot fix is returned as a value and ends the job as it would here; after any other error Spark retries the task.
"""

from __future__ import annotations

import pickle
import socket
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from heapq import heappop, heappush
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, Self

from rmqstore.errors import RmqstoreError
from rmqstore.pipeline.fetching import make_room, named
from rmqstore.pipeline.job import Job, Part
from rmqstore.pipeline.spark.failures import OF_JAVA, translated
from rmqstore.pipeline.spark.progress import watched
from rmqstore.reading.progress import Advance, silent

if TYPE_CHECKING:
    from pyspark import SparkContext, SparkStageInfo
    from pyspark.core.broadcast import Broadcast

_GROUP = "rmqstore"
_TASKS_PER_CORE = 4
"""More tasks than there are cores, because parts and keys differ in weight."""
_LEAST_TASK = 512 << 20
"""Bytes of parts that are worth a task if there are enough of them: a task costs some 15 ms besides its work."""


class _Place(NamedTuple):
    """The sort key of rows: failures have no key and come first."""

    key: str
    part: int
    order: int


class _Load(NamedTuple):
    """The packet, or the pickled error of a part or key that failed."""

    data: bytes
    failed: bool


_Row = tuple[_Place, _Load]


class SparkRunner:
    """Runs jobs on Spark."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context

    def ready(self) -> Self:
        """Return the runner after the Python workers of this machine have started; on a cluster there may be many, so do not wait."""
        if (self._context.master or "").startswith("local"):
            cores = self._context.defaultParallelism
            with _errors_translated():
                self._context.parallelize(range(cores), cores).mapPartitions(_nothing).collect()
        return self

    def run(self, job: Job, advance: Advance) -> Iterator[tuple[str, bytes]]:
        """Run a job as `LocalRunner.run`. Raises what the job raises, and RmqstoreError with Spark's message if tasks failed too often."""
        tasks = tasks_of(job.parts, self._context.defaultParallelism)
        if not tasks:
            return
        with self._progress(sum(part.size for part in job.parts), len(tasks), advance):
            rows = self._collect(job, tasks)
        failures = [(place.part, load.data) for place, load in rows if load.failed]
        if failures:
            raise pickle.loads(min(failures)[1])
        for place, load in sorted(rows, key=itemgetter(0) if job.shuffles else _by_part):
            yield place.key, load.data

    def _collect(self, job: Job, tasks: list[list[Part]]) -> list[_Row]:
        context = self._context
        with _errors_translated():
            context.setJobGroup(_GROUP, f"rmqstore {job.title}", interruptOnCancel=True)
            shared = context.broadcast(job)
            rows = context.parallelize(tasks, len(tasks)).mapPartitions(_mapped(shared))
            if job.shuffles:
                reducing = min(len(tasks), context.defaultParallelism * _TASKS_PER_CORE)
                rows = rows.repartitionAndSortWithinPartitions(reducing, _task_of).mapPartitions(_reduced(shared))
            try:
                found: list[_Row] = rows.collect()
            finally:
                with suppress(*OF_JAVA):
                    shared.destroy()
            return found

    @contextmanager
    def _progress(self, total: int, tasks: int, advance: Advance) -> Iterator[None]:
        """Report the bytes of the parts that are done, estimated from the number of tasks done."""
        reported = 0

        def tell(done: int) -> None:
            nonlocal reported
            now = max(total * done // tasks, reported)
            advance(now - reported)
            reported = now

        def look(stages: list[SparkStageInfo]) -> None:
            tell(max((stage.numCompletedTasks for stage in stages if stage.numTasks == tasks), default=0))

        try:
            with watched(self._context, look):
                yield
            tell(tasks)
        except BaseException:
            with suppress(*OF_JAVA):
                self._context.cancelJobGroup(_GROUP)
            raise


def _nothing(numbers: Iterable[int]) -> Iterable[int]:
    return ()


def _by_part(row: _Row) -> tuple[int, int]:
    return row[0].part, row[0].order


def _task_of(place: _Place) -> int:
    """Return the same number in every process, which the hash of a text is not."""
    return zlib.crc32(place.key.encode("utf-8", "surrogatepass"))


def tasks_of(parts: Sequence[Part], cores: int) -> list[list[Part]]:
    """Return the parts of every task, about equal in bytes; tasks with most bytes come first, and large parts in a task."""
    count = min(len(parts), max(cores * _TASKS_PER_CORE, sum(part.size for part in parts) // _LEAST_TASK))
    lightest = [(0, number) for number in range(count)]
    tasks: list[list[Part]] = [[] for _ in lightest]
    for part in sorted(parts, key=lambda part: -part.size):
        size, number = heappop(lightest)
        tasks[number].append(part)
        heappush(lightest, (size + part.size, number))
    return [tasks[number] for _, number in sorted(lightest, key=lambda task: -task[0])]


def _mapped(shared: Broadcast[Job]) -> Callable[[Iterable[list[Part]]], Iterator[_Row]]:
    """Return the work of tasks, each of which comes with its own parts; the job comes once to each executor."""
    home = socket.gethostname()

    def work(tasks: Iterable[list[Part]]) -> Iterator[_Row]:
        for part in chain.from_iterable(tasks):
            try:
                for packet in shared.value.map(part, silent):
                    yield _Place(packet.key, part.number, packet.order), _Load(packet.data, False)
            except RmqstoreError as error:
                yield _Place("", part.number, 0), _Load(pickle.dumps(_with_host(named(error), home)), True)
            make_room()

    return work


def _with_host(error: RmqstoreError, home: str) -> RmqstoreError:
    """Return an error whose message names this host, if it is not that of the command."""
    host = socket.gethostname()
    if host != home and host not in error.message:
        error.message = f"On host {host}: {error.message}"
    return error


def _reduced(shared: Broadcast[Job]) -> Callable[[Iterable[_Row]], Iterator[_Row]]:
    home = socket.gethostname()

    def work(rows: Iterable[_Row]) -> Iterator[_Row]:
        for (failed, key), group in groupby(rows, key=lambda row: (row[1].failed, row[0].key)):
            if failed:
                yield from group
                continue
            try:
                result = _Load(shared.value.reduce(key, (load.data for _, load in group)), False)
            except RmqstoreError as error:
                result = _Load(pickle.dumps(_with_host(error, home)), True)
            yield _Place(key, 0, 0), result

    return work


@contextmanager
def _errors_translated() -> Iterator[None]:
    """Translate exceptions of Spark to KeyboardInterrupt or RmqstoreError."""
    try:
        yield
    except Exception as error:
        if _interrupted(error):
            raise KeyboardInterrupt from error
        raise translated(error) from error


def _interrupted(error: BaseException | None) -> bool:
    """Return whether PySpark raised this for Ctrl-C: it waits for the end of the job that it cancels, and reports that instead."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None
