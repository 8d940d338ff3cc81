"""A replacement of compacted files that did not finish: after `recover` a whole broker starts and loads the compacted topic."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.broker.toolchain import WHOLE, JarsMissing, missing, prepared
from tests.broker.whole_start import Asked, start
from tests.support import stores
from tests.support.cli import rmqstore
from tests.support.stores import content

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(missing() is not None, reason=f"whole brokers cannot run here: {missing()}"),
]
BASE, RELEASE = "broker-5.5.1-crash", "5.5.1"
QUEUES = ["compact/0", "compact/1"]


def broker_of(tmp_path: Path) -> tuple[dict[str, str], list[str]]:
    """The settings of the broker that wrote the store, for it and for the command line; skips the test without its jars."""
    try:
        prepared(RELEASE, WHOLE)
    except JarsMissing as error:
        pytest.skip(f"Maven cannot get the jars of a broker {RELEASE}: {error}")
    settings = dict(stores.case(BASE).settings(stores.fresh_store(BASE, tmp_path / "first")))
    return settings, [text for name, value in settings.items() for text in ("--set", f"{name}={value}")]


@pytest.mark.limited(1)
@pytest.mark.sampled(0)  # two whole brokers run for half a minute each
@pytest.mark.parametrize("leftover", [True, False])
def test_a_broker_loads_the_compacted_topic_as_before(leftover: bool, tmp_path: Path) -> None:
    settings, options = broker_of(tmp_path)
    loaded = {}
    for name in ("whole", "stopped"):
        root = stores.fresh_store(BASE, tmp_path / name)
        log = min((root / "compaction" / "compactionLog" / "compact" / "0").iterdir())
        if name == "stopped":
            log.rename(f"{log}.delete")
            if leftover:
                shutil.copy2(f"{log}.delete", log)
            assert rmqstore("doctor", root, "--json", "--broker-version", RELEASE, *options).objects[-1]["class"] == "DOES NOT START"
        assert rmqstore("recover", root, "--yes", "--broker-version", RELEASE, *options).status == 0
        one = start(RELEASE, root, settings, Asked(queues=QUEUES), tmp_path / name / "broker")
        assert one.caught_up and not one.refused and not one.abort_left
        loaded[name] = content(root / "compaction")
        found = rmqstore("verify", root, "--json", *options).objects
        assert [item["code"] for item in found if item.get("code", "").startswith("RMQ-CM")] == []
    assert loaded["stopped"] == loaded["whole"]


@pytest.mark.sampled(0)
def test_a_broker_serves_what_was_written_again(tmp_path: Path) -> None:
    """The log of one queue is noise, that of the other is gone with its queue: clients get every message of both."""
    settings, options = broker_of(tmp_path)
    served = {}
    for name in ("whole", "damaged"):
        root = stores.fresh_store(BASE, tmp_path / name)
        trees = root / "compaction"
        if name == "damaged":
            log = min((trees / "compactionLog" / "compact" / "0").iterdir())
            log.write_bytes(bytes(range(1, 252)) * (log.stat().st_size // 251) + bytes(log.stat().st_size % 251))
            for tree in ("compactionLog", "compactionCq"):
                shutil.rmtree(trees / tree / "compact" / "1")
        assert rmqstore("recover", root, "--yes", "--broker-version", RELEASE, *options).status == 0
        one = start(RELEASE, root, settings, Asked(queues=QUEUES, compacted=True), tmp_path / name / "broker")
        assert one.caught_up and not one.refused and not one.abort_left
        served[name] = {queue: list(messages.items()) for queue, messages in one.queues.items() if queue[0] == "compact"}
    assert sum(len(messages) for messages in served["whole"].values()) == 250
    assert served["damaged"] == served["whole"]
