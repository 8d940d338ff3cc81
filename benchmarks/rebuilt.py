"""`python -m benchmarks.rebuilt ENGINE STORE TARGET LOG_END [KEY=VALUE...]`: queues and index of a store, made into TARGET."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.rebuilding import WRITTEN_AS
from rmqstore.pipeline.engine import Choice, Wish, runner_of
from rmqstore.pipeline.job import StoreAt
from rmqstore.pipeline.rebuild import Elsewhere
from rmqstore.rebuild import Mode
from rmqstore.repair.logview import FutureLog
from rmqstore.repair.rebuilding import IndexRequest, QueueRequest, Rebuilder, rebuild_derived
from rmqstore.repair.staging import Staging
from rmqstore.versions import profile_of


def main() -> None:
    """Rebuilds everything once."""
    engine, root, target, log_end, *settings = sys.argv[1:]
    at = StoreAt.of(Path(root), settings=dict(setting.split("=", 1) for setting in settings))
    rebuilder: Rebuilder | None = None
    if engine == "spark":
        rebuilder = Elsewhere(runner_of(Choice("spark", "it is measured"), Wish()), at)
    store, profile, staging = at.open(), profile_of(WRITTEN_AS), Staging(Path(target))
    log = FutureLog(store.message_log.files, int(log_end))
    queues = QueueRequest(Mode.USEFUL, lambda key: True)
    rebuild_derived(store, log, profile, staging, queues=queues, index=[IndexRequest()], rebuilder=rebuilder)


if __name__ == "__main__":
    main()
