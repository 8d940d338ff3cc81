"""Missing units weigh what the next start makes of them, as recorded starts of brokers had it: a note, or an error even after a crash."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rmqstore.findings import Finding, Severity
from rmqstore.pipeline.verify import foresee
from rmqstore.recovery.simulation import simulate
from rmqstore.store.root import Store
from rmqstore.verify.context import Options
from rmqstore.verify.engine import Verification
from tests.recovery.recorded import WorkingStore, cases_of

_DAMAGES = ("cq-queue-removed", "cq-queue-of-last-removed", "cq-topic-removed", "cq-all-removed", "cq-all-behind-half", "cq-tail-zero-2")
_MISSING = ("RMQ-CQ-BEHIND", "RMQ-CQ-MISSING")


@pytest.mark.parametrize("release", ["4.9.8", "5.1.4", "5.3.3", "5.5.1"])
def test_as_recorded(release: str, tmp_path: Path) -> None:
    seen: set[tuple[str, Severity]] = set()
    for case in cases_of(release):
        if case["damage"] not in _DAMAGES or not case.get("startOk"):
            continue
        working = WorkingStore(case["base"], tmp_path / f"{case['damage']}-{case['abort']}-{len(seen)}")
        working.damage(case)
        store = Store.open(working.root, settings=working.settings(case))
        options = Options(parts=frozenset({"consumequeue"}), threads=1)

        found = [one for one in Verification(store, options, None, partial(foresee, release=release)).run() if one.code in _MISSING]

        queues = case["S2"].get("queues", case["S1"]["queues"])
        after = simulate(store, release, counts_lost=False).after_start
        assert after is not None
        assert after.queues is not None
        for finding in found:
            name = f"{finding.topic}/{finding.queue_id}"
            if name in after.queues and after.queues[name].shifted:
                assert finding.severity is Severity.ERROR  # units come back, but not to their places: ends do not tell
                continue
            brought_back = _brought_back(finding, queues.get(name))
            assert finding.severity is (Severity.INFO if brought_back else Severity.ERROR), (case["damage"], case["abort"], finding)
            seen.add((case["abort"], finding.severity))
    assert seen >= {("yes", Severity.INFO), ("yes", Severity.ERROR), ("no", Severity.ERROR)}


def _brought_back(finding: Finding, queue: list[Any] | None) -> bool:
    first = finding.queue_offset or 0
    end = finding.expected if finding.code == "RMQ-CQ-BEHIND" else first + finding.expected
    return queue is not None and queue[0] <= first and queue[1] >= end
