"""Random damages, repaired by the command line: each kind of damage alone, and some combinations; a few served by the real store code.

The cases are the same in every run; `python -m tests.campaign` runs others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.broker.toolchain import missing
from tests.campaign.campaign import SECONDS, judge_all
from tests.campaign.cases import Case, random_case
from tests.campaign.judge import Repair, Task, repair
from tests.campaign.kinds import KINDS
from tests.campaign.known import ALONE, RANDOM
from tests.support import stores
from tests.support.worker import Worker

SEED = 1
CASES = 16
ONCE_BROKEN = {
    7: (15, 38),
    10: (33, 38),
    21: (63, 93, 152, 215, 231, 239, 282, 294, 306, 321, 341, 373, 393, 415, 421, 465, 488, 496),
    31: (4, 45, 87, 187, 229, 239, 264),
    41: (44, 96, 137, 140, 148, 160),
    51: (5, 115, 196, 197, 207),
    61: (0, 1, 84, 131),
    71: (83, 114, 115),
    72: (35,),
    81: (34,),
    83: (26,),
    86: (5, 26),
    501: (167, 189, 200, 223, 248, 273, 321, 375),
    502: (257, 351),
    503: (6, 100),
    601: (74,),
    602: (38, 77),
    89: (37, 38),
    91: (37,),
    94: (2,),
    120: (17,),
    203: (29,),
    207: (22,),
    801: (71, 122, 151, 455),
    802: (89,),
    803: (421,),
    804: (398,),
    28111: (502,),
    90211: (130,),
}
"""Numbers of random cases, by seed, that long runs found and that were put right then."""
SERVED = {
    "4.9.8": ((SEED, 12), (SEED, 27), (SEED, 47)),
    "5.2.0": ((801, 46),),
    "5.3.2": ((21, 66),),
    "5.5.1": ((SEED, 7), (SEED, 15), (SEED, 18), (SEED, 37), (21, 54), (21, 420), (21, 454)),
}
"""Seeds and numbers of random cases that the real store code opens, by its release."""

_CONFIGURED = ("config-old-backup",)
"""What only whole brokers leave."""

Repairing = Worker[Task, Repair]


@pytest.fixture(scope="module")
def worker() -> Iterator[Repairing]:
    with Worker(repair) as one:
        yield one


def alone(kind: str) -> Case:
    """A case of one kind of damage on one of the smaller samples that have what it damages."""
    cases = (random_case(SEED, number, [kind]) for number in count(sorted(KINDS).index(kind)))
    return next(case for case in cases if case.operations and (kind in _CONFIGURED or not stores.case(case.base).is_broker))


def _known(reasons: Mapping[Any, str], value: object) -> object:
    marks = [pytest.mark.xfail(strict=True, reason=reasons[value])] if value in reasons else []
    return pytest.param(value, marks=marks)


def _demand(case: Case, worker: Repairing, scratch: Path) -> None:
    repaired = worker.call(Task(case, scratch, for_broker=False), SECONDS)
    assert not repaired.problems, "\n".join([str(case), *map(str, repaired.problems)])


@pytest.mark.limited(16)
@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", [_known(ALONE, kind) for kind in sorted(KINDS)])
def test_each_kind_of_damage_alone(kind: str, worker: Repairing, tmp_path: Path) -> None:
    _demand(alone(kind), worker, tmp_path)


@pytest.mark.limited(12)
@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", [_known(RANDOM, number) for number in range(CASES)])
def test_random_damages(number: int, worker: Repairing, tmp_path: Path) -> None:
    _demand(random_case(SEED, number), worker, tmp_path)


@pytest.mark.limited(16)
@pytest.mark.sampled(4)
@pytest.mark.parametrize(("seed", "number"), [(seed, number) for seed, numbers in ONCE_BROKEN.items() for number in numbers])
def test_damages_that_were_repaired_wrongly(seed: int, number: int, worker: Repairing, tmp_path: Path) -> None:
    _demand(random_case(seed, number), worker, tmp_path)


@pytest.mark.limited(2)
@pytest.mark.sampled(1)
@pytest.mark.broker
@pytest.mark.skipif(missing() is not None, reason=f"the real store code cannot run here: {missing()}")
@pytest.mark.parametrize("release", SERVED, indirect=True)
def test_a_repaired_store_is_served(release: str) -> None:
    verdicts = list(judge_all([random_case(*case) for case in SERVED[release]]))
    assert [verdict.note for verdict in verdicts if verdict.refused is None and verdict.note] == []
    problems = [f"{verdict.case}: {problem}" for verdict in verdicts for problem in verdict.problems]
    assert not problems, "\n".join(problems)


def test_a_case_depends_on_seed_and_number_alone() -> None:
    forward = [random_case(SEED, number) for number in range(CASES)]
    assert [random_case(SEED, number) for number in reversed(range(CASES))] == forward[::-1]
    assert [case.operations for case in forward] == [case.operations for case in forward]
    assert [random_case(SEED + 1, number) for number in range(CASES)] != forward


def test_every_kind_of_damage_changes_something() -> None:
    for kind in KINDS:
        assert any(random_case(SEED, number, [kind]).operations for number in range(8)), kind
