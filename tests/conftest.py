"""Fixtures that every test may use."""

from __future__ import annotations

import os
import zlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support import stores

# The readline of the first process gives its workers a width, as a shell does not; tests that need one set it.
for variable in ("COLUMNS", "LINES"):
    os.environ.pop(variable, None)

# A busy machine is slow in making examples, which says nothing about the code.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same code gets the same examples, so that a failure is a change; `pytest --hypothesis-profile explore` looks for new ones.
settings.register_profile("rmqstore", settings.get_profile("explore"), derandomize=True)
settings.load_profile("rmqstore")

CASES = 8
"""Cases of one test in a default run; a marker `sampled` names another number."""
EXHAUSTIVE_CASES = 14
"""Cases of one test in the default run and in the exhaustive one together; a marker `limited` names another number."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the cases of a test that a sample leaves out: those of a larger sample as exhaustive, the rest as thorough.

    `pytest` runs neither; `pytest -m "exhaustive and not thorough"` runs the former, `pytest -m thorough` the latter.
    """
    tests = defaultdict(list)
    for item in items:
        if hasattr(item, "callspec"):
            tests[item.nodeid.partition("[")[0]].append(item)
    for cases in tests.values():
        marker = cases[0].get_closest_marker("sampled")
        chosen = set(sample(cases, *(marker.args if marker else (CASES,))))
        limit = cases[0].get_closest_marker("limited")
        kept = set(sample(cases, *(limit.args if limit else (EXHAUSTIVE_CASES,))))
        for item in set(cases) - chosen:
            item.add_marker("exhaustive" if item in kept else "thorough")


def sample(cases: Sequence[pytest.Item], count: int) -> list[pytest.Item]:
    """Return `count` of the cases, always the same ones, with as many different values of each parameter as possible."""
    mixed = sorted(cases, key=lambda item: zlib.crc32(item.nodeid.encode()))
    seen: set[tuple[str, str]] = set()
    first, rest = [], []
    for item in mixed:
        values = {(name, repr(value)) for name, value in item.callspec.params.items()}  # type: ignore[attr-defined]
        (rest if values <= seen else first).append(item)
        seen |= values
    return (first + rest)[:count]


@pytest.fixture
def fresh_store(tmp_path: Path) -> Callable[[str], Path]:
    """`fresh_store(name)`: an own copy of a sample store."""
    return lambda name: stores.fresh_store(name, tmp_path)
