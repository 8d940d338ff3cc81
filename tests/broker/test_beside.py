"""Beside a real broker that takes messages all the time, and after SIGKILL: no false error, nothing lost by a word, and no write.

Some runs for each release; `python -m tests.broker.beside` makes many.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.broker.beside import beside
from tests.broker.busy import RELEASES
from tests.broker.toolchain import JarsMissing, missing

RUNS = 4

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(missing() is not None, reason=f"whole brokers cannot run here: {missing()}"),
]


@pytest.mark.limited(1)
@pytest.mark.sampled(0)  # a whole broker runs for more than a minute
@pytest.mark.parametrize(("release", "rate"), list(zip(RELEASES, (300, 300, 300, 1000, 100, 300), strict=True)))
def test_beside_a_broker_that_takes_messages(release: str, rate: int) -> None:
    try:
        with tempfile.TemporaryDirectory() as directory:
            told = beside(release, Path(directory), runs=RUNS, rate=rate, seed=rate)
    except JarsMissing as error:
        pytest.skip(f"Maven cannot get the jars of a broker {release}: {error}")
    assert told.runs == RUNS
    assert told.wrong == []
