"""`doctor --gate`, and `doctor` on several stores: what cannot be judged does not pass and does not stop the others."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import stores
from tests.support.cli import rmqstore
from tests.verify.one_check import patch

NAME = "5.3.3-plain"


def test_a_healthy_store() -> None:
    root = stores.sample_store(NAME)
    for deep in ([], ["--deep"]):
        done = rmqstore("doctor", root, "--gate", *deep)
        (gate,) = done.objects
        assert (done.status, gate["pass"], gate["reasons"], gate["not_checked"]) == (0, True, [], [])
        assert gate["class"] == "STARTS, NOTHING LOST"
        assert (gate["log_read"], gate["errors"]) == ((True, 0) if deep else (False, None))


def _no_queue(root: Path) -> None:
    shutil.rmtree(root / "consumequeue" / "Orders")


def _first_record_damaged(root: Path) -> None:
    patch(min((root / "commitlog").iterdir()), 100, b"\xff\xff")


@pytest.mark.parametrize(("damage", "deep"), [(_no_queue, False), (_first_record_damaged, True)])
def test_a_store_with_damage(damage: Callable[[Path], None], deep: bool, tmp_path: Path) -> None:
    root = stores.fresh_store(NAME, tmp_path)
    damage(root)
    done = rmqstore("doctor", root, "--gate", *(["--deep"] if deep else []))
    (gate,) = done.objects
    assert (done.status, gate["pass"]) == (1, False)
    assert gate["reasons"]


def test_a_part_that_is_not_verified_in_depth() -> None:
    done = rmqstore("doctor", stores.sample_store("broker-5.5.1-rocksdb-clean"), "--gate", "--deep")
    (gate,) = done.objects
    assert (done.status, gate["pass"]) == (1, False)
    assert gate["not_checked"]


def test_what_is_no_store_does_not_pass(tmp_path: Path) -> None:
    done = rmqstore("doctor", tmp_path / "missing", stores.sample_store(NAME), "--gate")
    assert [gate["pass"] for gate in done.objects] == [False, True]
    assert done.status == 1
    assert rmqstore("doctor", tmp_path, "--deep").status == 2


def test_several_stores(tmp_path: Path) -> None:
    healthy, crashed = stores.sample_store(NAME), stores.sample_store("5.3.3-plain-crash")
    done = rmqstore("doctor", healthy, crashed, tmp_path / "missing", "--format", "json")
    assert [one["type"] for one in done.objects] == ["doctor", "doctor", "unreadable"]
    assert [one["store"] for one in done.objects] == [str(healthy), str(crashed), str(tmp_path / "missing")]
    assert done.status == 1
    assert rmqstore("doctor", healthy, healthy).status == 0
    lines = rmqstore("doctor", healthy, crashed).out.splitlines()
    assert len(lines) == 6
