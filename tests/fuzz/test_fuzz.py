"""A few fuzz cases, the same in every run; `python -m tests.fuzz` runs others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz import commands
from tests.fuzz.cases import Runner, fuzz
from tests.support.worker import Worker

SEED = 1
CASES = 12


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with Worker(commands.run) as one:
        yield one


@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", range(CASES))
def test_no_command_fails_unexpectedly(number: int, runner: Runner, tmp_path: Path) -> None:
    case = fuzz(SEED, number, tmp_path, runner)
    assert case.statuses
    assert not case.broken, "\n".join([str(case), *(f"{broken.command}: {broken.text}" for broken in case.broken)])
