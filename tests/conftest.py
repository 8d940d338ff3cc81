"""Fixtures that every test may use."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support import stores

# A busy machine is slow in making examples, which says nothing about the code.
settings.register_profile("rmqstore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("rmqstore")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as exhaustive what a sampled test leaves out of its cases: `pytest` does not run these, `pytest -m exhaustive` does."""
    sampled = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled") is not None:
            sampled[item.nodeid.partition("[")[0]].append(item)
    for cases in sampled.values():
        marker = cases[0].get_closest_marker("sampled")
        assert marker is not None
        for item in set(cases) - set(sample(cases, *marker.args)):
            item.add_marker("exhaustive")


def sample(cases: Sequence[pytest.Item], count: int) -> list[pytest.Item]:
    """Return `count` of the cases, always the same ones, and as many more as it takes to have each value of each of several parameters."""
    mixed = sorted(cases, key=lambda item: zlib.crc32(item.nodeid.encode()))
    seen: set[tuple[str, str]] = set()
    chosen = []
    for item in mixed:
        values = {(name, repr(value)) for name, value in item.callspec.params.items()}  # type: ignore[attr-defined]
        if len(values) > 1 and not values <= seen:
            seen |= values
            chosen.append(item)
    rest = [item for item in mixed if item not in chosen]
    return chosen + rest[: max(0, count - len(chosen))]


@pytest.fixture
def fresh_store(tmp_path: Path) -> Callable[[str], Path]:
    """`fresh_store(name)`: an own copy of a sample store."""
    return lambda name: stores.fresh_store(name, tmp_path)
