"""Damaged databases of the configuration: without `recover` no broker starts, after it one takes over topics, groups and offsets."""

from __future__ import annotations

from collections.abc import Mapping
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
KINDS = {
    "topics": {**SIZES, "storeType": "defaultRocksDB"},
    "metadata": {**SIZES, "storeType": "defaultRocksDB", "useSingleRocksDBForAllConfigs": "true"},
    "rdb": {**SIZES, "configManagerVersion": "v2"},
}
"""Settings by the database that has the topics."""


def options(settings: Mapping[str, str]) -> list[str]:
    return [f"--set={name}={value}" for name, value in settings.items()]


def _configuration(root: Path, settings: Mapping[str, str]) -> dict[str, Any]:
    """Topics with their numbers of queues, and the groups with their offsets."""
    topics, groups = (rmqstore(command, root, "--format", "json", *options(settings)).objects for command in ("topics", "groups"))
    queues = {one["topic"]: (one["read_queues"], one["write_queues"]) for one in topics if one["type"] == "topic"}
    offsets = {(one["group"], one["topic"], one["queue_id"]): one["offset"] for one in groups if one.get("queue_id") is not None}
    return {"topics": queues, "offsets": offsets}


@pytest.mark.limited(1)
@pytest.mark.sampled(0)  # a whole broker runs three times
@pytest.mark.parametrize(
    ("release", "kind"), [("5.3.3", "topics"), ("5.5.1", "topics"), ("5.5.1", "metadata"), ("5.3.3", "rdb"), ("5.5.1", "rdb")]
)
def test_a_broker_takes_over_what_is_left_of_its_databases(release: str, kind: str, tmp_path: Path) -> None:
    require_broker(release)
    settings = KINDS[kind]
    root = tmp_path / "store"
    root.mkdir()
    with BusyBroker(release, root, tmp_path / "first", rate=300, seed=5, settings=settings) as broker:
        broker.wait_for(2_000_000)
        broker.stop()
        sent = broker.acknowledged()
    before = _configuration(root, settings)
    assert {"orders", "events"} <= before["topics"].keys() and before["offsets"]
    database = root / "config" / kind
    for table in sorted(database.glob("*.sst")) if kind == "topics" else ():
        with table.open("r+b") as stream:  # the last bytes are the footer, without which no table is read
            stream.seek(-20, 2)
            stream.write(bytes(20))
    (root / "config" / ("consumerOffsets" if kind == "topics" else kind) / "CURRENT").write_bytes(b"")

    done = rmqstore("recover", root, "--yes", "--broker-version", release, "--format", "json", *options(settings))

    assert (done.status, done.crashed) == (0, False), done.out[-2000:] + done.err
    found = _configuration(root, settings)
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
    after = _configuration(root, settings)
    assert after["offsets"].items() >= before["offsets"].items()
    assert after["topics"].items() >= {topic: before["topics"][topic] for topic in ("orders", "events")}.items()
