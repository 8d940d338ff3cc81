"""The runner on Spark: a task per part, packets shuffled to the tasks that reduce them.

Packets cross between Python and Java as Arrow batches with a few large cells; rows of their own would cost many times as much. Largest
parts begin first. An error that trying again cannot mend comes back as a value and ends the job as it would here; any other error makes
Spark try the task again.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rmqstore.errors import RmqstoreError
from rmqstore.pipeline.job import Advance, Job, Part, silent

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Batches = Iterator[pa.RecordBatch]

_PACKETS = pa.schema(
    [("key", pa.string()), ("part", pa.int64()), ("sequence", pa.int64()), ("data", pa.large_binary()), ("failed", pa.bool_())]
)
_COLUMNS = "key string, part long, sequence long, data binary, failed boolean"
_GROUP = "rmqstore"
_POLL = 0.2


class SparkRunner:
    """Runs jobs in a Spark session."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def run(self, job: Job, advance: Advance) -> Iterator[tuple[str, bytes]]:
        """As `LocalRunner.run`. Raises what the job raises, and RmqstoreError with what Spark says when tasks failed too often."""
        parts = sorted(job.parts, key=lambda part: -part.size)
        if not parts:
            return
        frame = self._session.range(0, len(parts), 1, len(parts)).mapInArrow(_mapped(job, parts), _COLUMNS)
        if job.shuffles:
            keys = min(len(parts), max(1, self._session.sparkContext.defaultParallelism))
            frame = frame.repartition(keys, "key").sortWithinPartitions("failed", "key", "part", "sequence")
            frame = frame.mapInArrow(_reduced(job), _COLUMNS)
        with self._progress(sum(part.size for part in parts), len(parts), advance):
            table = self._collect(frame)
        failures = [row for row in table if row["failed"]]
        if failures:
            raise pickle.loads(min(failures, key=itemgetter("part"))["data"])
        for row in sorted(table, key=itemgetter("key") if job.shuffles else itemgetter("part", "sequence")):
            yield row["key"], row["data"]

    def _collect(self, frame: DataFrame) -> list[dict[str, Any]]:
        try:
            rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
        except Exception as error:
            if _interrupted(error):
                raise KeyboardInterrupt from error
            raise _translated(error) from error
        return rows

    @contextmanager
    def _progress(self, total: int, tasks: int, advance: Advance) -> Iterator[None]:
        """Tells of the bytes of the parts that are done, about as many as there are tasks done."""
        context = self._session.sparkContext
        context.setJobGroup(_GROUP, "rmqstore", interruptOnCancel=True)
        ended = threading.Event()
        told = 0

        def tell(done: int) -> None:
            nonlocal told
            advance(total * done // tasks - told)
            told = total * done // tasks

        def watch() -> None:
            tracker, most = context.statusTracker(), 0
            while not ended.wait(_POLL):
                stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
                done = max((stage.numCompletedTasks for stage in stages if stage and stage.numTasks == tasks), default=0)
                if done > most:
                    most = done
                    tell(done)

        watcher = threading.Thread(target=watch, name="spark progress", daemon=True)
        watcher.start()
        try:
            yield
            ended.set()
            watcher.join()
            tell(tasks)
        except BaseException:
            context.cancelJobGroup(_GROUP)
            raise
        finally:
            ended.set()


def _mapped(job: Job, parts: list[Part]) -> Callable[[Batches], Batches]:
    def work(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                part = parts[number]
                try:
                    for packet in job.map(part, silent):
                        yield _row(packet.key, part.number, packet.order, packet.data, False)
                except RmqstoreError as error:
                    yield _row("", part.number, 0, pickle.dumps(error), True)

    return work


def _reduced(job: Job) -> Callable[[Batches], Batches]:
    def work(batches: Batches) -> Batches:
        rows = (row for batch in batches for row in _rows(batch))
        for (failed, key), group in groupby(rows, key=itemgetter(0, 1)):
            if failed:
                for _, _, part, data in group:
                    yield _row(key, part, 0, data, True)
                continue
            try:
                yield _row(key, 0, 0, job.reduce(key, (data for _, _, _, data in group)), False)
            except RmqstoreError as error:
                yield _row(key, 0, 0, pickle.dumps(error), True)

    return work


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[bool, str, int, bytes]]:
    keys, parts, _, data, failed = batch.columns
    for row in range(batch.num_rows):
        yield failed[row].as_py(), keys[row].as_py(), parts[row].as_py(), data[row].as_py()


def _row(key: str, part: int, sequence: int, data: bytes, failed: bool) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"key": [key], "part": [part], "sequence": [sequence], "data": [data], "failed": [failed]}, schema=_PACKETS
    )


def _interrupted(error: BaseException | None) -> bool:
    """Whether it is what PySpark makes of Ctrl-C: it waits for the end of the job that it cancels, and tells of that instead."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _translated(error: Exception) -> RmqstoreError:
    """What Spark says of a job that failed, in one line: the last exception of the worker stands at the end of its traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = next(
        (line for line in reversed(lines) if "Error" in line.split(":")[0] and not line.startswith("at ")), lines[0] if lines else ""
    )
    told = told or type(error).__name__
    return RmqstoreError(f"Spark gave up: {told.removesuffix('.')}.", "Run the command again, or with --engine local.")
