"""Symbolic links in a store: of parts, of what is below them, and such that lead nowhere."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

import pytest

from rmqstore.findings import Severity
from tests.support.builder import StoreBuilder
from tests.support.cli import rmqstore

COMMANDS = ("verify", "doctor", "info")


def _store(tmp_path: Path) -> Path:
    builder = StoreBuilder(tmp_path / "store", log_file_size=4096)
    for topic in ("A", "A", "B"):
        builder.message(topic=topic, keys="k")
    return builder.build()


def _moved_out(path: Path) -> Path:
    """Moves a part away and puts a link in its place."""
    target = path.parent.parent / f"another disk {path.name}"
    path.rename(target)
    path.symlink_to(target)
    return target


def _links(root: Path, *options: str) -> list[dict[str, object]]:
    return [one for one in rmqstore("verify", root, "--format", "json", *options).objects if one.get("code") == "RMQ-ST-LINK"]


@pytest.mark.parametrize(
    ("part", "setting"),
    [
        ("commitlog", "storePathCommitLog"),
        ("consumequeue", "storePathConsumeQueue"),
        ("index", "storePathIndex"),
        ("config", "storePathConfig"),
    ],
)
def test_a_part_on_another_disk(part: str, setting: str, tmp_path: Path) -> None:
    root = _store(tmp_path)
    (root / "config").mkdir(exist_ok=True)
    target = _moved_out(root / part)
    (found,) = _links(root)
    wanted = f"{setting}={target}"
    assert (found["severity"], found["file"], found["expected"]) == (str(Severity.WARNING), part, wanted)
    assert f"--set {shlex.quote(wanted)}" in str(found["mend"])
    assert _links(root, "--set", wanted) == []
    (tmp_path / "broker.conf").write_text(f"{setting}={target}\n")
    assert _links(root, "--broker-conf", str(tmp_path / "broker.conf")) == []
    assert len(_links(root, "--set", f"{setting}={tmp_path}")) == 1 or part == "commitlog"
    steps = [one["mend"] for one in rmqstore("doctor", root, "--format", "json").objects[:-1]]
    assert any(step.endswith(f"rmqstore verify {root} --set {shlex.quote(wanted)}") for step in steps)


def test_a_link_below_a_part_on_another_disk(tmp_path: Path) -> None:
    root = _store(tmp_path)
    target = _moved_out(root / "consumequeue")
    _moved_out(target / "B" / "0")
    found = _links(root, "--set", f"storePathConsumeQueue={target}")
    assert [one["file"] for one in found] == ["consumequeue/B/0"]


NOWHERE: dict[str, Callable[[Path], None]] = {
    "to itself": lambda path: path.symlink_to(path),
    "to nothing": lambda path: path.symlink_to("/nowhere/at all"),
    "to a file": lambda path: path.symlink_to("/etc/passwd"),
    "to a directory": lambda path: path.symlink_to(mkdtemp()),
    "to a device": lambda path: path.symlink_to("/dev/null"),
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("make", NOWHERE.values(), ids=NOWHERE)
@pytest.mark.parametrize(
    "place",
    [
        "commitlog/00000000000000004096",
        "commitlog/x",
        "consumequeue/B/0/00000000000000000000",
        "consumequeue/B/7",
        "consumequeue/C",
        "index/20200101000000000",
        "config/topics.json",
        "checkpoint",
        "lock",
        "abort",
        "timerwheel",
        "timerlog",
        "foreign",
    ],
)
def test_links_are_findings_and_no_failures(place: str, make: Callable[[Path], None], tmp_path: Path) -> None:
    root = _store(tmp_path)
    path = root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    make(path)
    for name in COMMANDS:
        run = rmqstore(name, root, "--format", "json")
        assert run.status in (0, 1), run.err
        assert not run.crashed
    assert place in [one["file"] for one in _links(root)]
