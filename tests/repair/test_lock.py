"""A store in use is never changed, and one that is being changed is not used."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqstore.errors import RefusedError
from rmqstore.repair.files.lock import locked, locked_for_reading
from rmqstore.store.root import Store
from tests.repair.every_action import SAMPLE, Changing
from tests.repair.holders import KINDS, holder
from tests.support import stores
from tests.support.cli import rmqstore
from tests.support.waiting import PATIENCE

FreshStore = Callable[[str], Path]
TRY_TO_LOCK = "import fcntl, os, sys; fcntl.lockf(os.open(sys.argv[1], os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)"


@pytest.mark.parametrize("kind", KINDS)
def test_every_way_to_change_a_store_in_use_is_refused(fresh_store: FreshStore, kind: str) -> None:
    changing = Changing(fresh_store(SAMPLE))
    changing.keep_plan()
    changing.apply()
    before = stores.snapshot(changing.root)
    with holder(kind, changing.root) as pid:
        for words in (["undo", changing.root, "--yes"], ["apply", changing.plan_file, "--yes"]):
            run = rmqstore(*words)
            assert run.status == 3
            assert f"in use: process {pid}" in run.err
        with pytest.raises(RefusedError, match="in use"), locked_for_reading(changing.open()):
            pass
    assert stores.snapshot(changing.root) == before


def test_a_broker_cannot_take_the_lock_meanwhile(fresh_store: FreshStore) -> None:
    root = fresh_store(SAMPLE)
    store = Store.open(root)
    with locked(store):
        (root / "lock").read_bytes()  # closing a descriptor would lose a lock of the whole process
        assert not _can_lock(root)
    assert _can_lock(root)


def test_two_runs_of_the_tool_exclude_each_other(fresh_store: FreshStore) -> None:
    root = fresh_store(SAMPLE)
    with locked(Store.open(root)), pytest.raises(RefusedError, match="another run of rmqstore"), locked(Store.open(root)):
        pass


def test_a_missing_lock_is_made_as_a_broker_makes_it_and_stays(fresh_store: FreshStore) -> None:
    root = fresh_store(SAMPLE)
    (root / "lock").unlink()
    for name in ("checkpoint", "abort.bak"):
        (root / name).chmod(0o640)
    os.utime(root, ns=(7, 7))
    with locked(Store.open(root)):
        assert not _can_lock(root)
    assert (root / "lock").read_bytes() == b"lock"
    assert (root / "lock").stat().st_mode & 0o777 == 0o640
    assert root.stat().st_mtime_ns == 7


def test_planning_makes_no_lock(fresh_store: FreshStore) -> None:
    root = fresh_store(SAMPLE)
    (root / "lock").unlink()
    with locked_for_reading(Store.open(root)):
        pass
    assert not (root / "lock").exists()


def test_a_directory_in_the_place_of_the_lock_keeps_brokers_out_by_itself(fresh_store: FreshStore) -> None:
    root = fresh_store(SAMPLE)
    (root / "lock").unlink()
    (root / "lock").mkdir()
    with locked(Store.open(root)):
        assert list((root / "lock").iterdir()) == []


def test_a_process_that_hides_its_files_and_is_named_by_abort_may_be_the_broker(
    fresh_store: FreshStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root would see the files of every process
    root = fresh_store(SAMPLE)
    (root / "abort").write_text("1")
    with pytest.raises(RefusedError, match="process 1, which `abort` names"), locked(Store.open(root)):
        pass


def test_a_number_that_another_process_has_now_is_no_reason_to_refuse(fresh_store: FreshStore) -> None:
    root = fresh_store(SAMPLE)
    (root / "abort").write_text(str(os.getppid()))
    with locked(Store.open(root)):
        pass


def test_a_lock_that_only_flock_sees_is_none(fresh_store: FreshStore) -> None:
    root = fresh_store(SAMPLE)
    with (root / "lock").open("r+b") as mine:
        fcntl.flock(mine, fcntl.LOCK_EX)
        with locked(Store.open(root)):
            pass


def _can_lock(root: Path) -> bool:
    return subprocess.run([sys.executable, "-c", TRY_TO_LOCK, root / "lock"], capture_output=True, timeout=PATIENCE).returncode == 0
