"""The prediction agrees with what brokers did, on every recorded case and in every field."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path

import pytest

from tests.prediction.judge import Judge
from tests.prediction.recorded_cases import cases_of, truth_files

GROUPS = [(name, base) for name in truth_files() for base, _ in groupby(cases_of(name), key=lambda case: case["base"])]


@pytest.mark.limited(160)
@pytest.mark.sampled(12)
@pytest.mark.parametrize(("name", "base"), GROUPS, ids=str)
def test_the_prediction_is_what_the_broker_did(name: str, base: str, tmp_path: Path) -> None:
    judge = Judge(tmp_path)
    disagreements = []
    for case in cases_of(name):
        if case["base"] == base and (found := judge.judge(case)):
            disagreements.append(f"{case['damage']} abort={case['abort']} {json.dumps(case['ops'])[:200]}: {found[:3]}")
    assert not disagreements, "\n".join(disagreements[:10])


def test_every_release_family_was_recorded() -> None:
    releases = {case["version"] for name in truth_files() for case in cases_of(name)}
    assert releases >= {"4.9.8", "5.1.4", "5.2.0", "5.3.2", "5.3.3", "5.4.0", "5.5.1"}
