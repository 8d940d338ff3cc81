"""The predicted start of stores with damaged databases beside the recorded start of real brokers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rmqstore.prediction.blockers import BlockerCode
from rmqstore.prediction.outcome import Outcome
from rmqstore.prediction.simulation import simulate
from rmqstore.store.root import Store
from tests.rocksdb.bases import QUEUES, damaged_store, recorded, unpack_database
from tests.rocksdb.damages import DATABASE_DAMAGES, WAL_DAMAGES
from tests.support import stores

SAMPLES = {case.name for case in stores.cases()}
QUEUE_CASES = list(recorded("recorded-queues.jsonl"))
WAL = "5.3.3-wal"
"""A store whose configuration has changes in write-ahead logs: its broker was killed."""
BROKERS = list(recorded("recorded-brokers.jsonl"))
ENTRIES_DAMAGED = ("sst-long-noise", *(f"sst-long-flip-{step:02}" for step in range(12)))
"""Damages of entries of queues: brokers start or do not, from one time to the next."""


def _predicted(root: Path, release: str, settings: dict[str, str]) -> Outcome:
    return simulate(Store.open(root, settings=settings), release, counts_lost=False)


@pytest.mark.parametrize("case", QUEUE_CASES, ids=lambda case: f"{case['base']}-{case['damage']}{'-abort' if case['abort'] else ''}")
def test_starts_as_the_store_code_did(case: dict[str, Any], tmp_path: Path) -> None:
    root = damaged_store(case["base"], case["damage"], tmp_path)
    if case["abort"]:
        (root / "abort").touch()
    sample = stores.case(case["base"])

    outcome = _predicted(root, sample.release, sample.settings(root))

    if case["damage"] in ENTRIES_DAMAGED:
        assert outcome.starts is None and outcome.unknown is not None and "checksum mismatch" in outcome.unknown
    else:
        assert outcome.starts is case["load"]
    if outcome.starts is False:
        (blocker,) = outcome.blockers
        assert blocker.code is BlockerCode.ROCKSDB
        assert blocker.file is not None and blocker.file.is_relative_to(root / QUEUES)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "case", [case for case in BROKERS if case["base"] in SAMPLES], ids=lambda case: f"{case['database']}-{case['damage']}"
)
def test_starts_as_the_whole_broker_did(case: dict[str, Any], tmp_path: Path) -> None:
    root = damaged_store(case["base"], case["damage"], tmp_path, case["database"])

    outcome = _predicted(root, case["release"], stores.case(case["base"]).settings(root))

    _compare(outcome, case)


@pytest.mark.parametrize(
    "case",
    [case for case in BROKERS if case["database"] in ("config/rdb", "config/topics") and case["base"] not in SAMPLES],
    ids=lambda case: f"{case['base']}-{case['release']}-{case['database']}-{case['damage']}",
)
def test_a_configuration_of_another_broker(case: dict[str, Any], tmp_path: Path) -> None:
    """The database alone, in a store that starts."""
    root = stores.fresh_store("5.3.3-rocksdb", tmp_path)
    name = case["database"].rpartition("/")[2]
    unpack_database(name if case["base"] != WAL else f"{name}-wal", root / "config")
    (DATABASE_DAMAGES | WAL_DAMAGES)[case["damage"]](root / "config" / name)

    outcome = _predicted(root, case["release"], stores.case("5.3.3-rocksdb").settings(root))

    _compare(outcome, case)


def _compare(outcome: Outcome, case: dict[str, Any]) -> None:
    """Compare, where a prediction is made: what is missing from a configuration, or from entries of queues, is not known."""
    if outcome.starts is None:
        assert case["damage"] in ("manifest-half", "sst-long-flip-00", "sst-long-flip-01")
    else:
        assert outcome.starts is case["starts"]


def test_a_configuration_that_the_broker_does_not_use(tmp_path: Path) -> None:
    root = damaged_store("broker-5.5.1-rocksdb-clean", "manifest-missing", tmp_path, "config/topics")
    settings = stores.case("broker-5.5.1-rocksdb-clean").settings(root) | {"storeType": "default"}

    assert not any(blocker.code is BlockerCode.ROCKSDB for blocker in _predicted(root, "5.5.1", settings).blockers)


def test_a_start_that_ends_in_the_configuration_changes_nothing(tmp_path: Path) -> None:
    root = damaged_store("broker-5.5.1-rocksdb-clean", "manifest-missing", tmp_path, "config/topics")

    outcome = _predicted(root, "5.5.1", stores.case("broker-5.5.1-rocksdb-clean").settings(root))

    assert outcome.starts is False
    assert not outcome.changes


def test_where_dispatch_begins_is_unknown_if_it_depends_on_open_queues() -> None:
    """Brokers of 5.2.0, 5.3.1, 5.3.3 and 5.5.1 dispatched again from 80093, 89333 or 90509 on: the last record of some queue."""
    sample = stores.case("5.3.3-rocksdb")
    root = stores.sample_store(sample.name)

    outcome = _predicted(root, sample.release, {**sample.settings(root), "recheckReputOffsetFromCq": "true"})
    usual = _predicted(root, sample.release, sample.settings(root))

    assert (outcome.starts, outcome.scan) == (True, usual.scan)
    assert outcome.dispatched_after_start is None and usual.dispatched_after_start is not None
    assert outcome.after_start is not None and outcome.after_start.reput_from_offset is None
