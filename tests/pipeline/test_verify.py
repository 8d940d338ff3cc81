"""Verification on Spark finds what verification in this process finds, of every sample store and of every damage.

Every damage is tried on one store by default; RMQSTORE_ALL_DAMAGES=1 tries all on one store of every release family.
"""

from __future__ import annotations

import pickle
import random
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rmqstore.errors import RmqstoreError
from rmqstore.pipeline import verify as job
from rmqstore.pipeline import verifyjob
from rmqstore.pipeline.job import Job, Runner, StoreAt
from rmqstore.pipeline.local import LocalRunner
from rmqstore.pipeline.spark.runner import SparkRunner
from rmqstore.reading.progress import Advance, silent
from rmqstore.scan.columns import Stop
from rmqstore.scan.walk import FileEnd
from rmqstore.verify.context import Options
from rmqstore.verify.engine import Verification, _settled, files_as_mapped
from rmqstore.verify.log.result import FileResult
from rmqstore.verify.look import Look
from tests.pipeline.places import BASES, EVERYTHING, damaged_stores, sample_stores
from tests.support import stores
from tests.support.builder import StoreBuilder
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


# Stretches: files of a log whose spans are joined in the tasks


def by_stretches(at: StoreAt, runner: Runner) -> Verification:
    return Verification(at.open(), None, job.passes_of(runner, at, Options()))


@pytest.mark.parametrize("stretches", [1, 3])
@pytest.mark.parametrize("name", TAKEN_APART)
@pytest.mark.sampled(6)
def test_stretches_find_the_same(name: str, stretches: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifyjob, "MOST_SPANS", 0)
    monkeypatch.setattr(verifyjob, "MOST_STRETCHES", stretches)
    at = sample_stores([name])[0]
    assert list(by_stretches(at, LocalRunner(2)).run()) == list(Verification(at.open()).run())


@pytest.mark.parametrize("base", BASES)
def test_stretches_find_the_same_of_every_damage(base: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(verifyjob, "MOST_SPANS", 0)
    monkeypatch.setattr(verifyjob, "MOST_STRETCHES", 2)
    for at in damaged_stores(base, tmp_path, every=1 if EVERYTHING else 3):
        assert list(by_stretches(at, LocalRunner(1)).run()) == list(Verification(at.open()).run()), at.path


# Pieces of files


class Counted(LocalRunner):
    """A runner that counts its jobs and their parts."""

    def __init__(self) -> None:
        super().__init__(1)
        self.jobs: list[int] = []

    def run(self, job: Job, advance: Advance) -> Iterator[tuple[str, bytes]]:
        self.jobs.append(len(job.parts))
        return super().run(job, advance)


@pytest.mark.parametrize(("size", "spans"), [(4_000, 0), (4_000, 1 << 30), (40_000, 1 << 30)])
@pytest.mark.parametrize("name", [*TAKEN_APART, "5.4.0-manyfiles", "5.5.1-manyfiles", "broker-5.5.1-crash"])
@pytest.mark.sampled(9)
def test_pieces_find_the_same(name: str, size: int, spans: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifyjob, "MOST_SPANS", spans)
    monkeypatch.setattr(job, "LARGEST_PIECE", size)
    at = sample_stores([name])[0]
    runner = Counted()
    assert list(by_stretches(at, runner).run()) == list(Verification(at.open()).run())
    assert len(runner.jobs) == 1


@pytest.mark.parametrize("base", BASES)
def test_pieces_find_the_same_of_every_damage(base: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(job, "LARGEST_PIECE", 20_000)
    at = damaged_stores(base, tmp_path, every=1 if EVERYTHING else 3)
    again = sum(is_read_again(one) for one in at)
    assert again < len(at) / 2


def test_pieces_do_not_fit_where_entries_of_the_index_are_damaged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(job, "LARGEST_PIECE", 20_000)
    [at] = damaged_stores("5.3.3-plain-crash", tmp_path, names=["index-items-garbage"])
    assert is_read_again(at)


def is_read_again(at: StoreAt) -> bool:
    """Whether whole files were read after pieces, which find what one process finds."""
    runner = Counted()
    assert list(by_stretches(at, runner).run()) == list(Verification(at.open()).run()), at.path
    return len(runner.jobs) > 1


def built(builder: StoreBuilder) -> StoreAt:
    builder.build()
    return StoreAt.of(builder.root, settings={key: str(value) for key, value in builder.settings.items()})


@pytest.mark.parametrize("size", [800, 1_500, 4_000])
def test_neighbours_are_compared_where_pieces_meet(size: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(job, "LARGEST_PIECE", size)
    chance = random.Random(size)
    builder, now = StoreBuilder(tmp_path, log_file_size=1 << 15), 1_700_000_000_000
    for _ in range(400):
        now += chance.choice([-3, 0, 1, 5, 5, 5])
        host = chance.choice(["10.9.8.7:10911"] * 4 + [f"10.9.8.{chance.randrange(250)}:1"])
        builder.message(body=bytes(chance.randrange(300)), store_timestamp=now, store_host=host)
    at = built(builder)
    runner = Counted()
    found = list(by_stretches(at, runner).run())
    assert found == list(Verification(at.open()).run())
    assert {"RMQ-CL-TIME", "RMQ-CL-HOST"} <= {finding.code for finding in found}
    assert len(runner.jobs) == 1


def test_pieces_that_do_not_meet_are_read_as_whole_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A body holds a record whose PHYSICALOFFSET is its place: a piece that is cut before it takes it for one of the log."""

    def store(name: str, body: bytes) -> StoreBuilder:
        builder = StoreBuilder(tmp_path / name, log_file_size=1 << 14)
        return builder.message().message(body=body).message(body=bytes(9_000)).message(body=bytes(9_000))

    body = store("marked", b"#" * 500).log[0].find(b"#" * 500)
    hidden = StoreBuilder(tmp_path / "hidden", first_offset=body + 200, log_file_size=1 << 14).message(topic="Hidden")
    record = bytes(hidden.log[0][body + 200 : hidden.offset])
    at = built(store("store", (bytes(200) + record).ljust(500, b"#")))
    monkeypatch.setattr(job, "LARGEST_PIECE", body + 100)

    runner = Counted()
    verification = by_stretches(at, runner)
    assert list(verification.run()) == list(Verification(at.open()).run())
    assert (len(runner.jobs), verification.totals.records) == (2, 4)


def test_full_valid_files_are_not_read_again() -> None:
    """In a store that is written to, a second look reads what the writer may have changed."""
    look = Look(sample_stores(["5.4.0-manyfiles"])[0].open(), Options())
    list(look.run())
    settled = sorted(result.file.start for result in _settled(look.results))
    assert settled == [result.file.start for result in look.results if result.records][:-1]


def test_stretches_of_several_stores_are_one_job(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    at = sample_stores(["5.5.1-manyfiles", "5.3.3-plain-crash", "4.9.8-lmq"])
    monkeypatch.setattr(job, "LARGE_STORE", 0)
    monkeypatch.setattr(verifyjob, "MOST_SPANS", 0)
    monkeypatch.setattr(verifyjob, "MOST_STRETCHES", 2)
    compare(session, at)

    runner = Counted()
    list(job.reports(runner, at, Options(), 10, silent))
    assert len(runner.jobs) == 1


def test_a_large_store_that_is_exchanged_meanwhile_is_a_finding_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(job, "LARGE_STORE", 0)
    root = stores.fresh_store("5.3.3-plain", tmp_path)
    other, at = sample_stores(["5.5.1-manyfiles"])[0], StoreAt.of(root).marked()
    shutil.rmtree(root / "commitlog")
    shutil.copytree(stores.sample_store("5.3.3-plain-crash") / "commitlog", root / "commitlog")

    first, second = job.reports(LocalRunner(1), [at, other], Options(), 10, silent)

    assert first.counts == {("RMQ-ST-UNREADABLE", "error"): 1}
    assert told(second) == told(job.report_of(other, Options(), 10, silent))


def test_what_comes_back_grows_with_queues_and_not_with_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifyjob, "MOST_SPANS", 0)
    monkeypatch.setattr(verifyjob, "MOST_STRETCHES", 2)
    sizes = []
    for number, messages in enumerate((2_000, 8_000)):
        builder = StoreBuilder(tmp_path / str(number), log_file_size=1 << 16)
        for message in range(messages):
            builder.message(queue_id=message % 50, body=bytes(600))
        builder.build()
        at = StoreAt.of(builder.root, settings={key: str(value) for key, value in builder.settings.items()})
        files = files_as_mapped(at.open())
        results = list(LocalRunner(1).run(verifyjob.job_of((at,), Options(), verifyjob.parts_of_files(at, files, queues=50)), silent))
        spans = [pickle.loads(data) for key, data in results if key.startswith("spans")]
        assert all(one.counts.tolist() == [1] * len(one.queues) for one in spans)
        sizes.append(sum(len(data) for key, data in results if key.startswith("spans")))
    assert sizes[1] < 1.1 * sizes[0]


def test_files_of_a_stretch_are_settled_together() -> None:
    """A file of the first look is used in the second one only with all others whose spans it has."""
    files = files_as_mapped(sample_stores(["5.3.3-manyfiles-crash"])[0].open())[:4]
    full = FileEnd(0, Stop.BLANK)
    results = [FileResult(file, end=full) for file in files]
    results[1].spans_from = files[0].start
    results[3].spans_from = files[2].start
    assert {result.file.path for result in _settled(results)} == {file.path for file in files}
    results[0].damages = [(0, 1)]
    assert {result.file.path for result in _settled(results)} == {file.path for file in files[2:]}


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
