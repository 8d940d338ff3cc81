"""Statistics and exports on Spark are those of this process, also when a worker is killed in the middle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rmqstore.pipeline.job import StoreAt
from rmqstore.pipeline.local import LocalRunner
from rmqstore.pipeline.spark.runner import SparkRunner
from rmqstore.pipeline.stats.counts import Counts
from rmqstore.pipeline.stats.job import StatsJob
from rmqstore.reading.progress import silent
from tests.pipeline.exporting import Dying, export, parts_of, request
from tests.support.stores import case, content, sample_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rmqstore.pipeline.export.request import ExportRequest

NAMES = ["5.5.1-manyfiles", "5.5.1-ipv6", "broker-5.3.3-dledger-clean"]
WISHES = [request("jsonl", body="decoded"), request("csv"), request("parquet", partition_by=("topic", "day"))]


def files_of(out: Path) -> dict[str, str]:
    return {path: digest for path, digest in content(out).items() if path != "_manifest"}


def test_counts_are_the_same(session: SparkSession) -> None:
    stores = [StoreAt.of(sample_store(name), settings=case(name).settings(sample_store(name))) for name in NAMES]
    job = StatsJob.over(stores, largest=100_000)

    assert Counts.of_results(SparkRunner(session.sparkContext).run(job, silent)) == Counts.of_results(LocalRunner(2).run(job, silent))


@pytest.mark.parametrize("wish", WISHES, ids=lambda wish: str(wish.format))
def test_files_are_the_same(wish: ExportRequest, session: SparkSession, tmp_path: Path) -> None:
    name, root = NAMES[0], sample_store(NAMES[0])
    sums = export(name, root, tmp_path / "here", wish)

    assert export(name, root, tmp_path / "spark", wish, runner=SparkRunner(session.sparkContext)) == sums
    assert files_of(tmp_path / "spark") == files_of(tmp_path / "here")


def test_a_killed_worker_leaves_no_file_twice(session: SparkSession, tmp_path: Path) -> None:
    name, root, wish = NAMES[0], sample_store(NAMES[0]), WISHES[2]
    export(name, root, tmp_path / "here", wish)

    export(name, root, tmp_path / "spark", wish, runner=SparkRunner(session.sparkContext), make_job=Dying)

    assert (tmp_path / "spark.died").exists()
    assert files_of(tmp_path / "spark") == files_of(tmp_path / "here")
    assert len(parts_of(tmp_path / "spark", "parquet")) == len(parts_of(tmp_path / "here", "parquet"))
    assert not (tmp_path / "spark" / ".staging").exists()
