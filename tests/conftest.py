"""Fixtures that every test may use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import stores


@pytest.fixture
def fresh_store(tmp_path: Path) -> Callable[[str], Path]:
    """`fresh_store(name)`: an own copy of a sample store."""
    return lambda name: stores.fresh_store(name, tmp_path)
