"""No kernel reads outside the bytes it was given, whatever stands in them."""

from __future__ import annotations

import subprocess
import sys

from tests.support.waiting import PATIENCE


def program(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", module, *arguments], capture_output=True, text=True, timeout=PATIENCE)


def test_hostile_bytes_beside_inaccessible_memory() -> None:
    finished = program("tests.scan.guarded")

    assert finished.returncode == 0, finished.stderr
    assert int(finished.stdout) > 15_000
    assert finished.stderr == ""


def test_the_guard_does_catch_a_read_behind_the_end() -> None:
    reading = "from tests.scan.guarded import *; m = Guarded(); b = m.at_end(bytes(8)); first_nonzero(b, 0, 8); first_nonzero(b, 0, 9)"
    finished = subprocess.run([sys.executable, "-c", reading], capture_output=True, timeout=PATIENCE)

    assert finished.returncode < 0
