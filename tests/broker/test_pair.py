"""Master and slave of a real pair: behind, diverged after a forced switch, cut where `diff` says so, and following again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.broker.busy import RELEASES, BusyBroker
from tests.broker.pair import MASTER, Slave, compared, compared_with_killed
from tests.broker.whole_start import require_broker
from tests.support.cli import rmqstore

RATE = 200
COPIED, MORE, NEW = 300_000, 150_000, 200_000
"""Bytes of log: copied by the slave, written by the master without it, written by the new master."""


def log(root: Path, begin: int, end: int) -> bytes:
    """The bytes [begin, end) of the log."""
    data = b"".join(path.read_bytes() for path in sorted((root / "commitlog").iterdir()))
    first = min(int(path.name) for path in (root / "commitlog").iterdir())
    return data[begin - first : end - first]


def messages_after(broker: BusyBroker, offset: int) -> int:
    return sum(line["physicalOffset"] >= offset for line in broker.acknowledged())


@pytest.mark.limited(1)
@pytest.mark.sampled(0)  # three brokers one after another for a minute
@pytest.mark.parametrize("release", RELEASES[::-1])
def test_a_slave_behind_a_forced_switch_and_the_way_back(release: str, tmp_path: Path) -> None:
    require_broker(release)
    master, slave = tmp_path / "master", tmp_path / "slave"
    master.mkdir()
    slave.mkdir()
    with BusyBroker(release, master, tmp_path / "of-master", rate=RATE, seed=1, settings=MASTER) as broker:
        with Slave(release, slave, tmp_path / "of-slave", tmp_path / "of-master") as copying:
            copying.wait_for(COPIED)
        broker.wait_for(copying.bytes_of_log() + MORE)
        broker.kill()

        behind = compared_with_killed(master, slave)
        end = behind["second"]["end"]
        assert (behind["relation"], behind["first_difference"]) == ("prefix", None)
        assert behind["more_messages"] >= messages_after(broker, end) > 0
        assert "no conflict" in behind["verdict"]
    shutil.copytree(slave, tmp_path / "slave-before")

    with BusyBroker(release, slave, tmp_path / "of-new", rate=RATE, seed=2, settings=MASTER) as new:
        new.wait_for(end + NEW)
        new.stop()
    diverged = compared(master, slave)
    assert diverged["relation"] == "diverged"
    stop = min(diverged["first"]["end"], diverged["second"]["end"])
    ours, theirs = log(master, end, stop), log(slave, end, stop)
    assert diverged["first_difference"] == end + next(at for at, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b)
    assert (diverged["record"], diverged["diverged_at"]) == (end, end)
    refused = rmqstore("recover", master, "--from", slave, "--yes", "--format", "json")
    assert log(master, end, stop) == ours, refused.err

    cut = rmqstore("truncate", master, "--at", str(diverged["diverged_at"]), "--yes", "--quiet")
    assert cut.status == 0, cut.err
    with BusyBroker(release, slave, tmp_path / "of-new-again", rate=RATE, seed=3, settings=MASTER) as new:
        with Slave(release, master, tmp_path / "of-old", tmp_path / "of-new-again") as following:
            following.wait_for(diverged["second"]["end"] + 1)
        new.stop()
    followed = compared_with_killed(slave, master)
    assert (followed["relation"], followed["first_difference"]) == ("prefix", None)
    assert followed["second"]["end"] > diverged["second"]["end"]
