"""Stores of whole brokers from 4.3 to 4.8 that were killed and damaged: after `recover` the same release serves what it acknowledged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rmqstore.formats.layout import fixed_layout
from rmqstore.formats.message import record_head
from tests.broker.busy import SIZES, BusyBroker
from tests.broker.toolchain import missing
from tests.broker.whole_start import Asked, require_broker, start
from tests.support.cli import rmqstore

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(missing() is not None, reason=f"whole brokers cannot run here: {missing()}"),
]
SET = [f"--set={name}={value}" for name, value in SIZES.items()]
BYTES = 2_500_000
_BODY_LENGTH = fixed_layout(record_head(born_v6=False, store_v6=False))["body_length"]


@pytest.mark.limited(1)
@pytest.mark.sampled(0)  # a whole broker runs three times
@pytest.mark.parametrize("release", ["4.3.2", "4.5.2", "4.8.0", "4.9.7", "5.3.3", "5.5.1"])
def test_what_was_acknowledged_is_served(release: str, tmp_path: Path) -> None:
    require_broker(release)
    root = tmp_path / "store"
    root.mkdir()
    with BusyBroker(release, root, tmp_path / "first", rate=400, seed=1) as broker:
        broker.wait_for(BYTES)
        broker.kill()
        sent = broker.acknowledged()
    log = sorted((root / "commitlog").iterdir())
    lost = next(line for line in sent if line["topic"] == "orders" and line["physicalOffset"] > 600_000)
    length = int(SIZES["mappedFileSizeCommitLog"])
    path, place = log[lost["physicalOffset"] // length], lost["physicalOffset"] % length
    with path.open("r+b") as stream:
        stream.seek(place + _BODY_LENGTH.end)
        first = stream.read(1)[0]
        stream.seek(place + _BODY_LENGTH.end)
        stream.write(bytes([first ^ 1]))
    shutil.rmtree(root / "consumequeue" / "events" / "1")
    for config in (root / "config").iterdir():
        config.write_bytes(b"\0" * config.stat().st_size)

    done = rmqstore("recover", root, "--yes", "--broker-version", release, "--format", "json", *SET)

    assert (done.status, done.crashed) == (0, False), done.out[-2000:] + done.err
    plan = next(one for one in done.objects if one["type"] == "plan")
    assert [(one["topic"], one["queue_id"], one["queue_offset"]) for one in plan["lost"]] == [
        ("orders", lost["queue"], lost["queueOffset"])
    ]
    queues = sorted({f"{line['topic']}/{line['queue']}" for line in sent if line["topic"] != "delayed"})
    (tmp_path / "second").mkdir()
    served = start(release, root, SIZES, Asked(queues=queues), tmp_path / "second")
    assert served.caught_up and not served.refused
    for line in sent:
        if line["topic"] != "delayed" and line != lost:
            found = served.queues[line["topic"], line["queue"]].get(line["queueOffset"])
            assert found is not None and found["physicalOffset"] == line["physicalOffset"], line
    with BusyBroker(release, root, tmp_path / "third", rate=400, seed=2) as broker:
        broker.wait_for(2 * BYTES)
        broker.stop()
    after = rmqstore("verify", root, "--format", "json", *SET)
    errors = {one["code"] for one in after.objects if one["type"] == "finding" and one["severity"] == "error"}
    assert errors == set()
