"""How far Spark is, looked at from a thread of its own while something else waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from rmqstore.pipeline.job import Advance
from rmqstore.pipeline.spark.session import OF_JAVA, has_worked

if TYPE_CHECKING:
    from pyspark import SparkContext, SparkStageInfo

_PERIOD = 0.2
"""Seconds between two looks."""


@contextmanager
def watched(context: SparkContext, look: Callable[[list[SparkStageInfo]], None]) -> Iterator[None]:
    """Shows the stages that run to `look` every now and then, until the block ends."""
    ended = threading.Event()

    def watch() -> None:
        # Whoever waits for Spark is told when its Java ends; here only nothing is looked at any more.
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
def tasks_told(context: SparkContext, advance: Advance) -> Iterator[None]:
    """Tells of tasks as they are done, of whatever jobs run during the block."""
    done: dict[int, int] = {}

    def look(stages: list[SparkStageInfo]) -> None:
        before = sum(done.values())
        done.update((stage.stageId, stage.numCompletedTasks) for stage in stages)
        advance(sum(done.values()) - before)

    with watched(context, look):
        yield
