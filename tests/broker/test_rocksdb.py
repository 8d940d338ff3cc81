"""Brokers build the queues of repaired stores in RocksDB from the log, and serve every message that the damage left alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.broker import repaired, wholebroker
from tests.broker.repaired import RepairCase, describe
from tests.broker.toolchain import WHOLE, JarsMissing, missing, prepared
from tests.rocksdb.damages import long_sst, manifest, short_sst
from tests.support.damages import DAMAGES, Plan
from tests.support.operations import Delete, Flip, Op, Resize
from tests.support.storeview import StoreView

RELEASES = ("5.2.0", "5.3.3", "5.5.1")
DATABASE = "consumequeue"
_BIT = 0x10


def _op(make: Callable[[str, int], Op], choose: Callable[[Path], Path]) -> Plan:
    """One operation on one file of the database; `make` gets its path and length."""

    def plan(view: StoreView) -> list[Op]:
        path = choose(view.root / DATABASE)
        return [make(f"{DATABASE}/{path.name}", path.stat().st_size)]

    return plan


PLANS: dict[str, Plan] = {
    "rocksdb-manifest-missing": _op(lambda path, length: Delete(path), manifest),
    "rocksdb-manifest-half": _op(lambda path, length: Resize(path, length // 2), manifest),
    "rocksdb-current-missing": lambda view: [Delete(f"{DATABASE}/CURRENT")],
    "rocksdb-entries-missing": _op(lambda path, length: Delete(path), long_sst),
    "rocksdb-entries-flip": _op(lambda path, length: Flip(path, length // 4, _BIT), long_sst),
    "rocksdb-offsets-flip": _op(lambda path, length: Flip(path, length // 4, _BIT), short_sst),
}
BOTH = "rocksdb-entries-flip+body-flip-mid"
"""Damage of the log at the same time."""

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(missing() is not None, reason=f"the real store code cannot run here: {missing()}"),
]


@pytest.fixture(autouse=True)
def _named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, plan in PLANS.items():
        monkeypatch.setitem(DAMAGES, name, plan)
    monkeypatch.setitem(DAMAGES, BOTH, lambda view: [*PLANS["rocksdb-entries-flip"](view), *DAMAGES["body-flip-mid"](view)])


@pytest.mark.parametrize("release", RELEASES)
def test_the_store_code_serves_what_was_promised(release: str) -> None:
    cases = [RepairCase(f"{release}-rocksdb", damage, "no", release) for damage in [*PLANS, BOTH]]
    cases += [RepairCase(f"{release}-rocksdb", damage, "yes", release) for damage in ("rocksdb-manifest-half", "rocksdb-entries-flip")]
    try:
        verdicts = list(repaired.judge_all(cases))
    except JarsMissing as error:
        pytest.skip(f"Maven cannot get the jars of {release}: {error}")

    assert [verdict.case for verdict in verdicts] == cases
    assert not [verdict for verdict in verdicts if verdict.undone]
    assert not [line for verdict in verdicts if verdict.problems for line in describe(verdict)]


@pytest.mark.parametrize(("damage", "abort"), [("rocksdb-manifest-missing", "no"), ("rocksdb-entries-flip", "yes")])
def test_a_whole_broker_serves_what_was_promised(damage: str, abort: str) -> None:
    case = wholebroker.whole_case("broker-5.5.1-rocksdb-clean", damage, abort)
    try:
        prepared(case.release, WHOLE)
    except JarsMissing as error:
        pytest.skip(f"Maven cannot get the jars of a broker {case.release}: {error}")

    (verdict,) = wholebroker.judge_all([case], jobs=1)

    assert not verdict.undone
    # A start after a crash makes the newest file of the index again.
    assert not [problem for problem in verdict.problems if not problem.startswith("the first start: index/")]
