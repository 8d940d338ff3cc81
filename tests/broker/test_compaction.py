"""Compacted topics after `recover`: a whole broker starts, loads them, and serves the newest value of each key."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.broker.busy import SIZES, BusyBroker, delete_empty_files
from tests.broker.toolchain import WHOLE, JarsMissing, missing, prepared
from tests.broker.whole_start import Asked, require_broker, start
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


def bits(root: Path) -> None:
    """Flips a bit of every file of the compacted logs and their queues but two."""
    chance = random.Random(7)
    for path in sorted(path for path in (root / "compaction").glob("compaction*/table/*/*"))[2:]:
        data = bytearray(path.read_bytes())
        data[chance.randrange(2000)] ^= 1 << chance.randrange(8)
        path.write_bytes(data)


def renamed(root: Path) -> None:
    log = min((root / "compaction" / "compactionLog" / "table" / "1").iterdir())
    log.rename(f"{log}.delete")


HARMS: list[Callable[[Path], object]] = [bits, renamed, lambda root: shutil.rmtree(root / "compaction")]
TABLE = {**SIZES, "compactionScheduleInternal": "4000", "compactionMappedFileSize": "40000", "compactionCqMappedFileSize": "4600"}
"""Compactions run all the time, on files of 41,400 bytes."""


def _errors(root: Path, options: list[str]) -> list[str]:
    found = rmqstore("verify", root, "--json", *options).objects
    return [one["code"] for one in found if one["type"] == "finding" and one["severity"] == "error"]


@pytest.mark.limited(1)
@pytest.mark.sampled(0)  # a busy broker, then three starts, for two minutes
@pytest.mark.parametrize("release", ["5.3.3", "5.5.1"])
def test_the_newest_value_of_each_key_is_served(release: str, tmp_path: Path) -> None:
    require_broker(release)
    root = tmp_path / "store"
    root.mkdir()
    with BusyBroker(release, root, tmp_path / "busy", rate=200, seed=1, settings=TABLE, table=True) as broker:
        broker.wait_for(1_500_000)
        broker.kill()
    options = [f"--set={name}={value}" for name, value in TABLE.items()]
    rows = [one for one in rmqstore("dump", root, "--topic", "table", "--json", *options).objects if one["type"] == "message"]
    newest = {(one["queue_id"], one["keys"]): one["body_crc"] for one in sorted(rows, key=lambda one: int(one["queue_offset"]))}
    assert len(newest) > 100
    delete_empty_files(root)
    codes = _errors(root, options)
    if "RMQ-CM-NAME" in codes:  # it was killed while it replaced files of a compacted log, and would not start
        assert all(code.startswith("RMQ-CM-") for code in codes)
        assert rmqstore("recover", root, "--yes", "--broker-version", release, *options).status == 0
        codes = _errors(root, options)
    assert codes == []

    for number, harm in enumerate(HARMS):
        copy = shutil.copytree(root, tmp_path / str(number))
        harm(copy)
        done = rmqstore("recover", copy, "--yes", "--broker-version", release, *options)
        assert done.status == 0, done.err
        asked = Asked(queues=[f"table/{queue}" for queue in range(3)], compacted=True)
        one = start(release, copy, {**TABLE, "compactionScheduleInternal": "900000"}, asked, tmp_path / f"of-{number}")
        assert one.caught_up and not one.refused
        served = {(queue, line["keys"]): line["bodyCrc"] for (_, queue), lines in one.queues.items() for line in lines.values()}
        assert served == newest
