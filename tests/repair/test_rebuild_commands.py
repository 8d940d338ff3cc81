"""rebuild-consumequeue, rebuild-index, rebuild-checkpoint on the command line."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from rmqstore.repair.files.writer import Writer
from tests.repair.damaged_queues import Mending
from tests.support import stores
from tests.support.cli import Run, rmqstore

SAMPLE = "5.4.0-manyfiles"
COMMANDS = ("rebuild-consumequeue", "rebuild-index", "rebuild-checkpoint")
LOSSES = {
    "rebuild-consumequeue": "consumequeue",
    "rebuild-index": "index",
    "rebuild-checkpoint": "checkpoint",
}


@pytest.fixture
def mending(tmp_path: Path) -> Mending:
    return Mending.of_sample(SAMPLE, tmp_path)


def run(command: str, mending: Mending, *options: str | Path) -> Run:
    return rmqstore(command, mending.root, *stores.case(SAMPLE).set_options(mending.root), "--broker-version", mending.release, *options)


def lose(mending: Mending, command: str) -> None:
    lost = mending.root / LOSSES[command]
    if lost.is_dir():
        shutil.rmtree(lost)
    else:
        lost.unlink()


def as_objects(command: str, mending: Mending, *options: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The plan, of which empty parts are not told, and what came out."""
    plan, transaction = run(command, mending, "--format", "json", *options).objects
    return {"actions": [], **plan}, transaction


def comparable(mending: Mending) -> list[bytes]:
    """The derived files without their names, the checkpoint without what a log does not tell: the confirm offset and what is behind it."""
    return sorted(content[:32] if path == "checkpoint" else content for path, content in mending.contents.items())


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_lost_comes_back_and_can_be_taken_away_again(command: str, mending: Mending) -> None:
    before = comparable(mending)
    lose(mending, command)
    without = mending.contents

    done = run(command, mending, "--yes")

    assert (done.status, done.err) == (0, "")
    assert comparable(mending) == before
    assert run(command, mending, "--yes").status == 0
    assert rmqstore("undo", mending.root, "--yes").status == 0
    assert mending.contents == without


@pytest.mark.parametrize("command", COMMANDS)
def test_a_healthy_store_needs_nothing(command: str, mending: Mending) -> None:
    before = stores.snapshot(mending.root)

    plan, transaction = as_objects(command, mending, "--yes")

    assert (plan["actions"], transaction["id"], transaction["errors"]) == ([], None, {})
    assert stores.snapshot(mending.root) | {".": None, "lock": None} == before | {".": None, "lock": None}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_dry_run_writes_nothing(command: str, mending: Mending) -> None:
    lose(mending, command)
    before = stores.snapshot(mending.root)

    plan, _ = as_objects(command, mending, "--dry-run")

    assert plan["actions"]
    assert stores.snapshot(mending.root) == before


@pytest.mark.parametrize("command", COMMANDS)
def test_nobody_said_yes(command: str, mending: Mending) -> None:
    lose(mending, command)
    without = mending.contents

    refused = run(command, mending)

    assert refused.status == 3
    assert mending.contents == without


@pytest.mark.parametrize("command", COMMANDS)
def test_a_kept_plan_is_applied_later(command: str, mending: Mending, tmp_path: Path) -> None:
    before = comparable(mending)
    lose(mending, command)
    kept = tmp_path / "plan.json"

    assert run(command, mending, "--plan-out", kept).status == 0
    assert rmqstore("apply", kept, "--yes").status == 0

    assert comparable(mending) == before


def queues_of(plan: dict[str, Any]) -> set[str]:
    return {"/".join(action["path"].split("/")[1:3]) for action in plan["actions"]}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--topic", "TopicA"), {"TopicA/0", "TopicA/1", "TopicA/2", "TopicA/3"}),
        (("--queue", "TopicA/2", "--queue", "TopicA/3"), {"TopicA/2", "TopicA/3"}),
    ],
)
def test_some_queues(options: tuple[str, ...], expected: set[str], mending: Mending) -> None:
    lose(mending, "rebuild-consumequeue")

    plan, _ = as_objects("rebuild-consumequeue", mending, "--dry-run", *options)

    assert queues_of(plan) == expected


def test_only_missing_queues(mending: Mending) -> None:
    shutil.rmtree(mending.root / "consumequeue" / "TopicA" / "0")
    injured = next(iter(sorted((mending.root / "consumequeue" / "TopicA" / "1").iterdir())))
    injured.write_bytes(bytes(injured.stat().st_size))

    plan, _ = as_objects("rebuild-consumequeue", mending, "--dry-run", "--only-missing")

    assert queues_of(plan) == {"TopicA/0"}


@pytest.mark.parametrize("options", [("--topic", "Nobody"), ("--queue", "TopicA/77"), ("--queue", "TopicA"), ("--mode", "wishful")])
def test_names_that_mean_nothing(options: tuple[str, str], mending: Mending) -> None:
    refused = run("rebuild-consumequeue", mending, "--dry-run", *options)

    assert refused.status == 2
    assert not refused.crashed


def test_a_faithful_rebuild_of_a_healthy_store_changes_nothing(mending: Mending) -> None:
    plan, _ = as_objects("rebuild-consumequeue", mending, "--dry-run", "--mode", "faithful")

    assert plan["actions"] == []


def test_the_whole_index_again(mending: Mending) -> None:
    plan, _ = as_objects("rebuild-index", mending, "--dry-run", "--all")

    assert plan["actions"] == []


def test_the_index_of_a_store_with_queues_in_rocksdb(tmp_path: Path) -> None:
    mending = Mending.of_sample("5.5.1-rocksdb", tmp_path)
    before = sorted(path.read_bytes() for path in (mending.root / "index").iterdir())
    shutil.rmtree(mending.root / "index")

    result = mending.rebuild_index()

    assert result.left == 0
    assert sorted(path.read_bytes() for path in (mending.root / "index").iterdir()) == before


@pytest.mark.parametrize("command", ["rebuild-consumequeue", "rebuild-index"])
def test_a_disk_is_waited_for_where_files_are_to_stay(
    command: str, mending: Mending, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(mending, command)
    forced: list[Path] = []
    fsync = Writer.fsync

    def watched(self: Writer, descriptor: int, path: Path) -> None:
        forced.append(path.parent)
        fsync(self, descriptor, path)

    monkeypatch.setattr(Writer, "fsync", watched)

    assert run(command, mending, "--dry-run").status == 0
    assert not forced
    assert run(command, mending, "--dry-run", "--plan-out", tmp_path / "plan").status == 0
    assert {path.name.startswith("rmqstore-") for path in forced} == {True, False}  # what is staged, and what is kept
