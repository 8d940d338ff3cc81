"""Stores of every release as their brokers left them: they start, and nothing is lost."""

from __future__ import annotations

import pytest

from rmqstore.recovery.outcome import Mode
from tests.doctor.diagnosing import codes, complaints, diagnosis_of
from tests.support.stores import Case, cases, sample_store

PREDICTABLE = [sample for sample in cases() if "rocksdb" not in sample.name and "dledger" not in sample.name]
CLEAN = [sample for sample in PREDICTABLE if not sample.crashed]
CRASHED = [sample for sample in PREDICTABLE if sample.crashed]
# What a kill in the middle of an append leaves, and what was wrong in the configuration when these brokers were killed.
LEFT_BY_A_KILL = {"RMQ-CL-TORN", "RMQ-CQ-BEHIND", "RMQ-CF-LMQ-OFFSET", "RMQ-CF-EMPTY"}


@pytest.mark.parametrize("sample", CLEAN, ids=lambda sample: sample.name)
def test_after_a_clean_stop_nothing_is_wrong(sample: Case) -> None:
    found = diagnosis_of(sample_store(sample.name), sample.name)
    assert complaints(found) == []
    assert (found.starts, found.outcome.mode, found.reasons) == (True, Mode.NORMAL, ())
    assert found.verdict == f"a broker of {sample.release} starts in normal mode, nothing is lost"


@pytest.mark.parametrize("sample", CRASHED, ids=lambda sample: sample.name)
def test_after_a_crash_no_message_is_lost(sample: Case) -> None:
    found = diagnosis_of(sample_store(sample.name), sample.name)
    assert {finding.code for finding in complaints(found)} <= (LEFT_BY_A_KILL if sample.is_broker else set())
    assert (found.starts, found.outcome.mode, found.loss.anything) == (True, Mode.ABNORMAL, False)
    assert found.verdict.startswith(f"a broker of {sample.release} starts in abnormal mode, nothing is lost")
    assert "RMQ-ST-ABORT" in codes(found)


@pytest.mark.parametrize("name", ["5.2.0-rocksdb", "broker-5.5.1-rocksdb-clean", "broker-5.3.3-dledger-clean"])
def test_what_cannot_be_told_is_said(name: str) -> None:
    found = diagnosis_of(sample_store(name), name)
    assert complaints(found) == []
    assert found.outcome.unknown is not None
    assert found.outcome.unknown in found.verdict
    assert "nothing is lost" not in found.verdict
