"""Statistics, exports and rebuilt queues and index of every sample store and of every damage are the same in this process and on Spark.

Every damage is tried on one store by default; RMQSTORE_ALL_DAMAGES=1 tries all on one store of every release family, and exports
Parquet as well.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rmqstore.pipeline.engine import Runner
from rmqstore.pipeline.export.attempt import PieceDone
from rmqstore.pipeline.export.job import ExportJob
from rmqstore.pipeline.job import Job, StoreAt, silent
from rmqstore.pipeline.local import LocalRunner
from rmqstore.pipeline.rebuild import IndexJob, QueuesJob, Source
from rmqstore.pipeline.spark import SparkRunner
from rmqstore.pipeline.stats.counts import Counts
from rmqstore.pipeline.stats.job import StatsJob
from rmqstore.pipeline.tables.message_parts import wanted_pieces
from rmqstore.rebuild import Mode
from rmqstore.recovery.release import choose_release
from rmqstore.repair.judgement import judge, present_log
from rmqstore.versions import profile_of
from tests.pipeline.exporting import request
from tests.pipeline.places import BASES, EVERYTHING, damaged_stores, sample_stores
from tests.pipeline.together import Together

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WISHES = [request("jsonl", body="decoded")]
if EVERYTHING:
    WISHES += [request("parquet", partition_by=("queue_id", "day"))]
PIECE = 100_000

Decode = Callable[[str, bytes], Any]


def jobs_of(at: StoreAt, out: Path) -> Iterator[tuple[Job, Decode]]:
    """Jobs over one store, and what makes of a result something that does not depend on where it was made."""
    yield StatsJob.over([at], largest=PIECE), lambda key, data: Counts.unpack(data)
    for number, wish in enumerate(WISHES):
        target = out / f"export-{number}"
        yield ExportJob(wanted_pieces(at, wish.conditions, largest=PIECE), wish, str(target), "run"), _exported(target)
    store = at.open()
    source = Source(at, present_log(store, judge(store).log), profile_of(choose_release(store, "auto").release))
    for name in ("queues", "index"):
        (out / name).mkdir(parents=True)
    yield QueuesJob(source, Mode.USEFUL, str(out / "queues")), _built
    yield IndexJob(source, None, (0, 0), str(out / "index")), _built


def _exported(out: Path) -> Decode:
    def decode(key: str, data: bytes) -> Any:
        done = PieceDone.unpack(data)
        files = {file: digest(out / done.attempt / file.path) for file in done.files}
        return files, done.part, done.messages, done.damaged_ranges, done.damaged_bytes

    return decode


def _built(key: str, data: bytes) -> Any:
    if key == "refused":
        return data
    result, files = pickle.loads(data)
    return result, {path: digest(staged.path) for path, staged in files.items()}


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def outcome(runner: Runner, places: Sequence[StoreAt], out: Path) -> dict[tuple[str, int, str], Any]:
    """All results by store, number of the job and key."""
    out.mkdir()
    owned = [(at.path, number, job, decode) for at in places for number, (job, decode) in enumerate(jobs_of(at, out / at.path.lstrip("/")))]
    found = {}
    for key, data in runner.run(Together([job for _, _, job, _ in owned], str(out)), silent):
        which, _, own = key.partition("/")
        path, number, _, decode = owned[int(which)]
        found[path, number, own] = decode(own, data)
    return found


def compare(session: SparkSession, places: Sequence[StoreAt], scratch: Path) -> None:
    here, there = outcome(LocalRunner(2), places, scratch / "here"), outcome(SparkRunner(session.sparkContext), places, scratch / "there")
    assert list(there) == list(here)
    for which, expected in here.items():
        assert there[which] == expected, which
    assert {number for _, number, _ in here} == set(range(3 + len(WISHES)))


def test_every_sample_store(session: SparkSession, tmp_path: Path) -> None:
    compare(session, sample_stores(), tmp_path)


@pytest.mark.parametrize("base", BASES)
def test_every_damage(session: SparkSession, base: str, tmp_path: Path) -> None:
    compare(session, damaged_stores(base, tmp_path / "stores"), tmp_path)
