"""States that an operator meets at night: only commands that the tool prints are run, until it says that the broker can be started."""

from __future__ import annotations

import os
import random
import shlex
import shutil
import stat
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.doctor.diagnosing import FreshStore
from tests.stories.following import START, follow
from tests.support.cli import needs_permissions, without_privileges
from tests.support.stores import case

CLEAN = "5.3.3-plain"
CRASHED = "5.3.3-plain-crash"
BROKER = "broker-5.5.1-crash"
PAGE = 4096


@dataclass(frozen=True)
class Night:
    """A state, and what is read first; `steps`: the commands that follow, by their names."""

    base: str
    damage: Callable[[Path], None]
    first: tuple[str, ...]
    steps: tuple[str, ...]


def _files(root: Path, part: str) -> list[Path]:
    return sorted(path for path in (root / part).rglob("*") if path.is_file())


def _zero_page(root: Path) -> None:
    with (root / "commitlog" / f"{262144:020}").open("r+b") as log:
        log.seek(PAGE)
        log.write(bytes(PAGE))


def _fill_disk(root: Path) -> None:
    """The next files of the log and of a queue were made, and no byte of them fitted on the disk."""
    for directory in (root / "commitlog", root / "consumequeue" / "TopicA" / "0"):
        files = _files(directory.parent, directory.name)
        (directory / f"{int(files[-1].name) + files[-1].stat().st_size:020}").touch()


def _remove(directory: str) -> Callable[[Path], None]:
    return lambda root: shutil.rmtree(root / directory)


def _remove_first_log_file(root: Path) -> None:
    (root / "commitlog" / f"{0:020}").unlink()


def _scramble_checkpoint(root: Path) -> None:
    (root / "checkpoint").write_bytes(random.Random(5).randbytes(PAGE))


def _cut_configuration(root: Path) -> None:
    config = root / "config"
    whole = (config / "topics.json").read_bytes()
    (config / "topics.json").write_bytes(whole[: len(whole) // 2])
    (config / "consumerOffset.json").write_bytes(b"")


NIGHTS = {
    "1-last-record-torn": Night(BROKER, lambda root: None, ("STARTS, NOTHING LOST",), ()),
    "2-page-of-zeros": Night(CRASHED, _zero_page, ("STARTS, BUT it discards 8 messages",), ("recover",)),
    "3-queue-gone": Night(
        CLEAN, _remove("consumequeue/TopicA/1"), ("STARTS, BUT 49 messages of TopicA/1 become invisible",), ("rebuild-consumequeue",)
    ),
    "4-index-gone": Night(CLEAN, _remove("index"), ("STARTS, BUT queries by key miss",), ("rebuild-index",)),
    "5-checkpoint-random": Night(CRASHED, _scramble_checkpoint, ("STARTS, NOTHING LOST",), ()),
    "6-disk-was-full": Night(CRASHED, _fill_disk, ("STARTS, BUT queries by key miss",), ("recover",)),
    "7-first-log-file-gone": Night(
        CLEAN, _remove_first_log_file, ("STARTS, BUT", "log files before offset 65536 were removed"), ("recover",)
    ),
    "9-configuration-cut": Night(BROKER, _cut_configuration, ("STARTS, NOTHING LOST", "consumerOffset.json.bak is whole"), ()),
}


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", NIGHTS)
def test_a_night(name: str, fresh_store: FreshStore) -> None:
    night = NIGHTS[name]
    root = fresh_store(night.base)
    night.damage(root)
    words = ["doctor", str(root), *case(night.base).set_options(root)]

    seen, steps = follow(words)

    verdict, *more = night.first
    assert verdict in seen[0].splitlines()[0]
    assert all(text in seen[0] for text in more)
    assert steps == night.steps


def test_night_8_a_moved_store(tmp_path: Path, fresh_store: FreshStore) -> None:
    root = fresh_store(CLEAN)
    conf = tmp_path / "broker.conf"
    conf.write_text("mappedFileSizeCommitLog=1048576\nmappedFileSizeConsumeQueue=6000000\n", encoding="utf-8")

    seen, steps = follow(["doctor", str(root), "--broker-conf", str(conf)])

    assert "mappedFileSizeCommitLog=65536" in seen[0]
    assert set(steps) <= {"echo", "doctor"}
    assert "mappedFileSizeCommitLog=65536" in conf.read_text(encoding="utf-8").splitlines()


@needs_permissions
def test_night_10_a_file_without_permission(fresh_store: FreshStore) -> None:
    root = fresh_store(CLEAN)
    log = root / "commitlog" / f"{0:020}"
    log.chmod(0)
    first = without_privileges("doctor", root, *case(CLEAN).set_options(root))
    assert "could not be read" in first.stdout.splitlines()[0]
    step = shlex.split(first.stdout.rstrip("\n").splitlines()[-1])
    assert step[0] in ("chmod", "chown")
    subprocess.run(step, check=True)
    assert stat.S_IMODE(log.stat().st_mode) & 0o400 or os.geteuid() == 0
    after = without_privileges("doctor", root, *case(CLEAN).set_options(root))
    assert after.stdout.rstrip("\n").splitlines()[-1].startswith(START)
