"""Brokers build the queues of repaired stores in RocksDB from the log, and serve every message that the damage left alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from rocksdict import Rdict

from tests.broker import repaired, whole_broker
from tests.broker.repaired import RepairCase
from tests.broker.toolchain import WHOLE, JarsMissing, missing, prepared
from tests.rocksdb.bases import opened
from tests.rocksdb.damages import long_sst, manifest, short_sst
from tests.support.damages import DAMAGES, Plan
from tests.support.operations import Delete, Flip, Op, Resize, Zero
from tests.support.storeview import StoreView

RELEASES = ("5.2.0", "5.3.3", "5.5.1")
DATABASE = "consumequeue"
_BIT = 0x10


@dataclass(frozen=True, slots=True)
class Edit(Op):
    """Changes entries of the database at `path`."""

    edit: Callable[[Mapping[str, Rdict]], None]

    def apply(self, root: Path) -> None:
        with opened(root / self.path) as families:
            self.edit(families)


def _without_three(families: Mapping[str, Rdict]) -> None:
    keys = [key for key, _ in families["default"].items()]
    for key in keys[5::20][:3]:
        del families["default"][key]


def _exchanged(families: Mapping[str, Rdict]) -> None:
    """Exchange the values of two entries in the middle."""
    entries = families["default"]
    keys = [key for key, _ in entries.items()]
    one, other = keys[len(keys) // 3], keys[len(keys) // 2]
    entries[one], entries[other] = entries[other], entries[one]


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
    "rocksdb-entries-flip": _op(lambda path, length: Flip(path, length // 4, _BIT), long_sst),
    "rocksdb-offsets-flip": _op(lambda path, length: Flip(path, length // 4, _BIT), short_sst),
    "rocksdb-entries-missing": lambda view: [Edit(DATABASE, _without_three)],
    "rocksdb-entries-exchanged": lambda view: [Edit(DATABASE, _exchanged)],
    "rocksdb-ahead": lambda view: [Zero((cut := view.records[-40]).path, cut.position, view.log_file_size - cut.position)],
}
BOTH = "rocksdb-entries-flip+body-flip-mid"
"""Damage of the log at the same time."""

CASES = {
    "files that are missing": (("rocksdb-manifest-missing", "no"), ("rocksdb-current-missing", "no")),
    "files that were changed": (("rocksdb-manifest-half", "yes"), ("rocksdb-entries-flip", "no"), ("rocksdb-offsets-flip", "no")),
    "entries that do not fit": (("rocksdb-entries-missing", "no"), ("rocksdb-entries-exchanged", "yes")),
    "the log as well": (("rocksdb-ahead", "no"), (BOTH, "yes")),
}
"""Damages and whether `abort` is there; the cases of a group share one JVM."""

_EARLY = re.compile(r"a new message of .* is not found: by queue \[\], by key \[[0-9]+\]")
"""From 5.3.2 on another thread writes queue entries into RocksDB: a message that was just stored can be asked for too early."""

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(missing() is not None, reason=f"the real store code cannot run here: {missing()}"),
]


@pytest.fixture(autouse=True)
def _named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, plan in PLANS.items():
        monkeypatch.setitem(DAMAGES, name, plan)
    monkeypatch.setitem(DAMAGES, BOTH, lambda view: [*PLANS["rocksdb-entries-flip"](view), *DAMAGES["body-flip-mid"](view)])


@pytest.mark.limited(3)
@pytest.mark.sampled(1)
@pytest.mark.parametrize("group", CASES)
@pytest.mark.parametrize("release", RELEASES)
def test_the_store_code_serves_what_was_promised(release: str, group: str) -> None:
    cases = [RepairCase(f"{release}-rocksdb", damage, abort, release) for damage, abort in CASES[group]]
    try:
        verdicts = list(repaired.judge_all(cases))
    except JarsMissing as error:
        pytest.skip(f"Maven cannot get the jars of {release}: {error}")

    assert [verdict.case for verdict in verdicts] == cases
    assert not [verdict for verdict in verdicts if verdict.undone]
    assert [problem for verdict in verdicts for problem in verdict.problems if not _EARLY.match(problem)] == []


@pytest.mark.limited(1)
@pytest.mark.sampled(0)
@pytest.mark.parametrize(("damage", "abort"), [("rocksdb-manifest-missing", "no"), ("rocksdb-entries-flip", "yes")])
def test_a_whole_broker_serves_what_was_promised(damage: str, abort: str) -> None:
    case = whole_broker.whole_case("broker-5.5.1-rocksdb-clean", damage, abort)
    try:
        prepared(case.release, WHOLE)
    except JarsMissing as error:
        pytest.skip(f"Maven cannot get the jars of a broker {case.release}: {error}")

    (verdict,) = whole_broker.judge_all([case], jobs=1)

    assert not verdict.undone
    # A start after a crash makes the newest file of the index again.
    assert not [problem for problem in verdict.problems if not problem.startswith("the first start: index/")]
