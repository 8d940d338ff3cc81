"""Queues and index that Spark rebuilds are, byte for byte and finding for finding, those that this process rebuilds."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rmqstore.formats import record
from rmqstore.formats.crc import body_crc
from rmqstore.pipeline.job import Job, StoreAt
from rmqstore.pipeline.local import LocalRunner
from rmqstore.pipeline.logparts import LARGEST_PIECE
from rmqstore.pipeline.rebuild import scatter
from rmqstore.pipeline.rebuild.futureparts import MisalignedSplitError, Source
from rmqstore.pipeline.rebuild.jobs import DistributedRebuild
from rmqstore.pipeline.spark.runner import SparkRunner
from rmqstore.prediction.release import choose_release
from rmqstore.reading.progress import Advance, silent
from rmqstore.rebuild import Mode
from rmqstore.repair.derived import rebuild
from rmqstore.repair.derived.judgement import judge, present_log
from rmqstore.repair.derived.rebuild import rebuild_derived
from rmqstore.repair.derived.requests import IndexRequest, Planning, QueueRequest, Rebuilder
from rmqstore.repair.derived.settings_evidence import settings_of
from rmqstore.repair.plan.builder import PlanBuilder
from rmqstore.repair.plan.staging import StagedFile, Staging
from rmqstore.versions import profile_of
from tests.support import stores
from tests.support.builder import FIRST_TIMESTAMP, StoreBuilder
from tests.support.cli import rmqstore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = [case.name for case in stores.cases()]
BY_SPARK = ["5.3.3-plain-crash", "4.9.8-lmq", "5.5.1-batchcq", "5.3.3-cqext", "broker-5.3.3-dledger-clean", "5.5.1-multipath"]


def digests(files: dict[str, StagedFile]) -> dict[str, str]:
    return {path: hashlib.sha256(staged.path.read_bytes()).hexdigest() for path, staged in files.items()}


def made(at: StoreAt, directory: Path, rebuilder: Rebuilder | None, mode: Mode) -> dict[str, Any]:
    """All that a rebuild of queues and index makes and tells."""
    store = at.open()
    log = present_log(store, judge(store).log)
    planning = Planning(PlanBuilder(store, Staging(directory), "test", choose_release(store, "auto").release), rebuilder=rebuilder)
    request = QueueRequest(mode, lambda key: key[1] != 1)
    rebuilt = rebuild_derived(planning, store, log, queues=request, index=[IndexRequest()])
    assert rebuilt.queues is not None
    (queues, queue_files), [(index, index_files)] = rebuilt.queues, rebuilt.index
    listed = {path for queue in queues.queues for path in (*queue.files, *queue.ext_files)}
    # A queue that begins anew leaves files behind that nobody lists.
    files = {path: staged for path, staged in queue_files.items() if path in listed}
    return {"queues": queues, "index": index, "files": digests(files), "index_files": digests(index_files)}


@pytest.mark.limited(30)
@pytest.mark.sampled(4)
@pytest.mark.parametrize(("name", "mode"), [*((name, Mode.USEFUL) for name in NAMES), *((name, Mode.FAITHFUL) for name in BY_SPARK)])
def test_in_shares(name: str, mode: Mode, tmp_path: Path) -> None:
    root = stores.sample_store(name)
    at = StoreAt.of(root, settings=stores.case(name).settings(root))
    expected = made(at, tmp_path / "here", None, mode)
    for largest in (LARGEST_PIECE, 50_000):
        assert made(at, tmp_path / f"there-{largest}", DistributedRebuild(LocalRunner(2), at, largest=largest), mode) == expected
        assert not list((tmp_path / f"there-{largest}").glob("attempts-*"))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", BY_SPARK)
def test_in_a_work_directory(name: str, tmp_path: Path) -> None:
    root, work = stores.sample_store(name), tmp_path / "wörk 100%" / "?"
    at = StoreAt.of(root, settings=stores.case(name).settings(root))
    expected = made(at, tmp_path / "here", None, Mode.USEFUL)
    runner = Noting()
    rebuilder = DistributedRebuild(runner, at, largest=50_000, work_directory=str(work))
    assert made(at, tmp_path / "there", rebuilder, Mode.USEFUL) == expected
    assert runner.scattered and not list(work.iterdir())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("items", [2, 3, 7, 100])
@pytest.mark.parametrize("name", ["4.9.8-lmq", "5.5.1-multipath", "5.3.3-plain-crash"])
def test_a_file_of_the_index_begins_where_the_one_before_is_full(name: str, items: int, tmp_path: Path) -> None:
    root = stores.sample_store(name)
    at = StoreAt.of(root, settings={**stores.case(name).settings(root), "maxIndexNum": str(items)})
    expected = made(at, tmp_path / "here", None, Mode.USEFUL)
    assert made(at, tmp_path / "there", DistributedRebuild(LocalRunner(2), at, largest=50_000), Mode.USEFUL) == expected
    files = expected["index"].files
    assert len(files) > 3
    assert {file.index_count for file in files[:-1]} == {items}


def test_records_without_keys_behind_a_full_file_ask_for_another_one(tmp_path: Path) -> None:
    log = StoreBuilder(tmp_path / "store", items=4)
    for number in range(6):
        log.message(keys=f"key{number}")
    for _ in range(3):
        log.message()
    at = StoreAt.of(log.build(), settings=log.settings)
    expected = made(at, tmp_path / "here", None, Mode.USEFUL)
    for largest in (100, 200, 10_000):
        assert made(at, tmp_path / f"there-{largest}", DistributedRebuild(LocalRunner(2), at, largest=largest), Mode.USEFUL) == expected
    assert [file.index_count for file in expected["index"].files] == [4, 4, 0]


@pytest.mark.parametrize("name", ["4.9.8-lmq", "5.3.3-plain-crash"])
def test_records_that_do_not_wait_in_memory(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = stores.sample_store(name)
    at = StoreAt.of(root, settings=stores.case(name).settings(root))
    expected = made(at, tmp_path / "here", None, Mode.USEFUL)
    monkeypatch.setattr(rebuild, "BATCH", 16)
    monkeypatch.setattr(scatter, "_MOST_WAITING", 5_000)
    runner = Noting()
    assert made(at, tmp_path / "there", DistributedRebuild(runner, at), Mode.USEFUL) == expected
    assert max(len(regions) for each in runner.scattered for regions in each.regions.values()) > 2


class Noting:
    """Runs jobs and notes what pieces of the log became."""

    def __init__(self) -> None:
        self.scattered: list[scatter.ShuffleOutput] = []

    def run(self, job: Job, advance: Advance) -> Iterator[tuple[str, bytes]]:
        for key, data in LocalRunner(2).run(job, advance):
            if isinstance(job, scatter.ScatterJob):
                self.scattered.append(pickle.loads(data))
            yield key, data


def test_a_piece_never_begins_inside_of_a_message(tmp_path: Path) -> None:
    log = StoreBuilder(tmp_path / "store")
    for number in range(20):
        log.message(keys=f"key{number}")
    cut = log.offset + 2000
    # The body holds a record that is right in every respect at the place where it lies.
    body = b"." * 4000
    body_at = log.offset + record.MESSAGE.build(fields(body) | {"physical_offset": log.offset}).index(body)
    inner = record.MESSAGE.build(fields(b"never sent") | {"physical_offset": body_at + 3000})
    log.message(body=body[:3000] + inner + body[3000 + len(inner) :])
    for number in range(20):
        log.message(keys=f"later{number}")
    at = StoreAt.of(log.build(), settings=log.settings)
    expected = made(at, tmp_path / "here", None, Mode.USEFUL)

    store = at.open()
    source = Source(at, present_log(store, judge(store).log), profile_of("5.3.3"), settings_of(store))
    pieces = source.pieces(cut, ())
    assert [piece.start for piece in pieces] == [0, body_at + 3000]
    with pytest.raises(MisalignedSplitError):
        list(source.batches(source.scanner(pieces[0], keys=False), pieces[0], silent))
    assert [piece.start for piece in source.pieces(cut, {pieces[0].name})] == [0]
    assert made(at, tmp_path / "there", DistributedRebuild(LocalRunner(2), at, largest=cut), Mode.USEFUL) == expected
    assert sum(queue.end_offset for queue in expected["queues"].queues) == 41


def fields(body: bytes) -> dict[str, Any]:
    """Those of a message as a builder of stores writes it, without PHYSICALOFFSET."""
    return {
        "magic_code": record.MESSAGE_MAGIC_V1,
        "body_crc": body_crc(body),
        "queue_id": 0,
        "flag": 0,
        "queue_offset": 20,
        "sys_flag": 0,
        "born_timestamp": FIRST_TIMESTAMP,
        "born_host": "10.1.2.3:50000",
        "store_timestamp": FIRST_TIMESTAMP,
        "store_host": "10.9.8.7:10911",
        "reconsume_times": 0,
        "prepared_transaction_offset": 0,
        "body": body,
        "topic": b"TopicA",
        "properties": b"",
    }


@pytest.mark.exhaustive
def test_pieces_cover_the_log() -> None:
    cut = 0
    for name in NAMES:
        root = stores.sample_store(name)
        at = StoreAt.of(root, settings=stores.case(name).settings(root))
        store = at.open()
        log = present_log(store, judge(store).log)
        pieces = Source(at, log, profile_of("5.3.3"), settings_of(store)).pieces(50_000, ())
        reached = {piece.file: log.files[piece.file].start for piece in pieces}
        for piece in pieces:
            assert (piece.start, piece.end - piece.start) == (reached[piece.file], piece.size)
            reached[piece.file] = piece.end
        assert all(reached[number] == log.files[number].end for number in reached)
        assert [file.start for file in log.files if file.start < log.end_offset] == [log.files[number].start for number in reached]
        cut += len(pieces) - len(reached)
    assert cut > 100


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", BY_SPARK)
def test_by_spark(session: SparkSession, name: str, tmp_path: Path) -> None:
    root = stores.sample_store(name)
    at = StoreAt.of(root, settings=stores.case(name).settings(root))
    expected = made(at, tmp_path / "here", None, Mode.USEFUL)
    assert made(at, tmp_path / "there", DistributedRebuild(SparkRunner(session.sparkContext), at), Mode.USEFUL) == expected


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_a_work_directory_in_the_store_is_refused(prefix: str, tmp_path: Path) -> None:
    root = stores.fresh_store("5.3.3-plain", tmp_path)
    before = stores.content(root)
    for inside in (root, root / "commitlog", root.parent / "beside" / ".." / root.name / "commitlog" / "work"):
        run = rmqstore("rebuild-index", root, "--yes", "--engine", "spark", "--work-dir", f"{prefix}{inside}")
        assert run.status == 2 and "is inside the store" in run.err
    run = rmqstore("rebuild-index", root, "--yes", "--engine", "local", "--work-dir", tmp_path / "work")
    assert run.status == 2 and "--work-dir" in run.err
    assert stores.content(root) == before


def test_the_commands(session: SparkSession, tmp_path: Path) -> None:
    root = stores.fresh_store("5.3.3-plain", tmp_path)
    settings = stores.case("5.3.3-plain").set_options(root)
    before = {path.relative_to(root): path.read_bytes() for path in root.glob("consumequeue/*/*/*")}
    for path in [*root.glob("consumequeue/*/*/*"), *root.glob("index/*")]:
        path.unlink()

    for command in ("rebuild-consumequeue", "rebuild-index"):
        run = rmqstore(command, root, *settings, "--engine", "spark", "--yes", "--format", "json")
        assert (run.status, run.err) == (0, "")

    after = {path.relative_to(root): path.read_bytes() for path in root.glob("consumequeue/*/*/*")}
    assert {path: data for path, data in after.items() if any(data)} == {path: data for path, data in before.items() if any(data)}
    assert rmqstore("verify", root, *settings).status == 0
