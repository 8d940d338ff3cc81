"""Queues and index that Spark rebuilds are, byte for byte and finding for finding, those that this process rebuilds."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rmqstore.pipeline.job import StoreAt
from rmqstore.pipeline.local import LocalRunner
from rmqstore.pipeline.logparts import LARGEST_PIECE
from rmqstore.pipeline.rebuild import Elsewhere
from rmqstore.pipeline.spark import SparkRunner
from rmqstore.rebuild import Mode
from rmqstore.recovery.release import choose_release
from rmqstore.repair.judgement import judge, present_log
from rmqstore.repair.rebuilding import IndexRequest, QueueRequest, Rebuilder, rebuild_derived
from rmqstore.repair.staging import StagedFile, Staging
from rmqstore.versions import profile_of
from tests.support import stores
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
    profile = profile_of(choose_release(store, "auto").release)
    staging = Staging(directory)
    request = QueueRequest(mode, lambda key: key[1] != 1)
    rebuilt = rebuild_derived(store, log, profile, staging, queues=request, index=[IndexRequest()], rebuilder=rebuilder)
    assert rebuilt.queues is not None
    (queues, queue_files), [(index, index_files)] = rebuilt.queues, rebuilt.index
    listed = {path for queue in queues.queues for path in (*queue.files, *queue.ext_files)}
    # A queue that begins anew leaves files behind that nobody lists.
    files = {path: staged for path, staged in queue_files.items() if path in listed}
    return {"queues": queues, "index": index, "files": digests(files), "index_files": digests(index_files)}


@pytest.mark.parametrize(("name", "mode"), [*((name, Mode.USEFUL) for name in NAMES), *((name, Mode.FAITHFUL) for name in BY_SPARK)])
def test_in_shares(name: str, mode: Mode, tmp_path: Path) -> None:
    root = stores.sample_store(name)
    at = StoreAt.of(root, settings=stores.case(name).settings(root))
    expected = made(at, tmp_path / "here", None, mode)
    for largest in (LARGEST_PIECE, 50_000):
        assert made(at, tmp_path / f"there-{largest}", Elsewhere(LocalRunner(2), at, largest=largest), mode) == expected
        assert not list((tmp_path / f"there-{largest}").glob("attempts-*"))


@pytest.mark.parametrize("name", BY_SPARK)
def test_by_spark(session: SparkSession, name: str, tmp_path: Path) -> None:
    root = stores.sample_store(name)
    at = StoreAt.of(root, settings=stores.case(name).settings(root))
    expected = made(at, tmp_path / "here", None, Mode.USEFUL)
    assert made(at, tmp_path / "there", Elsewhere(SparkRunner(session.sparkContext), at), Mode.USEFUL) == expected


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
