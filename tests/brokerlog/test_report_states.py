"""States of public reports that can be made from sample stores: what doctor says of them, and where its next step leads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.brokerlog.test_reports import REPORT_ROWS
from tests.runbooks.damages import DAMAGES
from tests.support.cli import rmqstore
from tests.support.operations import apply
from tests.support.stores import case, fresh_store
from tests.support.storeview import StoreView

NO_START, BUT = "DOES NOT START", "STARTS, BUT"
CRASH, PLAIN = "5.3.3-plain-crash", "5.3.3-plain"
STATES = {
    "apache/rocketmq#1560": (PLAIN, ["cq-file-last-short"], NO_START, "recover"),
    "apache/rocketmq#8395": ("broker-5.5.1-crash", ["config-all-garbage"], NO_START, "recover"),
    "apache/rocketmq#2141": (PLAIN, ["file-missing-middle"], BUT, "recover"),
    "apache/rocketmq#289": (CRASH, ["checkpoint-missing", "field-magic-mid"], BUT, "recover"),
    "apache/rocketmq#405": (PLAIN, ["cq-all-tails-zero-3"], BUT, "recover"),
    "apache/rocketmq#7477": (PLAIN, ["index-all-removed"], BUT, "rebuild-index"),
    "apache/rocketmq#8041": (PLAIN, ["index-end-ahead"], BUT, "rebuild-index"),
    "apache/rocketmq#542": (CRASH, ["none"], BUT, "recover"),
    "apache/rocketmq#1869": ("broker-4.9.7-lmq-crash", ["delay-offsets-ahead"], BUT, "recover"),
    "apache/rocketmq#9735": ("broker-5.5.1-crash", ["timerwheel-garbage"], BUT, "recover"),
    "apache/rocketmq#6587": ("broker-5.5.1-crash", ["compaction-stopped"], NO_START, "recover"),
    "apache/rocketmq-docker#115": (PLAIN, ["log-emptied"], BUT, "df"),
    "apache/rocketmq#7018": (PLAIN, ["cq-queue-removed"], BUT, "rebuild-consumequeue"),
    "–": ("5.3.3-rocksdb", ["rocksdb-queues-without-manifest"], NO_START, "recover"),
}
"""By report: the store, its damages, the class of the diagnosis, and the command of the next step."""


@pytest.mark.parametrize("report", STATES)
def test_doctor_sees_the_state(report: str, tmp_path: Path) -> None:
    base, damages, expected, command = STATES[report]
    assert report in {row["report"] for row in REPORT_ROWS}
    root = fresh_store(base, tmp_path)
    view = StoreView(root, case(base).settings(root))
    apply([operation for name in damages for operation in DAMAGES[name](view)], root)

    found = rmqstore("doctor", root, "--json", "--broker-version", case(base).release, *case(base).set_options(root)).objects[-1]

    assert (found["class"], found["next"].removeprefix("rmqstore ").split()[0]) == (expected, command), found["headline"]
