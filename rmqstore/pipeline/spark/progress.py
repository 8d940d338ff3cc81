"""The progress of Spark, polled from a separate thread while the command waits for Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from rmqstore.pipeline.spark.failures import OF_JAVA
from rmqstore.pipeline.spark.session import has_worked
from rmqstore.reading.progress import Advance

if TYPE_CHECKING:
    from pyspark import SparkContext, SparkStageInfo

_PERIOD = 0.2
"""Seconds between two polls."""


@contextmanager
def watched(context: SparkContext, look: Callable[[list[SparkStageInfo]], None]) -> Iterator[None]:
    """Pass the stages that run to `look` periodically, until the block ends."""
    ended = threading.Event()

    def watch() -> None:
        # The waiting code is informed when Java ends; here only the polling ends.
        with suppress(*OF_JAVA):
            tracker = context.statusTracker()
            while not ended.wait(_PERIOD):
                look([stage for stage in map(tracker.getStageInfo, tracker.getActiveStageIds()) if stage is not None])

    watcher = threading.Thread(target=watch, name="spark progress", daemon=True)
    watcher.start()
    try:
        yield
        has_worked()
    finally:
        ended.set()
        watcher.join()


@contextmanager
def task_progress(context: SparkContext, advance: Advance) -> Iterator[None]:
    """Report tasks as they are done, of all jobs that run during the block."""
    done: dict[int, int] = {}

    def look(stages: list[SparkStageInfo]) -> None:
        before = sum(done.values())
        done.update((stage.stageId, stage.numCompletedTasks) for stage in stages)
        advance(sum(done.values()) - before)

    with watched(context, look):
        yield
