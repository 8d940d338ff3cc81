"""The class of the first line for every damage of the table, against what the real store code did to promised messages and keys."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from rmqstore.doctor.areas import Area, State
from rmqstore.doctor.diagnosis import Diagnosis, diagnose
from rmqstore.doctor.nextsteps import CUTS_ITSELF, GONE, START, Commands
from rmqstore.doctor.verdict import Class
from rmqstore.findings import Severity
from rmqstore.store.root import Store
from tests.prediction.recorded_cases import Case, WorkingStore, cases_of
from tests.support.stores import case as sample_case

RELEASE = "5.3.3"
BASES = {"5.3.3-plain": "no", "5.3.3-plain-crash": "yes"}
CASES = [one for one in cases_of(RELEASE) if BASES.get(one["base"]) == one["abort"]]
_HALF, _ROLLED_BACK = 4, 12
_STATES = {
    Class.DOES_NOT_START: State.STOPS,
    Class.STARTS_BUT: State.LOSES,
    Class.NOT_SURE: State.NOT_CHECKED,
    Class.NOTHING_LOST: State.OK,
}


@cache
def promised(base: str) -> list[dict[str, Any]]:
    return sample_case(base).truth()


def what_happened(one: Case) -> Class:
    """Judges the start by the messages that producers were told of: in the log, in their queues, in the range of an index file."""
    if not (one["loadOk"] and one.get("startOk")):
        return Class.DOES_NOT_START
    state = {**one["S1"], **one.get("S2", {})}
    indexed = [(row[3], row[4]) for row in state["index"] if row[6] > 1]
    harmed = False
    for message in promised(one["base"]):
        offset, flag = message["physicalOffset"], message["sysFlag"]
        if offset < state["minPhyOffset"]:
            continue  # as if it had expired
        begin, end, *_ = state["queues"].get(f"{message['topic']}/{message['queueId']}", [0, 0])
        harmed |= offset >= state["maxPhyOffset"]
        harmed |= not flag & _HALF and not begin <= message["queueOffset"] < end
        if (message["keys"] or message["uniqKey"]) and flag & _ROLLED_BACK != _ROLLED_BACK:
            harmed |= not any(first <= offset <= last for first, last in indexed)
    return Class.STARTS_BUT if harmed else Class.NOTHING_LOST


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, WorkingStore]]:
    yield {base: WorkingStore(base, tmp_path_factory.mktemp("stores")) for base in BASES}


def diagnosis(one: Case, store: WorkingStore) -> Diagnosis:
    store.damage(one)
    try:
        return diagnose(Store.open(store.root, settings=store.settings(one)), one["version"], Commands(store.root))
    finally:
        store.mend(one)


@pytest.mark.limited(180)
@pytest.mark.sampled(30)
@pytest.mark.parametrize("one", CASES, ids=lambda one: f"{one['base']}-{one['damage']}")
def test_the_first_line(one: Case, stores: dict[str, WorkingStore]) -> None:
    found = diagnosis(one, stores[one["base"]])
    verdict, happened = found.verdict, what_happened(one)
    if happened is Class.NOTHING_LOST:
        # Damage that costs nothing at this start may be named all the same, but not as one that keeps the broker from starting.
        assert verdict.cls in (Class.NOTHING_LOST, Class.STARTS_BUT), verdict.headline
    else:
        assert verdict.cls is happened, verdict.headline
    _is_consistent(found)


def _is_consistent(found: Diagnosis) -> None:
    """No error is below a good headline, and the class is the worst of the areas."""
    verdict = found.verdict
    if any(finding.severity is Severity.ERROR for finding in found.findings):
        assert verdict.cls is not Class.NOTHING_LOST, verdict.headline
    assert [area.area for area in verdict.areas] == list(Area)
    states = list(State)
    worst = min((area.state for area in verdict.areas), key=states.index)
    assert worst is _STATES[verdict.cls] or found.starts is None
    assert verdict.headline.startswith(verdict.cls)
    assert len(verdict.headline) <= 120
    assert found.next
    assert (found.next in (START, CUTS_ITSELF)) is (verdict.cls is Class.NOTHING_LOST)
    assert found.next != GONE or verdict.cls is Class.STARTS_BUT


def test_there_are_as_many_states_as_promised() -> None:
    assert len(CASES) > 300
    assert {what_happened(one) for one in CASES} == {Class.DOES_NOT_START, Class.STARTS_BUT, Class.NOTHING_LOST}
