"""The builder: what planners wish becomes a plan; what is so already does not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqstore.errors import RefusedError
from rmqstore.repair.plan.builder import INLINE_LIMIT, PlanBuilder
from rmqstore.repair.plan.model import ActionKind, Plan
from rmqstore.repair.plan.staging import Staging
from rmqstore.store.root import Store
from tests.support import stores

LOG = "commitlog/00000000000000000000"
QUEUE = "consumequeue/TopicNew/0/00000000000000000000"


class Planning:
    """A store to change, and the builder of one plan for it."""

    def __init__(self, root: Path, staging: Staging) -> None:
        self.root = root
        self.staging = staging
        self.builder = PlanBuilder(Store.open(root), staging, "test", "5.3.3")

    @property
    def plan(self) -> Plan:
        return self.builder.build()


@pytest.fixture
def planning(tmp_path: Path) -> Iterator[Planning]:
    with Staging.temporary() as staging:
        yield Planning(stores.fresh_store("5.3.3-plain", tmp_path), staging)


def test_what_is_so_already_makes_no_action(planning: Planning) -> None:
    root, builder = planning.root, planning.builder
    log = (root / LOG).read_bytes()
    builder.write(LOG, 0, log[:100], reason="same")
    last = max((root / "commitlog").iterdir())
    used = len(last.read_bytes().rstrip(b"\0"))
    builder.zero(last, used, last.stat().st_size - used, reason="zeros already")
    builder.replace("checkpoint", (root / "checkpoint").read_bytes(), reason="same")
    builder.replace(LOG, planning.staging.add(log), reason="same")
    builder.quarantine("index/nothing", reason="not there")
    builder.remove_abort(reason="not there")
    assert planning.plan.empty


def test_actions_come_in_the_order_of_the_phases(planning: Planning) -> None:
    builder = planning.builder
    builder.set_abort(reason="last")
    builder.write(LOG, 0, b"x", reason="log")
    builder.write_checkpoint(bytes(4096), reason="checkpoint")
    builder.create(QUEUE, b"unit", reason="first")
    assert [action.path for action in planning.plan.actions] == [QUEUE, LOG, "checkpoint", "abort"]


def test_zero_is_trimmed_to_what_is_not_zero(planning: Planning) -> None:
    data = (planning.root / LOG).read_bytes()
    last = len(data.rstrip(b"\0"))
    planning.builder.zero(LOG, last - 10, len(data) - last + 10, reason="tail")
    (action,) = planning.plan.actions
    assert (action.kind, action.position, action.length) == (ActionKind.ZERO, last - 10, 10)


def test_a_created_file_is_like_its_siblings_and_its_directories_like_theirs(planning: Planning) -> None:
    (planning.root / "consumequeue").chmod(0o751)
    (planning.root / "checkpoint").chmod(0o640)
    planning.builder.create(QUEUE, b"unit", reason="new")
    (action,) = planning.plan.actions
    assert action.attributes is not None
    assert (action.attributes.mode, action.attributes.mtime_ns) == (0o640, None)
    assert [(made.path, made.attributes.mode) for made in action.directories] == [
        ("consumequeue/TopicNew", 0o751),
        ("consumequeue/TopicNew/0", 0o751),
    ]


def test_a_file_like_another_has_its_mtime(planning: Planning) -> None:
    os.utime(planning.root / LOG, ns=(1, 12345))
    builder = PlanBuilder(Store.open(planning.root), planning.staging, "test", "5.3.3")
    builder.create("commitlog/00000000000000999999", bytes(10), like=planning.root / LOG, reason="missing file")
    (action,) = builder.build().actions
    assert action.attributes is not None and action.attributes.mtime_ns == 12345


def test_long_contents_are_staged_and_short_ones_are_in_the_plan(planning: Planning) -> None:
    planning.builder.write(LOG, 0, b"y" * INLINE_LIMIT, reason="short")
    planning.builder.write(LOG, INLINE_LIMIT, b"y" * (INLINE_LIMIT + 1), reason="long")
    short, long = (action.contents for action in planning.plan.actions)
    assert short is not None and short.data == b"y" * INLINE_LIMIT
    assert long is not None and long.file is not None
    assert (planning.staging.directory / long.file).read_bytes() == b"y" * (INLINE_LIMIT + 1)


def test_staged_arrays_become_files(planning: Planning) -> None:
    array = planning.staging.open("index/20240101000000000", 10_000)
    array[5_000] = 7
    staged = planning.staging.close("index/20240101000000000")
    assert staged.path.read_bytes() == bytes(5_000) + b"\x07" + bytes(4_999)


@pytest.mark.parametrize(
    "path",
    ["../outside", "/etc/passwd", ".rmqstore/x", "transaction/x", "index/../../x", "commitlog", "", "unknown/file", "compaction/log"],
)
def test_a_path_that_is_no_place_for_a_repair_is_a_planners_mistake(planning: Planning, path: str) -> None:
    with pytest.raises(ValueError, match="not a place"):
        planning.builder.create(path, b"x", reason="no")


def test_actions_that_touch_the_same_bytes_are_a_planners_mistake(planning: Planning) -> None:
    builder = planning.builder
    builder.write(LOG, 0, b"abcd", reason="one")
    builder.write(LOG, 4, b"efgh", reason="beside it")
    with pytest.raises(ValueError, match="write and write"):
        builder.write(LOG, 3, b"xx", reason="over both")
    with pytest.raises(ValueError, match="write and quarantine"):
        builder.quarantine(LOG, reason="and away")


def test_a_range_outside_of_the_file_is_a_planners_mistake(planning: Planning) -> None:
    length = (planning.root / LOG).stat().st_size
    with pytest.raises(ValueError, match=f"which has {length}"):
        planning.builder.write(LOG, length - 1, b"xx", reason="beyond")


def test_a_store_that_changes_while_it_is_read_is_refused(planning: Planning) -> None:
    (planning.root / "index" / "20300101000000000").write_bytes(b"new")
    with pytest.raises(RefusedError, match="20300101000000000 is new"):
        planning.builder.build()


def test_a_symbolic_link_is_refused(planning: Planning, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"precious")
    (planning.root / "abort").symlink_to(elsewhere)
    (planning.root / "checkpoint").unlink()
    (planning.root / "checkpoint").symlink_to(elsewhere)
    with pytest.raises(RefusedError, match="symbolic link"):
        planning.builder.write("checkpoint", 0, b"x", reason="through a link")
    planning.builder.remove_abort(reason="the link itself")
    assert planning.builder.changes_something
