"""Stores of brokers in their first seconds: files that are not written yet are not lost, and those that were written are missed."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqstore.doctor.areas import Area, State
from rmqstore.doctor.diagnosis import Diagnosis, diagnose
from rmqstore.doctor.nextsteps import Commands
from rmqstore.doctor.verdict import Class
from rmqstore.store.root import Store
from tests.doctor.test_observed_starts import OBSERVED
from tests.support import sparse

RELEASES = {"4.9.7": "4.9.8", "5.3.3": "5.3.3", "5.5.1": "5.5.1"}
STATES = ("no-topic", "before", "after", "stopped")
SETTINGS = {
    "mappedFileSizeCommitLog": "1048576",
    "mappedFileSizeConsumeQueue": "4000",
    "mappedFileSizeTimerLog": "16384",
    "maxHashSlotNum": "500",
    "maxIndexNum": "2000",
}
OFFSETS, GROUPS, TOPICS = "consumerOffset.json", "subscriptionGroup.json", "topics.json"


@pytest.fixture(scope="module")
def young(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("young")
    for release in RELEASES:
        sparse.unpack(OBSERVED / f"young-{release}.tar.xz", root / release)
    yield root


def triage(root: Path, release: str) -> Diagnosis:
    return diagnose(Store.open(root, settings=SETTINGS), RELEASES[release], Commands(root))


def without(source: Path, target: Path, *names: str) -> Path:
    root = sparse.copy_tree(source, target)
    for name in names:
        for path in (root / "config" / name, root / "config" / f"{name}.bak"):
            path.unlink(missing_ok=True)
    return root


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("release", RELEASES)
def test_as_the_broker_left_it(release: str, state: str, young: Path) -> None:
    root = young / release / state
    found = triage(root, release)
    assert (found.verdict.headline, found.nothing_lost) == (str(Class.NOTHING_LOST), True)
    progress = next(area for area in found.verdict.areas if area.area is Area.PROGRESS)
    assert ("not written yet" in progress.reason) == (state == "before")
    assert (root / "config" / OFFSETS).exists() == (state != "before")


@pytest.mark.parametrize("name", [OFFSETS, TOPICS])
@pytest.mark.parametrize("state", ["after", "stopped"])
@pytest.mark.parametrize("release", RELEASES)
def test_a_file_that_was_there_is_missed(release: str, state: str, name: str, young: Path, tmp_path: Path) -> None:
    found = triage(without(young / release / state, tmp_path / "store", name), release)
    assert found.verdict.cls is Class.STARTS_BUT
    assert any(one.code == "RMQ-CF-LOST" and one.file == f"config/{name}" for one in found.findings)


@pytest.mark.parametrize(("release", "missed"), [("4.9.7", False), ("5.3.3", True), ("5.5.1", True)])
def test_groups_are_written_by_a_clean_stop_from_5_on(release: str, missed: bool, young: Path, tmp_path: Path) -> None:
    """4.9.7 does not write them before there is a group, so that nothing tells a lost file from one that never was."""
    found = triage(without(young / release / "stopped", tmp_path / "store", GROUPS), release)
    assert (found.verdict.cls is Class.STARTS_BUT) == missed


@pytest.mark.parametrize("release", RELEASES)
def test_groups_are_missed_where_a_group_has_offsets(release: str, young: Path, tmp_path: Path) -> None:
    root = without(young / release / "after", tmp_path / "store", GROUPS)
    (root / "config" / OFFSETS).write_text('{"offsetTable":{"delayed@group":{0:1}}}')
    found = triage(root, release)
    assert found.verdict.headline.startswith("STARTS, BUT the settings of all consumer groups are lost")


@pytest.mark.parametrize("release", RELEASES)
def test_a_broker_that_ran_longer_has_written_offsets(release: str, young: Path, tmp_path: Path) -> None:
    """Nothing but the times of files tells it."""
    root = without(young / release / "before", tmp_path / "store", OFFSETS)
    written = (root / "checkpoint").stat().st_mtime
    os.utime(root / "abort", (written - 3600, written - 3600))
    found = triage(root, release)
    assert found.verdict.headline.startswith("STARTS, BUT consumer groups start again without their offsets")


@pytest.mark.parametrize("release", RELEASES)
def test_a_broker_that_runs_for_long_has_written_offsets(
    release: str, young: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmqstore.store.liveness._RECENT", 0.0)  # the process begins right after a look
    root = without(young / release / "before", tmp_path / "store", OFFSETS)
    ago = time.time() - 3600
    for name in ("abort", "lock", "checkpoint", "config/timercheck"):
        if (root / name).exists():
            os.utime(root / name, (ago, ago))
    assert triage(root, release).verdict.cls is Class.NOTHING_LOST
    with (root / "commitlog" / "00000000000000000000").open("r+b") as log, subprocess.Popen(["sleep", "60"], stdin=log) as broker:
        headline = triage(root, release).verdict.headline
        broker.kill()
    assert headline.startswith("STARTS, BUT consumer groups start again without their offsets")


def test_what_a_stop_left_of_nothing_is_missed(young: Path, tmp_path: Path) -> None:
    """A store at rest without messages and without any configuration; one that a broker begins to use looks like it for some seconds."""
    root = sparse.copy_tree(young / "5.3.3" / "stopped", tmp_path / "store")
    for path in (*(root / "config").glob("*.json*"), *(root / "config").glob("t*etrics*")):
        path.unlink()
    for path in (root / "commitlog", root / "consumequeue", root / "index", root / "timerlog"):
        for file in sorted(path.rglob("*"), reverse=True):
            file.rmdir() if file.is_dir() else file.unlink()
    assert triage(root, "5.3.3").verdict.cls is Class.STARTS_BUT
    for name in ("lock", "checkpoint", "config/timercheck"):
        os.utime(root / name)
    assert triage(root, "5.3.3").verdict.areas[list(Area).index(Area.PROGRESS)].state is State.OK


def test_an_offset_of_the_timer_that_was_reset_is_found(young: Path, tmp_path: Path) -> None:
    """Without a difference to the moment in which the first message came, but for the read time."""
    root = sparse.copy_tree(young / "5.5.1" / "after", tmp_path / "store")
    path = root / "config" / "timercheck"
    data = bytearray(path.read_bytes())
    data[16:24] = bytes(8)
    path.write_bytes(data)
    assert triage(root, "5.5.1").verdict.headline.startswith("STARTS, BUT up to 1 timed message delivered again")
