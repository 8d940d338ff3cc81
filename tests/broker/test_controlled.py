"""A pair of brokers of controller mode after a forced switch: epochs and logs show the same divergence, and who has to follow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.broker.busy import BusyBroker
from tests.broker.pair import ControllerProcess, Slave, compared, compared_with_killed
from tests.broker.whole_start import require_broker
from tests.support.cli import rmqstore

RATE = 200
COPIED, MORE = 300_000, 150_000


def of(*words: str | Path) -> list[dict[str, Any]]:
    run = rmqstore(*words, "--format", "json")
    assert run.status in (0, 1) and not run.crashed, run.err
    return run.objects


def without_blank(root: Path, end: int) -> int:
    """Where the last record before `end` ends."""
    [record] = [one for one in of("dump", root, "--part", "commitlog") if one["type"] == "message" and follows(one) <= end][-1:]
    return follows(record)


def follows(record: dict[str, Any]) -> int:
    return int(record["physical_offset"] + record["size"])


@pytest.mark.limited(1)
@pytest.mark.sampled(0)  # a controller and three brokers for a minute
@pytest.mark.parametrize("release", ["5.3.3", "5.5.1"])
def test_a_forced_switch(release: str, tmp_path: Path) -> None:
    require_broker(release)
    first, second = tmp_path / "first", tmp_path / "second"
    for path in (first, second, tmp_path / "controller"):
        path.mkdir()
    with ControllerProcess(release, tmp_path / "controller") as controller:
        settings, port = controller.settings, controller.name_server
        with BusyBroker(release, first, tmp_path / "a", rate=RATE, seed=1, settings=settings, name_server=port) as master:
            with Slave(release, second, tmp_path / "b", tmp_path / "a", settings) as slave:
                slave.wait_for(COPIED)
            master.wait_for(slave.bytes_of_log() + MORE)
            master.kill()
        behind = compared_with_killed(first, second)
        assert (behind["relation"], behind["epochs"]["first"]) == ("prefix", behind["epochs"]["second"])
        end = behind["second"]["end"]
        # A new master begins before the BLANK at the end of a full file. It writes the same BLANK again, or a message that is small enough.
        begin = without_blank(second, end)

        with BusyBroker(release, second, tmp_path / "c", rate=RATE, seed=2, settings=settings, name_server=port) as master:
            master.wait_for(end + MORE)
            master.stop()
        diverged = compared(first, second)
        place = diverged["diverged_at"]
        assert (diverged["relation"], diverged["record"]) == ("diverged", place)
        assert place in (begin, end)
        [old], [same, new] = diverged["epochs"]["first"], diverged["epochs"]["second"]
        assert same == old
        assert new["epoch"] > old["epoch"]
        assert begin <= new["start_offset"] <= place
        assert diverged["next"] == f"to let {first} follow {second}, cut it: rmqstore truncate {first} --at {place}"

        for root in (first, second):
            verified = of("verify", root)
            errors = {one["code"] for one in verified if one["type"] == "finding" and one["severity"] == "error"}
            assert errors <= {"RMQ-CF-OFFSET"}  # of groups that had read messages which the new master does not have
            assert {one["type"] for one in of("dump", root, "--part", "epoch")} == {"epoch_header", "epoch"}
        assert rmqstore("truncate", first, "--at", str(place), "--yes", "--quiet").status == 0
        with BusyBroker(release, second, tmp_path / "d", rate=RATE, seed=3, settings=settings, name_server=port) as master:
            with Slave(release, first, tmp_path / "e", tmp_path / "d", settings) as slave:
                slave.wait_for(diverged["second"]["end"] + 1)
            master.stop()
    followed = compared_with_killed(second, first)
    assert (followed["relation"], followed["first_difference"]) == ("prefix", None)
    assert followed["second"]["end"] > diverged["second"]["end"]
    assert followed["epochs"]["second"][:2] == diverged["epochs"]["second"]
