"""A disk that is full under a mapped file is an error with a name: not the end of the process, and not a change of the log."""

from __future__ import annotations

import errno
from itertools import count
from pathlib import Path

import pytest

from rmqstore.errors import StoreChangedError
from rmqstore.prediction.release import choose_release
from rmqstore.repair.derived.judgement import judge, present_log
from rmqstore.repair.derived.rebuild import rebuild_derived
from rmqstore.repair.derived.requests import IndexRequest, Planning
from rmqstore.repair.plan.builder import PlanBuilder
from rmqstore.repair.plan.staging import Staging
from rmqstore.scan import sigbus
from rmqstore.store.root import Store
from tests.scan.test_bounds import program
from tests.support import stores

SAMPLE = "5.3.3-plain"


def test_writing_to_lost_pages(tmp_path: Path) -> None:
    finished = program("tests.repair.full_disk", str(stores.sample_store(SAMPLE)), str(tmp_path / "staged"))

    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "No space left on device\n", "")


@pytest.mark.parametrize("full", [True, False])
def test_pages_lost_during_a_scan_are_those_of_the_full_disk(full: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.open(stores.sample_store(SAMPLE))
    log = present_log(store, judge(store).log)
    planning = Planning(PlanBuilder(store, Staging(tmp_path / "staged"), "test", choose_release(store, "auto").release))
    monkeypatch.setattr(Staging, "is_full", full)
    monkeypatch.setattr(sigbus, "faults", count().__next__)

    with pytest.raises(OSError if full else StoreChangedError) as raised:
        rebuild_derived(planning, store, log, index=[IndexRequest()])

    assert not full or (isinstance(raised.value, OSError) and raised.value.errno == errno.ENOSPC)
