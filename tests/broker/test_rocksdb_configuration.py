"""Damaged databases of the configuration: without `recover` no broker starts, after it one takes over topics, groups and offsets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.broker.busy import SIZES, BusyBroker
from tests.broker.toolchain import missing
from tests.broker.whole_start import Asked, require_broker, start
from tests.support.cli import rmqstore

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(missing() is not None, reason=f"whole brokers cannot run here: {missing()}"),
]
SETTINGS = {**SIZES, "storeType": "defaultRocksDB"}
SET = [f"--set={name}={value}" for name, value in SETTINGS.items()]


def _configuration(root: Path) -> dict[str, Any]:
    """Topics with their numbers of queues, and the groups with their offsets."""
    topics = rmqstore("topics", root, "--format", "json", *SET).objects
    groups = rmqstore("groups", root, "--format", "json", *SET).objects
    queues = {one["topic"]: (one["read_queues"], one["write_queues"]) for one in topics if one["type"] == "topic"}
    offsets = {(one["group"], one["topic"], one["queue_id"]): one["offset"] for one in groups if one.get("queue_id") is not None}
    return {"topics": queues, "offsets": offsets}


@pytest.mark.limited(1)
@pytest.mark.sampled(0)  # a whole broker runs three times
@pytest.mark.parametrize(("release", "single"), [("5.3.3", False), ("5.5.1", False), ("5.5.1", True)])
def test_a_broker_takes_over_what_is_left_of_its_databases(release: str, single: bool, tmp_path: Path) -> None:
    """`single`: one database for all."""
    require_broker(release)
    settings = {**SETTINGS, "useSingleRocksDBForAllConfigs": str(single).lower()}
    root = tmp_path / "store"
    root.mkdir()
    with BusyBroker(release, root, tmp_path / "first", rate=300, seed=5, settings=settings) as broker:
        broker.wait_for(2_000_000)
        broker.stop()
        sent = broker.acknowledged()
    before = _configuration(root)
    assert {"orders", "events"} <= before["topics"].keys() and before["offsets"]
    database = root / "config" / ("metadata" if single else "topics")
    for table in sorted(database.glob("*.sst")) if not single else ():
        with table.open("r+b") as stream:  # the last bytes are the footer, without which no table is read
            stream.seek(-20, 2)
            stream.write(bytes(20))
    (root / "config" / ("metadata" if single else "consumerOffsets") / "CURRENT").write_bytes(b"")

    done = rmqstore("recover", root, "--yes", "--broker-version", release, "--format", "json", *SET)

    assert (done.status, done.crashed) == (0, False), done.out[-2000:] + done.err
    found = _configuration(root)
    assert {topic: found["topics"][topic] for topic in ("orders", "events")} == {
        topic: before["topics"][topic] for topic in ("orders", "events")
    }
    assert found["offsets"] == before["offsets"]
    queues = sorted({f"{line['topic']}/{line['queue']}" for line in sent if line["topic"] != "delayed"})
    (tmp_path / "second").mkdir()
    served = start(release, root, settings, Asked(queues=queues), tmp_path / "second")
    assert served.caught_up and not served.refused
    for line in sent:
        if line["topic"] != "delayed":
            message = served.queues[line["topic"], line["queue"]].get(line["queueOffset"])
            assert message is not None and message["physicalOffset"] == line["physicalOffset"], line
    assert (database / "CURRENT").is_file()
    after = _configuration(root)
    assert after["offsets"].items() >= before["offsets"].items()
    assert after["topics"].items() >= {topic: before["topics"][topic] for topic in ("orders", "events")}.items()
