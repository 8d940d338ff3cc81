"""Every check on every sample store: what brokers left is no error, and damage of any file ends no check."""

from __future__ import annotations

import random
from pathlib import Path
from types import ModuleType

import pytest

from rmqstore.verify.parts import checkpoint, config, files, surroundings
from rmqstore.verify.timer import wheel
from tests.support import stores
from tests.verify.one_check import errors, run

CHECKS = [files, checkpoint, surroundings, wheel, config]
# Where noise shows. At the end of the timer log it looks like an unused rest; what it covers is missing for the wheel.
SMALL_FILES = {
    "checkpoint": "checkpoint",
    "abort": "abort",
    "lock": "lock",
    "timerwheel": "timerwheel",
    "timerlog/*": "timerwheel",
    "config/timercheck": "config/timercheck",
    "config/topics.json": "config/topics.json",
    "config/consumerOffset.json": "config/consumerOffset.json",
}


def module_name(check: ModuleType) -> str:
    return check.__name__.rpartition(".")[2]


@pytest.mark.parametrize("check", CHECKS, ids=module_name)
@pytest.mark.parametrize("case", stores.cases(), ids=lambda case: case.name)
def test_no_error_in_what_brokers_left(case: stores.Case, check: ModuleType) -> None:
    root = stores.sample_store(case.name)
    assert errors(run(check, root, case.settings(root))) == []
    assert errors(run(check, root)) == []


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("pattern", SMALL_FILES)
def test_noise_in_a_file_ends_no_check(pattern: str, seed: int, tmp_path: Path) -> None:
    root = stores.fresh_store("broker-5.5.1-crash", tmp_path)
    target = max(root.glob(pattern))
    content = random.Random(seed)
    length = min(target.stat().st_size, 1 << 20)
    with target.open("r+b") as stream:
        stream.truncate(target.stat().st_size - seed)
        stream.write(content.randbytes(length))
    before = stores.snapshot(root)
    found = [one for check in CHECKS for one in run(check, root)]
    assert SMALL_FILES[pattern] in {one.file for one in found}
    assert stores.snapshot(root) == before
