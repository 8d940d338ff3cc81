"""Verification on Spark finds what verification in this process finds, of every sample store and of every damage.

Every damage is tried on one store by default; RMQSTORE_ALL_DAMAGES=1 tries all on one store of every release family.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rmqstore.errors import RmqstoreError
from rmqstore.pipeline import verify as job
from rmqstore.pipeline.job import StoreAt
from rmqstore.pipeline.local import LocalRunner
from rmqstore.pipeline.spark.runner import SparkRunner
from rmqstore.reading.progress import silent
from rmqstore.verify.context import Options
from rmqstore.verify.engine import Verification
from tests.pipeline.places import BASES, damaged_stores, sample_stores
from tests.support import stores
from tests.support.cli import rmqstore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def told(report: job.StoreReport) -> tuple[Any, ...]:
    """All of a report but the time it took."""
    totals = report.totals
    return report.findings, report.counts, (totals.bytes, totals.records, totals.indexed_keys, totals.queues, totals.notes)


def compare(session: SparkSession, at: Sequence[StoreAt]) -> None:
    expected = list(job.reports(LocalRunner(2), at, Options(), 10_000, silent))
    found = list(job.reports(SparkRunner(session.sparkContext), at, Options(), 10_000, silent))
    assert [report.at.path for report in found] == [one.path for one in at]
    for one, other in zip(found, expected, strict=True):
        assert told(one) == told(other), one.at.path


@pytest.mark.exhaustive
def test_whole_sample_stores(session: SparkSession) -> None:
    compare(session, sample_stores())


@pytest.mark.exhaustive
@pytest.mark.parametrize("base", BASES)
def test_every_damage(session: SparkSession, base: str, tmp_path: Path) -> None:
    compare(session, damaged_stores(base, tmp_path))


TAKEN_APART = ["5.3.3-manyfiles-crash", "5.5.1-multipath", "broker-5.3.3-dledger-clean", "5.1.4-batchcq", "5.3.3-cqext", "4.9.8-lmq"]


@pytest.mark.parametrize("name", TAKEN_APART)
def test_file_by_file(session: SparkSession, name: str) -> None:
    at = sample_stores([name])[0]
    here, there = Verification(at.open()), Verification(at.open(), None, job.passes_of(SparkRunner(session.sparkContext), at, Options()))
    covered: list[int] = []

    assert list(there.run(covered.append)) == list(here.run())
    assert (there.totals.records, there.totals.bytes, sum(covered)) == (here.totals.records, here.totals.bytes, here.total_bytes)


def test_a_large_store_among_several_is_taken_apart(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    at = sample_stores(["5.5.1-manyfiles", "5.3.3-plain-crash"])
    monkeypatch.setattr(job, "LARGE_STORE", at[1].open().message_log.length)
    compare(session, at)


def test_a_store_that_cannot_be_opened_is_a_finding(tmp_path: Path) -> None:
    sample = stores.sample_store("5.3.3-plain")

    run = rmqstore("verify", tmp_path / "nothing", sample, "--format", "json")

    assert run.status == 1
    *findings, summary = run.objects
    lost = [finding for finding in findings if finding["severity"] == "error"]
    assert [(finding["store"], finding["code"]) for finding in lost] == [(str(tmp_path / "nothing"), "RMQ-ST-UNREADABLE")]
    assert (summary["stores"], summary["severities"]["error"]) == (2, 1)
    assert summary["records"] == 480


def test_a_pattern_stands_for_stores() -> None:
    sample = stores.sample_store("5.3.3-plain")

    run = rmqstore("verify", str(sample)[:-1] + "[e]", "--format", "json")

    assert run.status == 0
    assert "stores" not in run.objects[-1]


def test_listed_findings_are_limited_and_all_are_counted() -> None:
    at = sample_stores(["5.3.3-manyfiles-crash"])[0]
    every = list(Verification(at.open()).run())
    report = job.report_of(at, Options(), 0, silent)
    assert report.findings == []
    assert sum(report.counts.values()) == len(every) > 0


def test_the_command_says_the_same_on_both_engines(session: SparkSession) -> None:
    sample = stores.sample_store("5.3.3-manyfiles-crash")

    runs = [rmqstore("verify", sample, "--format", "json", "--engine", engine) for engine in ("local", "spark")]

    assert runs[0].out.splitlines()[:-1] == runs[1].out.splitlines()[:-1]
    assert [run.err for run in runs] == ["", ""]
    here, there = (run.objects[-1] for run in runs)
    assert (here["engine"], there["engine"]) == ("local", "spark")
    for summary in (here, there):
        for name in ("seconds", "bytes_per_second", "engine", "engine_because"):
            del summary[name]
    assert here == there


def test_options_of_spark_need_spark() -> None:
    run = rmqstore("verify", stores.sample_store("5.3.3-plain"), "--engine", "local", "--master", "local[1]")
    assert run.status == 2
    assert "--master" in run.err


def test_errors_travel() -> None:
    error = pickle.loads(pickle.dumps(RmqstoreError("what", "hint")))
    assert (error.message, error.hint, str(error)) == ("what", "hint", "what")
