"""The class of the first line for every recorded state of a RocksDB database, against what real brokers did with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rmqstore.doctor.diagnosis import Diagnosis
from rmqstore.doctor.verdict import Class
from tests.doctor.diagnosing import diagnosis_of
from tests.rocksdb.bases import damaged_store, recorded
from tests.support import stores

SAMPLES = {case.name for case in stores.cases()}
QUEUES = list(recorded("recorded-queues.jsonl"))
BROKERS = [case for case in recorded("recorded-brokers.jsonl") if case["base"] in SAMPLES]
INTACT = {
    **{case["base"]: case["messages"] for case in QUEUES if case["damage"] == "intact"},
    **{case["base"]: case["messages"] for case in BROKERS if case["damage"] == "intact"},
}
"""Messages that clients got from the store without a damage."""


def _name(case: Mapping[str, Any]) -> str:
    return "-".join(filter(None, (case["base"], case.get("database"), case["damage"], "abort" if case.get("abort") else None)))


@pytest.mark.limited(60)
@pytest.mark.parametrize("case", QUEUES, ids=_name)
def test_queues(case: Mapping[str, Any], tmp_path: Path) -> None:
    root = damaged_store(case["base"], case["damage"], tmp_path)
    if case["abort"]:
        (root / "abort").touch()
    _compare(diagnosis_of(root, case["base"]), case["load"], case["messages"] == INTACT[case["base"]])


@pytest.mark.limited(16)
@pytest.mark.sampled(8)
@pytest.mark.parametrize("case", BROKERS, ids=_name)
def test_databases_of_a_whole_broker(case: Mapping[str, Any], tmp_path: Path) -> None:
    root = damaged_store(case["base"], case["damage"], tmp_path, case["database"])
    served = case["starts"] and case["messages"] >= INTACT[case["base"]] and not case["refused"]
    _compare(diagnosis_of(root, case["base"]), case["starts"], served)


def _compare(found: Diagnosis, starts: bool | None, served: bool) -> None:
    """`starts`: None where the JVM died."""
    verdict = found.verdict
    assert verdict.headline.startswith(verdict.cls) and len(verdict.headline) <= 120
    if starts is False:
        assert verdict.cls in (Class.DOES_NOT_START, Class.NOT_SURE), verdict.headline
        # Whether damaged entries of queues end a start differs from one start to the next; everything else is known.
        assert verdict.cls is Class.DOES_NOT_START or "checksum" in found.sentence, found.sentence
    elif served:
        assert verdict.cls is not Class.DOES_NOT_START, verdict.headline
    else:
        assert verdict.cls in (Class.STARTS_BUT, Class.NOT_SURE), verdict.headline
