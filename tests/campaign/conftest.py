"""Releases of the real store code, as in `../broker`."""

from __future__ import annotations

from tests.broker.conftest import release

__all__ = ["release"]
