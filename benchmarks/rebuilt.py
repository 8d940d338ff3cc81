"""`python -m benchmarks.rebuilt ENGINE STORE TARGET LOG_END [KEY=VALUE...]`: queues and index of a store, made into TARGET."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rmqstore.cli import set_up_process
from rmqstore.pipeline.engine import Choice, EngineOptions, runner_of
from rmqstore.pipeline.job import StoreAt

if TYPE_CHECKING:
    from rmqstore.repair.derived.requests import Rebuilder


def main() -> None:
    """Rebuilds everything once, in the order of the commands: Spark begins to start before everything that takes long to load."""
    set_up_process()
    engine, root, target, log_end, *settings = sys.argv[1:]
    at = StoreAt.of(Path(root), settings=dict(setting.split("=", 1) for setting in settings))
    store = at.open()
    rebuilder: Rebuilder | None = None
    if engine == "spark":
        runner = runner_of(Choice("spark", "it is measured"), EngineOptions())
        from rmqstore.pipeline.rebuild.jobs import DistributedRebuild

        rebuilder = DistributedRebuild(runner, at)
    from benchmarks.rebuilding import WRITTEN_AS
    from rmqstore.rebuild import Mode
    from rmqstore.repair.derived.rebuild import rebuild_derived
    from rmqstore.repair.derived.requests import IndexRequest, Planning, QueueRequest
    from rmqstore.repair.log.future import FutureLog
    from rmqstore.repair.plan.builder import PlanBuilder
    from rmqstore.repair.plan.staging import Staging

    planning = Planning(PlanBuilder(store, Staging(Path(target), forced=False), "rebuild", WRITTEN_AS), rebuilder=rebuilder)
    log = FutureLog(store.message_log.files, int(log_end))
    queues = QueueRequest(Mode.USEFUL, lambda key: True)
    rebuild_derived(planning, store, log, queues=queues, index=[IndexRequest()])


if __name__ == "__main__":
    main()
