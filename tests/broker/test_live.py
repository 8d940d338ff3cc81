"""The real store code of each release and the prediction agree on random cases.

The cases are the same in every run; `python -m tests.broker` runs others.
"""

from __future__ import annotations

import pytest

from tests.broker.__main__ import describe
from tests.broker.live import RELEASES, judge_all, random_case
from tests.broker.toolchain import missing

SEED = 4
CASES_OF_A_RELEASE = 7
JOBS = 4

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(missing() is not None, reason=f"the real store code cannot run here: {missing()}"),
]


@pytest.mark.limited(5)
@pytest.mark.sampled(2)
@pytest.mark.parametrize("release", RELEASES, indirect=True)
def test_the_prediction_is_what_the_store_code_does(release: str) -> None:
    print(f"seed {SEED}, cases 0 to {CASES_OF_A_RELEASE - 1} for {release}")
    verdicts = list(judge_all([random_case(SEED, number, [release]) for number in range(CASES_OF_A_RELEASE)], JOBS))
    disagreements = [line for verdict in verdicts if verdict.differences for line in describe(verdict)]
    assert not disagreements, "\n".join(disagreements)
    assert sum(verdict.undone is None for verdict in verdicts) > CASES_OF_A_RELEASE // 2
