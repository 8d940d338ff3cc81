"""A whole broker with tiered storage whose metadata is gone: after the repair it serves from the segments what it served before."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.consumed_messages import Line, QueueKey
from tests.broker.whole_start import Asked, WholeStart, require_broker, start
from tests.support.cli import rmqstore
from tests.tiered.stores import settings, unpacked

STORES = {"5.1.4-clean": "5.1.4", "5.3.3-crash": "5.3.3", "5.5.0-clean": "5.5.0"}
QUEUES = tuple(f"{topic}/{number}" for topic in ("orders", "events") for number in range(3))
KEYS = tuple(f"{topic}:key-{number}-0" for topic in ("orders", "events") for number in range(120))


def served(name: str, directory: Path) -> WholeStart:
    """What a broker that reads everything from tiered storage serves from the store in `directory`."""
    return start(STORES[name], directory / "store", settings(name, directory), Asked(QUEUES, keys=KEYS), directory / "scratch")


def messages(one: WholeStart) -> dict[QueueKey, dict[int, Line]]:
    return {queue: dict(lines) for queue, lines in one.queues.items()}


@pytest.mark.limited(2)
@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", STORES)
def test_segments_are_served_after_the_metadata_was_lost(name: str, tmp_path: Path) -> None:
    require_broker(STORES[name])
    whole, lost = tmp_path / "whole", tmp_path / "lost"
    for directory in (whole, lost):
        directory.mkdir()
        unpacked(name, directory)
    before = served(name, whole)
    for path in (lost / "store" / "config").glob("tieredStoreMetadata.json*"):
        path.unlink()

    run = rmqstore("recover", lost / "store", "--broker-conf", lost / "broker.conf", "--yes", "--quiet")

    assert run.status == 0, run.err
    after = served(name, lost)
    assert messages(after) == messages(before)
    assert after.by_key == before.by_key
    assert sum(map(len, before.queues.values())) > 200
    assert any(before.by_key.values())


@pytest.mark.sampled(0)
def test_without_the_repair_nothing_of_it_is_served(tmp_path: Path) -> None:
    """What the finding says: brokers begin with no segments."""
    name = "5.3.3-crash"
    require_broker(STORES[name])
    root = unpacked(name, tmp_path)
    for path in (root / "config").glob("tieredStoreMetadata.json*"):
        path.unlink()
    assert not any(served(name, tmp_path).by_key.values())
