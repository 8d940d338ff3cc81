"""The planned store: what it reads like, that a plan is judged by it, and that nothing is written for it."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rmqstore.errors import RefusedError
from rmqstore.repair import procedure
from rmqstore.repair.derived.requests import Planning
from rmqstore.repair.files.beneath import LinkError
from rmqstore.repair.plan import planned
from rmqstore.repair.plan.builder import PlanBuilder
from rmqstore.repair.plan.model import Action, ActionKind, Contents, Expected
from rmqstore.repair.plan.planned import planned_store
from rmqstore.repair.plan.staging import Staging
from rmqstore.repair.recover import Recovery, Strategy
from rmqstore.store.root import Store
from rmqstore.store.window import open_read_only, source_of
from tests.repair.every_action import Changing, Yes, no_errors
from tests.repair.recovering import damaged
from tests.support import stores
from tests.support.cli import rmqstore

BASES = ["5.3.3-plain", "4.9.8-plain", "5.5.1-batchcq", "5.5.1-multipath", "broker-5.3.3-cqext-crash", "4.9.8-schedule"]
HARMED = ["body-flip-mid", "zero-4k-mid", "file-missing-middle", "cq-all-removed+body-flip-mid", "torn-tail-half", "stale-tail-run", "none"]


def listing(root: Path) -> dict[str, tuple[Any, ...]]:
    """Every path below `root` but the folder of transactions: what kind it is, and of files length, bytes, mode and time in seconds."""
    found: dict[str, tuple[Any, ...]] = {}
    for directory, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name != ".rmqstore"]
        here = Path(directory)
        found.update({(here / name).relative_to(root).as_posix(): ("directory",) for name in folders})
        for name in files:
            path = here / name
            with open_read_only(path) as descriptor:
                data = os.pread(descriptor, path.stat().st_size + 1, 0)
            found[path.relative_to(root).as_posix()] = ("file", path.stat().st_size, data, path.stat().st_mode & 0o777)
    return found


@pytest.mark.limited(18)
@pytest.mark.sampled(7)
@pytest.mark.parametrize("damage", HARMED)
@pytest.mark.parametrize("base", BASES)
def test_it_is_the_store_that_the_plan_leads_to(base: str, damage: str, tmp_path: Path) -> None:
    store = damaged(base, damage, tmp_path)
    before = stores.snapshot(store.root), stores.content(store.root)
    opened = store.open()
    with Staging.temporary() as staging:
        builder = PlanBuilder(opened, staging, "recover", store.release)
        Recovery(store.release).plan(Planning(builder), opened)
        with planned_store(builder.build(), opened, staging) as future:
            assert future.root != store.root
            shown = listing(future.root)
            outside = [listing(path) for path in future.commitlog_directories.writable if not path.is_relative_to(future.root)]
    assert (stores.snapshot(store.root), stores.content(store.root)) == before
    assert source_of(store.root / "checkpoint") == store.root / "checkpoint"

    store.recover()
    real = listing(store.root)
    if not any(path.endswith("lock") for path in shown):
        real.pop("lock", None)  # made by the procedure
    assert set(shown) == set(real)
    assert [path for path in shown if shown[path] != real[path]] == []
    directories = store.open().commitlog_directories.writable
    assert outside == [listing(path) for path in directories if not path.is_relative_to(store.root)]


def test_the_answer_is_a_part_of_the_plan(tmp_path: Path) -> None:
    store = damaged("5.3.3-plain", "body-flip-mid", tmp_path)
    options = ["--broker-version", "5.3.3", *stores.case("5.3.3-plain").set_options(store.root)]
    before = stores.snapshot(store.root), stores.content(store.root)
    shown = rmqstore("recover", store.root, "--dry-run", "--strategy", "salvage", "--format", "json", *options).objects[0]
    assert shown["after"] == {"errors": {}, "left": 0}
    assert (stores.snapshot(store.root), stores.content(store.root)) == before
    table = rmqstore("recover", store.root, "--dry-run", "--strategy", "salvage", *options).out
    assert "no errors, and nothing left to do" in table


def test_what_remains_is_said_before(tmp_path: Path) -> None:
    """The least that lets a broker start leaves the damage in the log."""
    store = damaged("5.3.3-plain", "file-middle-empty", tmp_path)
    wish = procedure.RepairRequest("recover", "5.3.3", store.open, Recovery("5.3.3", Strategy.MINIMAL).plan)
    result = procedure.execute(wish, Yes())
    assert result.plan.after is not None
    assert result.plan.after.errors == result.errors == procedure.verification_errors(store.open())
    assert result.errors


def test_a_plan_that_adds_errors_is_refused(tmp_path: Path) -> None:
    root = stores.fresh_store("5.3.3-plain", tmp_path)

    def planner(planning: Planning, store: Store) -> None:
        planning.builder.write(store.commitlog.files[0].path, 200, b"no record", reason="a test")

    before = listing(root)
    wish = procedure.RepairRequest("test", "5.3.3", lambda: Store.open(root), planner)
    with pytest.raises(RefusedError, match=r"1 x RMQ-CL-LENGTHS.* after it, no errors now"):
        procedure.show(wish, Yes())
    with pytest.raises(RefusedError, match="worse"):
        procedure.execute(wish, Yes())
    assert listing(root) == before


def test_without_room_for_copies_the_plan_says_that_it_was_not_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = damaged("5.3.3-plain", "body-flip-mid", tmp_path)
    monkeypatch.setattr(planned, "_MARGIN", 1 << 62)
    result = procedure.execute(procedure.RepairRequest("recover", "5.3.3", store.open, Recovery("5.3.3").plan), Yes())
    assert result.plan.after is None
    assert any("was not verified" in note and "TMPDIR" in note for note in result.plan.notes)
    assert (result.errors, result.left) == ({}, 0)


def test_a_full_temporary_directory_does_not_end_a_repair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = damaged("5.3.3-plain", "body-flip-mid", tmp_path)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(planned, "_like", full)
    result = procedure.execute(procedure.RepairRequest("recover", "5.3.3", store.open, Recovery("5.3.3").plan), Yes())
    assert result.plan.after is None
    assert any("No space left" in note for note in result.plan.notes)
    assert (result.errors, result.left) == ({}, 0)


@pytest.mark.parametrize("way", ["new", "removed"])
def test_a_link_does_not_lead_out_of_the_temporary_directory(way: str, tmp_path: Path) -> None:
    """No planner makes such a plan. If one did, the directory that the link names would be written to."""
    root = stores.fresh_store("5.3.3-plain", tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_bytes(b"kept")
    (root / "linked").symlink_to(outside)
    opened = Store.open(root)
    action = Action(ActionKind.CREATE, "linked/new", 0, 3, "a test", Expected(None), contents=Contents(3, data=b"new"))
    if way == "removed":
        action = Action(ActionKind.QUARANTINE, "linked/kept", 0, 4, "a test", Expected(4))
    with Staging.temporary() as staging:
        plan = replace(PlanBuilder(opened, staging, "test", "5.3.3").build(), actions=(action,))
        with pytest.raises(LinkError), planned_store(plan, opened, staging):
            pass
    assert listing(outside) == {"kept": ("file", 4, b"kept", 0o644)}


def test_every_kind_of_action(tmp_path: Path) -> None:
    changing = Changing(stores.fresh_store("5.3.3-plain", tmp_path), {})
    opened = changing.open()
    with Staging.temporary() as staging:
        builder = PlanBuilder(opened, staging, "test", "5.3.3")
        changing.wish.planner(Planning(builder), opened)
        with planned_store(builder.build(), opened, staging) as future:
            shown = listing(future.root)
    procedure.execute(changing.wish, Yes(), verify=no_errors)
    real = listing(changing.root)
    assert [path for path in shown.keys() | real.keys() if path != "lock" and shown.get(path) != real.get(path)] == []
