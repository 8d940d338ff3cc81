"""The choice of the runner of a job: the requested one, else the one that a cost model expects to finish first.

The model is this table and nothing else: what a job reads per second and core in threads of this process and in Spark, how many threads are
of use (Python code takes turns), and how long Spark takes to start. docs/performance.md documents how the figures were measured.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec

from rmqstore.errors import RefusedError, UsageError
from rmqstore.pipeline.job import Job, Runner
from rmqstore.reading.progress import Advance

SPARK_START = 2.3
"""Seconds that Spark takes to start and to end, on a machine with two cores."""


@dataclass(frozen=True, slots=True)
class Throughput:
    """The cost of a kind of job: bytes of log per second and core here and on Spark; more `threads` than those are of no use here."""

    local: float
    threads: int
    spark: float

    def local_seconds(self, size: int, threads: int) -> float:
        """Return the expected time in threads of this process."""
        return size / (self.local * min(threads, self.threads))

    def spark_seconds(self, size: int, cores: int) -> float:
        """Return the expected time on Spark, its start included."""
        return SPARK_START + size / (self.spark * cores)


VERIFY = Throughput(local=2.2e9, threads=8, spark=2.0e9)
REBUILD = Throughput(local=1.8e9, threads=2, spark=1.1e9)
STATS = Throughput(local=1.7e9, threads=4, spark=1.7e9)
EXPORT = Throughput(local=110e6, threads=2, spark=100e6)
DIFF = Throughput(local=1.2e9, threads=1, spark=0.6e9)


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The options of the command line: `engine` auto, local or spark; where Spark runs and with which settings; threads here.

    `work_directory`: a path or URI where tasks of Spark leave files for each other.
    """

    engine: str = "auto"
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    threads: int | None = None
    work_directory: str | None = None

    @property
    def cores(self) -> int:
        """Return the number of threads to use here."""
        return self.threads or len(os.sched_getaffinity(0))


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen engine, `local` or `spark`, and the reason, as a clause."""

    engine: str
    why: str


def choose(wish: EngineOptions, size: int, pace: Throughput, *, remote: bool = False) -> Choice:
    """Choose the engine for a job that reads `size` bytes, remote bytes if `remote`.

    Raises UsageError for contradicting options, RefusedError if Spark was requested and is not installed.
    """
    if wish.engine == "local":
        if wish.master is not None or wish.conf or wish.work_directory is not None:
            raise UsageError("--master, --spark-conf and --work-dir are for Spark.", "Leave them out, or use --engine spark.")
        return Choice("local", "it was requested")
    if wish.engine == "spark" or wish.master is not None:
        require_spark()
    if wish.engine == "spark":
        return Choice("spark", "it was requested")
    if wish.master is not None:
        return Choice("spark", f"--master names where it runs ({wish.master})")
    if not spark_installed():
        return Choice("local", "Spark is not installed")
    if remote:
        return Choice("spark", "remote stores are fetched by many tasks at a time")
    here, there = pace.local_seconds(size, wish.cores), pace.spark_seconds(size, len(os.sched_getaffinity(0)))
    if here <= there:
        return Choice("local", f"that should take {_seconds(here)}, and Spark {_seconds(there)} with its start")
    return Choice("spark", f"that should take {_seconds(there)} with its start, and this process {_seconds(here)}")


def chosen_for_sql(wish: EngineOptions) -> str:
    """Return `local` or `spark` for SQL, where this process is faster than Spark on the same machine at any size.

    Raises UsageError for contradicting options, RefusedError if Spark was requested and is not installed.
    """
    if wish.engine == "auto" and wish.conf:
        wish = replace(wish, engine="spark")
    return choose(wish, 0, VERIFY).engine


def spark_installed() -> bool:
    """Return whether the packages of `rmqstore[spark]` are installed."""
    return find_spec("pyspark") is not None


def require_spark() -> None:
    """Raise RefusedError if Spark is not installed."""
    if not spark_installed():
        raise RefusedError("Spark is not installed.", "Run `pip install 'rmqstore[spark]'` with the Python that rmqstore is installed in.")


class Starting:
    """A runner that is created in a thread while the command does other work."""

    def __init__(self, make: Callable[[], Runner]) -> None:
        self._made: Runner | BaseException | None = None

        def work() -> None:
            try:
                self._made = make()
            except BaseException as error:
                self._made = error

        # A command that ends early does not wait for it.
        self._thread = threading.Thread(target=work, name="engine", daemon=True)
        self._thread.start()

    def run(self, job: Job, advance: Advance) -> Iterator[tuple[str, bytes]]:
        """Run a job; see Runner. Raises also what creating the runner raised."""
        self._thread.join()
        if self._made is None or isinstance(self._made, BaseException):
            raise self._made or RuntimeError("the thread ended without a runner")
        return self._made.run(job, advance)


def runner_of(choice: Choice, wish: EngineOptions) -> Runner:
    """Return the runner of a choice; Spark begins to start here. Raises RefusedError if Spark has no Java."""
    if choice.engine == "local":
        from rmqstore.pipeline.local import LocalRunner

        return LocalRunner(wish.cores)
    from rmqstore.pipeline.spark.session import begin_context

    context = begin_context(wish.master, wish.conf)

    def make() -> Runner:
        from rmqstore.pipeline.spark.runner import SparkRunner

        return SparkRunner(context()).ready()

    return Starting(make)


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value < 100 else f"{value / 60:.0f} min"
