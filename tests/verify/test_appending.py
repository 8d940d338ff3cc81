"""A store that is written to while it is verified: nothing that the writer explains is a finding, and a real damage is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.verify.appending import run_all


@pytest.mark.parametrize(("rate", "runs"), [(20, 10), (500, 20), (0, 60)])
def test_no_finding_that_a_writer_explains(tmp_path: Path, rate: int, runs: int) -> None:
    told = run_all(tmp_path, runs, rate, seed=rate + 7)

    assert told.runs == runs
    assert told.wrong == []
