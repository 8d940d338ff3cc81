"""A few random kills of apply and undo; `python -m tests.kills` runs others. The moments of some kills are not the same in every run."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kills.cases import SECONDS, run_case
from tests.support import operations, stores
from tests.support.cli import rmqstore
from tests.support.damages import DAMAGES
from tests.support.storeview import StoreView

SEED = 1
CASES = 8

SAMPLE = "5.3.3-plain"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", range(CASES))
def test_it_converges(number: int) -> None:
    case = run_case(SEED, number)
    assert not case.problems, "\n".join([str(case), *case.problems])


@pytest.mark.parametrize("number", [1, 5])
def test_history_works_after_an_undo_was_killed_early(number: int, tmp_path: Path) -> None:
    root = stores.fresh_store(SAMPLE, tmp_path)
    settings = stores.case(SAMPLE)
    operations.apply(DAMAGES["body-flip-mid"](StoreView(stores.sample_store(SAMPLE), settings.settings(root))), root)
    assert rmqstore("recover", root, "--yes", "--broker-version", settings.release, *settings.set_options(root)).status == 0
    words = [sys.executable, "-m", "tests.kills.child", "kill", str(number), "undo", str(root), "--yes"]
    killed = subprocess.run(words, capture_output=True, timeout=SECONDS)
    assert killed.returncode == -signal.SIGKILL
    assert rmqstore("history", root).status == 0
