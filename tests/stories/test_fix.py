"""`rmqstore fix`: from the verdict to the start of the broker in one run, and what it refuses and leaves unchanged."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from tests.doctor.diagnosing import FreshStore, damaged
from tests.repair.holders import holder
from tests.support.cli import Run, rmqstore
from tests.support.stores import case, content, snapshot

DONE, LEFT, REFUSED = 0, 1, 3
CLEAN = "5.3.3-plain"


def fix(root: Path, *options: str, base: str = CLEAN) -> Run:
    return rmqstore("fix", root, *case(base).set_options(root), *options)


def last_line(run: Run) -> str:
    return run.out.rstrip("\n").splitlines()[-1]


@pytest.mark.parametrize("base", [CLEAN, "broker-5.5.1-crash"])
def test_a_store_that_a_broker_can_start_on_stays_as_it_is(base: str, fresh_store: FreshStore) -> None:
    root = fresh_store(base)
    before = snapshot(root)
    run = fix(root, "--yes", base=base)
    assert (run.status, snapshot(root)) == (DONE, before)
    assert "STARTS, NOTHING LOST" in run.out.splitlines()[0]
    assert last_line(run).startswith("Start the broker")


@pytest.mark.parametrize("damage", ["cq-queue-removed", "index-all-removed", "body-flip-last", "file-last-short"])
def test_a_repair_ends_with_the_start(damage: str, fresh_store: FreshStore) -> None:
    root = damaged(fresh_store, CLEAN, damage)
    run = fix(root, "--yes")
    assert (run.status, last_line(run)) == (DONE, "Start the broker."), run.err
    assert "STARTS, NOTHING LOST" not in run.out.splitlines()[0]
    assert rmqstore("verify", root, *case(CLEAN).set_options(root), "--allow-unchecked").status == DONE


def test_what_it_promises_is_what_the_plan_has(fresh_store: FreshStore) -> None:
    root = damaged(fresh_store, CLEAN, "body-flip-last")
    assert "1 message lost" in fix(root, "--dry-run").out
    run = fix(root, "--yes", "--json")
    plan, transaction, last = run.objects
    assert plan["after"] == {"errors": {}, "left": 0}
    assert len(plan["lost"]) == transaction["lost"] == 1
    assert (last["cure"], last["before"]["class"], last["after"]["class"]) == ("repair", "STARTS, BUT", "STARTS, NOTHING LOST")
    assert last["transaction"] == transaction["id"]


def test_the_copy_command_copies_a_store_whose_path_has_a_blank(tmp_path: Path, fresh_store: FreshStore) -> None:
    root = damaged(fresh_store, CLEAN, "cq-queue-removed").rename(tmp_path / "my store")
    (copy,) = fix(root, "--dry-run", "--json").objects[-1]["copies"]
    assert copy["bytes"] >= sum(path.lstat().st_blocks * 512 for path in root.rglob("*") if path.is_file())
    subprocess.run(copy["command"], shell=True, check=True)
    assert content(tmp_path / "my store.copy") == content(root)
    (second,) = fix(root, "--dry-run", "--json").objects[-1]["copies"]
    assert shlex.split(second["command"])[-1] == str(tmp_path / "my store.copy-2")
    assert f"cp -a --sparse=always '{root}'" in fix(root, "--dry-run").out


def test_directories_outside_of_the_root_are_copied_as_well(fresh_store: FreshStore) -> None:
    root = fresh_store("5.3.3-plain")
    outside = (root / "commitlog").rename(root.parent / "log")
    (root / "commitlog").symlink_to(outside)
    run = rmqstore("fix", root, "--dry-run", "--json")
    targets = [shlex.split(copy["command"])[3] for copy in run.objects[-1]["copies"]]
    assert targets == [str(root), str(outside)]


def test_without_consent_nothing_changes(fresh_store: FreshStore) -> None:
    root = damaged(fresh_store, CLEAN, "cq-queue-removed")
    before = content(root)
    run = fix(root)
    assert run.status == REFUSED
    assert "not confirmed" in run.err
    assert content(root) == before


def test_a_dry_run_names_the_command_that_does_it(fresh_store: FreshStore) -> None:
    root = damaged(fresh_store, CLEAN, "cq-queue-removed")
    before = snapshot(root)
    run = fix(root, "--dry-run")
    assert (run.status, snapshot(root)) == (LEFT, before)
    words = shlex.split(last_line(run))
    assert words[:3] == ["rmqstore", "fix", str(root)]
    assert rmqstore(*words[1:], "--yes").status == DONE


def test_a_wrong_setting_is_named_and_nothing_changes(tmp_path: Path, fresh_store: FreshStore) -> None:
    root = fresh_store(CLEAN)
    conf = tmp_path / "broker.conf"
    conf.write_text("mappedFileSizeCommitLog=1048576\n", encoding="utf-8")
    before = snapshot(root)
    run = rmqstore("fix", root, "--broker-conf", conf, "--yes")
    assert (run.status, snapshot(root)) == (LEFT, before)
    assert "mappedFileSizeCommitLog=65536" in run.out
    subprocess.run(last_line(run), shell=True, check=True)
    assert rmqstore("fix", root, "--broker-conf", conf, "--yes").status == DONE


def test_a_store_in_use_is_refused(fresh_store: FreshStore) -> None:
    root = damaged(fresh_store, CLEAN, "cq-queue-removed")
    before = content(root)
    with holder("lock", root):
        run = fix(root, "--yes")
    assert (run.status, content(root)) == (REFUSED, before)
    assert "in use" in run.err
