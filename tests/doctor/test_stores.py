"""Stores of every release as their brokers left them: they start, and nothing is lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rmqstore.doctor.areas import Area, State
from rmqstore.doctor.verdict import Class
from rmqstore.prediction.consequences import consequences_of
from rmqstore.prediction.outcome import Mode
from rmqstore.store.root import Store
from tests.doctor.diagnosing import codes, complaints, diagnosis_of
from tests.support.cli import rmqstore
from tests.support.stores import Case, case, cases, fresh_store, sample_store

PREDICTABLE = [sample for sample in cases() if "rocksdb" not in sample.name]
CLEAN = [sample for sample in PREDICTABLE if not sample.crashed]
CRASHED = [sample for sample in PREDICTABLE if sample.crashed]
# What a kill in the middle of an append leaves, and what was wrong in the configuration when these brokers were killed.
LEFT_BY_A_KILL = {"RMQ-CL-TORN", "RMQ-CQ-BEHIND", "RMQ-CF-LMQ-OFFSET", "RMQ-CF-EMPTY"}


@pytest.mark.parametrize("sample", CLEAN, ids=lambda sample: sample.name)
def test_after_a_clean_stop_nothing_is_wrong(sample: Case) -> None:
    found = diagnosis_of(sample_store(sample.name), sample.name)
    assert complaints(found) == []
    assert (found.starts, found.outcome.mode, found.reasons) == (True, Mode.NORMAL, ())
    assert found.sentence == f"a broker of {sample.release} starts without crash recovery, nothing is lost"
    assert (found.verdict.headline, found.next) == ("STARTS, NOTHING LOST", "Start the broker.")
    assert all(area.state is State.OK for area in found.verdict.areas)


@pytest.mark.parametrize("sample", CRASHED, ids=lambda sample: sample.name)
def test_after_a_crash_no_message_is_lost(sample: Case) -> None:
    root = sample_store(sample.name)
    found = diagnosis_of(root, sample.name)
    assert {finding.code for finding in complaints(found)} <= (LEFT_BY_A_KILL if sample.is_broker else set())
    assert (found.starts, found.outcome.mode, found.loss.anything) == (True, Mode.ABNORMAL, False)
    assert "RMQ-ST-ABORT" in codes(found)
    # A broker deletes the newest index file after a crash, and does not index all of it again.
    harmed = {area.area for area in found.verdict.areas if area.state is not State.OK}
    items = consequences_of(Store.open(root, settings=sample.settings(root)), found.outcome).index_items_lost
    assert harmed == ({Area.INDEX} if items else set())
    assert found.verdict.cls is (Class.STARTS_BUT if items else Class.NOTHING_LOST)
    assert items or found.next.startswith("Start the broker")


@pytest.mark.parametrize("name", ["broker-5.5.1-rocksdb-clean"])
def test_what_cannot_be_told_is_said(name: str) -> None:
    found = diagnosis_of(sample_store(name), name)
    assert complaints(found) == []
    assert found.outcome.unknown is not None
    assert found.verdict.cls is Class.NOT_SURE
    assert any(area.state is State.NOT_CHECKED for area in found.verdict.areas)
    assert "nothing is lost" not in found.sentence


@pytest.mark.parametrize("name", ["5.3.3-manyfiles-crash", "5.3.3-plain-crash"])
def test_messages_that_a_start_does_not_queue_are_counted_once(name: str, tmp_path: Path) -> None:
    """A crash recovery builds the end of the queues; before it are units without a message."""
    root = fresh_store(name, tmp_path)
    shutil.rmtree(root / "consumequeue")
    found = diagnosis_of(root, name)
    log = rmqstore("dump", root, *case(name).set_options(root), "--format", "json").objects
    queued = [one for one in log if one["type"] == "message" and one["sys_flag"] & 12 not in (4, 12)]
    dispatched = found.outcome.dispatched_in_load
    assert dispatched is not None and 0 < dispatched.count < len(queued)
    [queues] = [area for area in found.verdict.areas if area.area is Area.QUEUES]
    assert queues.count == len(queued) - dispatched.count
