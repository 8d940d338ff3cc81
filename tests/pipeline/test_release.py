"""The short test of a release of PySpark and of Python: each kind of job, SQL and the data source, as without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rmqstore.spark
from tests.support import stores
from tests.support.cli import rmqstore as run_rmqstore

# PySpark 4.0 leaves a socket to its end.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

STORE = "5.3.3-plain-crash"
_OF_THE_RUN = {"seconds", "engine", "engine_because", "bytes_per_second"}


def said(engine: str, *words: str | Path) -> list[dict[str, Any]]:
    run = run_rmqstore(*words, "--engine", engine)
    assert run.status in (0, 1) and not run.crashed, run.err
    return [{name: value for name, value in one.items() if name not in _OF_THE_RUN} for one in run.objects]


def test_spark_says_what_this_process_says(session: SparkSession, tmp_path: Path) -> None:
    root = stores.sample_store(STORE)
    statement = "select topic, count(*) as n from messages group by topic order by topic"
    for words in (("verify", root), ("stats", root), ("sql", root, statement)):
        assert said("spark", *words, "--format", "json") == said("local", *words, "--format", "json"), words
    for engine in ("spark", "local"):
        assert run_rmqstore("export", root, tmp_path / engine, "--engine", engine, "--quiet").status == 0
    assert {**stores.content(tmp_path / "spark"), "_manifest": ""} == {**stores.content(tmp_path / "local"), "_manifest": ""}

    rmqstore.spark.register(session)
    frame = session.read.format("rocketmq").load(str(root))
    counts = {row["topic"]: row["n"] for row in frame.groupBy("topic").count().withColumnRenamed("count", "n").collect()}
    assert counts == {one["topic"]: one["n"] for one in said("local", "sql", root, statement, "--format", "json")}
    assert sum(counts.values()) > 100
