"""Fixtures that every test may use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support import stores

# A busy machine is slow in making examples, which says nothing about the code.
settings.register_profile("rmqstore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("rmqstore")


@pytest.fixture
def fresh_store(tmp_path: Path) -> Callable[[str], Path]:
    """`fresh_store(name)`: an own copy of a sample store."""
    return lambda name: stores.fresh_store(name, tmp_path)
