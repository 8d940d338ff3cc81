"""The comparison of records with units does not depend on the memory for units, nor on when queues are met."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqstore.scan import walk
from rmqstore.verify.queues import units
from tests.pipeline.places import damaged_stores
from tests.support.cli import rmqstore
from tests.support.damages import DAMAGES

_BASE = "5.3.3-plain-crash"


@pytest.mark.sampled(12)
@pytest.mark.parametrize("damage", DAMAGES)
def test_little_memory(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [at] = damaged_stores(_BASE, tmp_path, names=[damage])
    command = ("verify", at.path, "--engine", "local", "--format", "json", *at.options)
    expected = rmqstore(*command)
    for batch, most in ((5, 100_000), (40, 900)):
        monkeypatch.setattr(walk, "BATCH", batch)
        monkeypatch.setattr(units, "_FIRST_QUEUES", 1)
        monkeypatch.setattr(units, "_SMALLEST_SHARE", 20)
        monkeypatch.setattr(units, "_SHARED", 900)
        monkeypatch.setattr(units, "_MOST", most)
        found = rmqstore(*command)
        assert found.status == expected.status
        assert found.objects[:-1] == expected.objects[:-1]
