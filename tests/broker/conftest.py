"""Releases of the real store code."""

from __future__ import annotations

import pytest

from tests.broker.toolchain import JarsMissing, prepared


@pytest.fixture
def release(request: pytest.FixtureRequest) -> str:
    """A release whose jars are here or can be had."""
    try:
        prepared(request.param)
    except JarsMissing as error:
        pytest.skip(f"Maven cannot get the jars of {request.param}: {error}")
    return str(request.param)
