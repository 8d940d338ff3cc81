"""Statistics, exports and rebuilt queues and index of every sample store and of every damage are the same in this process and on Spark.

Every second damage is tried on one store by default; RMQSTORE_ALL_DAMAGES=1 tries all on one store of every release family, and exports
Parquet as well.
"""

from __future__ import annotations

import hashlib
import pickle
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rmqstore.pipeline.export.attempt import STAGING, PieceDone
from rmqstore.pipeline.export.job import ExportJob
from rmqstore.pipeline.job import Job, Runner, StoreAt
from rmqstore.pipeline.local import LocalRunner
from rmqstore.pipeline.rebuild.exchange import InStaging
from rmqstore.pipeline.rebuild.futureparts import Source
from rmqstore.pipeline.rebuild.gather import GatherJob
from rmqstore.pipeline.rebuild.jobs import outputs_of
from rmqstore.pipeline.rebuild.scatter import ScatterJob, ShuffleOutput
from rmqstore.pipeline.spark.runner import SparkRunner
from rmqstore.pipeline.stats.counts import Counts
from rmqstore.pipeline.stats.job import StatsJob
from rmqstore.pipeline.tables.message_parts import wanted_pieces
from rmqstore.prediction.release import choose_release
from rmqstore.reading.progress import silent
from rmqstore.rebuild import Mode
from rmqstore.repair.derived.judgement import judge, present_log
from rmqstore.repair.derived.requests import IndexRequest
from rmqstore.repair.derived.settings_evidence import settings_of
from rmqstore.store.window import read_at
from rmqstore.versions import profile_of
from tests.pipeline.combined_jobs import Together
from tests.pipeline.exporting import request
from tests.pipeline.places import BASES, EVERYTHING, damaged_stores, sample_stores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WISHES = [request("jsonl", body="decoded")]
if EVERYTHING:
    WISHES += [request("parquet", partition_by=("queue_id", "day"))]
PIECE = 100_000
SHARES = 4
BUILT = 99

Decode = Callable[[str, bytes], Any]


def jobs_of(at: StoreAt, out: Path) -> Iterator[tuple[Job, Decode]]:
    """Jobs over one store, and what makes of a result something that does not depend on where it was made."""
    yield StatsJob.over([at], largest=PIECE), lambda key, data: Counts.of_results([(key, data)])
    for number, wish in enumerate(WISHES):
        target = out / f"export-{number}"
        (target / STAGING).mkdir(parents=True)
        yield ExportJob(wanted_pieces(at, wish.conditions, largest=PIECE), wish, str(target), "run"), _exported(target)
    yield scatter_job(at, out), _scattered


def scatter_job(at: StoreAt, out: Path) -> ScatterJob:
    """All records of a store, for queues and for the index."""
    store = at.open()
    source = Source(at, present_log(store, judge(store).log), profile_of(choose_release(store, "auto").release), settings_of(store))
    (out / "rebuilt").mkdir(parents=True, exist_ok=True)
    return ScatterJob(source, source.pieces(PIECE, ()), Mode.USEFUL, SHARES, [IndexRequest()], InStaging(str(out / "rebuilt"), at.path))


def gather_job(scatter: ScatterJob, scattered: Sequence[ShuffleOutput]) -> GatherJob:
    """What is built of them."""
    capacity = scatter.source.settings.index_capacity
    return GatherJob(scatter.source, outputs_of(scatter, scattered, capacity), scatter.exchange, forced=False)


def _exported(out: Path) -> Decode:
    def decode(key: str, data: bytes) -> Any:
        done = PieceDone.unpack(data)
        files = {file: digest(out / done.attempt / file.path) for file in done.files}
        return files, done.part, done.messages, done.damaged_ranges, done.damaged_bytes

    return decode


def _scattered(key: str, data: bytes) -> Any:
    scattered: ShuffleOutput = pickle.loads(data)
    regions = {
        name: [(read_at(Path(scattered.address), region.position, region.length), region.keys) for region in regions]
        for name, regions in scattered.regions.items()
    }
    return regions, scattered.refused


def _built(key: str, data: bytes) -> Any:
    result, files = pickle.loads(data)
    return result, {path: digest(Path(left.address)) for path, left in files.items()}


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def outcome(runner: Runner, places: Sequence[StoreAt], out: Path) -> dict[tuple[str, int, str], Any]:
    """All results by store, number of the job and key."""
    out.mkdir()
    outs = {at: out / at.path.lstrip("/") for at in places}
    owned = [(at, number, job, decode) for at in places for number, (job, decode) in enumerate(jobs_of(at, outs[at]))]
    found: dict[tuple[str, int, str], Any] = {}
    scattered: dict[StoreAt, list[ShuffleOutput]] = defaultdict(list)
    for key, data in runner.run(Together([job for _, _, job, _ in owned]), silent):
        which, _, own = key.partition("/")
        at, number, _, decode = owned[int(which)]
        found[at.path, number, own] = decode(own, data)
        if decode is _scattered:
            scattered[at].append(pickle.loads(data))
    built = [gather_job(scatter_job(at, outs[at]), scattered[at]) for at in places]
    for key, data in runner.run(Together(built), silent):
        which, _, own = key.partition("/")
        found[places[int(which)].path, BUILT, own] = _built(own, data)
    return found


def compare(session: SparkSession, places: Sequence[StoreAt], scratch: Path) -> None:
    here, there = outcome(LocalRunner(2), places, scratch / "here"), outcome(SparkRunner(session.sparkContext), places, scratch / "there")
    assert list(there) == list(here)
    for which, expected in here.items():
        assert there[which] == expected, which
    assert {number for _, number, _ in here} == {*range(2 + len(WISHES)), BUILT}


@pytest.mark.exhaustive
def test_every_sample_store(session: SparkSession, tmp_path: Path) -> None:
    compare(session, sample_stores(), tmp_path)


@pytest.mark.exhaustive
@pytest.mark.parametrize("base", BASES)
def test_every_damage(session: SparkSession, base: str, tmp_path: Path) -> None:
    compare(session, damaged_stores(base, tmp_path / "stores", every=1 if EVERYTHING else 2), tmp_path)
