"""Random cases – store, damage, release, settings – that the real store code and the prediction each recover, compared field by field."""

from __future__ import annotations

import functools
import tempfile
import traceback
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from rmqstore.prediction.simulation import simulate
from rmqstore.store.root import Store
from tests.broker.answers import recorded_form
from tests.broker.harness import Harness, JvmDied
from tests.broker.random_damages import random_damage
from tests.prediction.comparing import Difference, differences
from tests.prediction.recorded_cases import Case, WorkingStore, recorded
from tests.support import stores
from tests.support.storeview import StoreView

RELEASES = (
    *("4.3.0", "4.3.2", "4.5.2", "4.6.1", "4.8.0", "4.9.2", "4.9.8"),
    *("5.1.4", "5.2.0", "5.3.1", "5.3.2", "5.3.3", "5.4.0", "5.5.0", "5.5.1"),
)
"""What the harness runs. 5.3.4 cannot: its remoting module was never published."""

JOBS = 8
_PER_JVM = 200
"""Stores that fail to load leave threads behind."""

_WRITTEN_BY_SAME = 0.5
_WITH_SETTINGS = 0.2
_SETTINGS: tuple[dict[str, str], ...] = (
    {"checkCRCOnRecover": "false"},
    {"duplicationEnable": "true"},
    {"enableCompaction": "false"},
    {"enableConsumeQueueExt": "true"},
    {"flushDiskType": "SYNC_FLUSH"},
    {"forceVerifyPropCRC": "true"},
    {"messageDelayLevel": "1s 5s"},
    {"messageIndexEnable": "false"},
    {"messageIndexSafe": "true"},
    {"readUnCommitted": "true"},
    {"recheckReputOffsetFromCq": "true"},
    {"brokerRole": "SLAVE", "broker.brokerId": "1"},
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`case` with what the broker did, as it is recorded; `undone` says why the broker could not be asked."""

    case: Case
    differences: tuple[Difference, ...] = ()
    undone: str | None = None


def bases() -> list[str]:
    """Sample stores that a store by itself can open: a whole broker keeps more beside it."""
    return [case.name for case in stores.cases() if not case.is_broker]


def random_case(seed: int, number: int, releases: Iterable[str] = RELEASES) -> Case:
    """Case `number` of a seed; it depends on nothing else. `releases` narrows the choice."""
    random = Random(f"{seed}-{number}")
    base = random.choice(bases())
    writer = stores.case(base).release
    allowed = list(releases)
    release = writer if random.random() < _WRITTEN_BY_SAME and writer in allowed else random.choice(allowed)
    settings = random.choice(_SETTINGS) if random.random() < _WITH_SETTINGS else {}
    abort = random.choice(("yes", "no"))
    name, operations = random_damage(random, _view(base))
    return {
        "base": base,
        "version": release,
        "damage": f"random-{seed}-{number}:{name}",
        "abort": abort,
        **({"settings": settings} if settings else {}),
        "ops": [recorded(operation) for operation in operations],
    }


@functools.cache
def _view(base: str) -> StoreView:
    root = stores.sample_store(base)
    return StoreView(root, stores.case(base).settings(root))


def judge_all(cases: Iterable[Case], jobs: int = JOBS) -> Iterator[Verdict]:
    """A verdict on each case, release by release. Raises JarsMissing."""
    by_release: dict[str, list[Case]] = {}
    for case in cases:
        by_release.setdefault(case["version"], []).append(case)
    for release, of_release in sorted(by_release.items()):
        for start in range(0, len(of_release), _PER_JVM):
            yield from _judge_in_one_jvm(release, of_release[start : start + _PER_JVM], jobs)


def _judge_in_one_jvm(release: str, cases: list[Case], jobs: int) -> Iterator[Verdict]:
    """A case during which the JVM died is asked again by itself: another one may have killed it."""
    left = []
    with Harness(release, jobs) as harness, ThreadPoolExecutor(jobs) as pool:
        for case, verdict in zip(cases, pool.map(functools.partial(_judge_unless_dead, harness), cases), strict=True):
            if verdict is None:
                left.append(case)
            else:
                yield verdict
    if left:
        with Harness(release, 1) as harness:
            yield from (judge(case, harness, alone=True) for case in left)


def _judge_unless_dead(harness: Harness, case: Case) -> Verdict | None:
    try:
        return judge(case, harness)
    except JvmDied:
        return None


def judge(case: Case, harness: Harness, *, alone: bool = False) -> Verdict:
    """Damages a copy, predicts, lets the store code recover the same copy, compares. Raises JvmDied."""
    with tempfile.TemporaryDirectory(prefix="rmqstore-live-") as scratch:
        store = WorkingStore(case["base"], Path(scratch))
        try:
            store.damage(case)
        except ValueError as error:  # an earlier damage took the bytes of this one away
            return Verdict(case, undone=f"the damages exclude each other: {error}")
        paths = store.paths()
        try:
            outcome = simulate(Store.open(store.root, settings=store.settings(case)), case["version"])
        except Exception:  # whatever the bytes are, the prediction has to come to an end
            return Verdict(case, (("prediction", None, traceback.format_exc()),))
        answer = _recover(case, store.root, harness, alone)
    if "failed" in answer:
        return Verdict(case, undone=str(answer["failed"]))
    if "S1" not in answer:
        return Verdict(case, undone=str(answer.get("exception")))
    judged: dict[str, Any] = {**case, **recorded_form(answer)}
    return Verdict(judged, tuple(differences(judged, outcome, paths)))


def _recover(case: Case, root: Path, harness: Harness, alone: bool) -> dict[str, Any]:
    base = stores.case(case["base"])
    settings = {**base.settings(root), **case.get("settings", {})}
    queues = _rocksdb_queues(base.name) if "storeType" in settings else ()
    return harness.recover(root, settings, base.data.get("topics", {}), queues=queues, alone=alone or bool(queues))


@functools.cache
def _rocksdb_queues(base: str) -> tuple[str, ...]:
    """RocksDB is native code, and its queues have to be asked for by name."""
    return tuple(sorted({f"{line['topic']}/{line['queueId']}" for line in stores.case(base).truth()}))
