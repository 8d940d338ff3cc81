"""Both runners give the same results, in the same order, whatever goes wrong on the way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rmqstore.errors import RmqstoreError, StoreChangedError
from rmqstore.pipeline.job import Part
from rmqstore.pipeline.local import LocalRunner
from rmqstore.pipeline.spark.runner import SparkRunner, tasks_of
from rmqstore.reading.progress import silent
from tests.pipeline.jobs import PARTS, Failing, Letters, Nothing, Numbers
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXPECTED = [(part.name, data) for part in PARTS for data in (b"first", str(part.number).encode())]


@pytest.fixture(params=["one thread", "three threads", "spark"])
def runner(request: pytest.FixtureRequest) -> LocalRunner | SparkRunner:
    if request.param == "spark":
        session: SparkSession = request.getfixturevalue("session")
        return SparkRunner(session.sparkContext)
    return LocalRunner(1 if request.param == "one thread" else 3)


def test_packets_come_in_the_order_of_parts(runner: LocalRunner | SparkRunner) -> None:
    assert list(runner.run(Numbers(), silent)) == EXPECTED


def test_a_result_has_the_packets_of_its_key_in_the_order_of_parts(runner: LocalRunner | SparkRunner) -> None:
    orders = {"a": (0, 3), "b": (1, 4), "c": (2,)}

    results = dict(runner.run(Letters(), silent))

    assert list(results) == ["a", "b", "c"]
    for key, result in results.items():
        expected = [f"{part.number}.{order} " * (1 + part.size) for part in PARTS for order in orders[key]]
        assert result.decode() == f"{key}: {''.join(expected)}"


def test_all_bytes_are_told(runner: LocalRunner | SparkRunner) -> None:
    for job in (Numbers(), Letters()):
        told: list[int] = []
        list(runner.run(job, told.append))
        assert sum(told) == sum(part.size for part in PARTS)
        assert min(told) >= 0


def test_a_job_without_parts_has_no_results(runner: LocalRunner | SparkRunner) -> None:
    assert list(runner.run(Nothing(), silent)) == []


def test_what_the_store_is_to_blame_for_ends_the_job(runner: LocalRunner | SparkRunner, tmp_path: Path) -> None:
    with pytest.raises(StoreChangedError) as raised:
        list(runner.run(Failing("changed", 1, tmp_path), silent))
    assert (raised.value.message, raised.value.hint) == ("The file changed.", "Try again.")
    assert len(list(tmp_path.iterdir())) == 1  # nobody tried again


@pytest.mark.parametrize("how", ["killed", "full"])
def test_spark_tries_again(session: SparkSession, tmp_path: Path, how: str) -> None:
    assert list(SparkRunner(session.sparkContext).run(Failing(how, 2, tmp_path), silent)) == EXPECTED
    assert len(list(tmp_path.iterdir())) == 2


def test_that_java_was_killed_is_told_in_one_sentence(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    program = (
        "import pathlib, sys\n"
        "from rmqstore.errors import RmqstoreError\n"
        "from rmqstore.pipeline.spark.runner import SparkRunner\n"
        "from rmqstore.pipeline.spark.session import open_context\n"
        "from tests.pipeline.jobs import Failing\n"
        "try:\n"
        "    list(SparkRunner(open_context('local[2]')).run(Failing('java', 1, pathlib.Path(sys.argv[1])), lambda count: None))\n"
        "except RmqstoreError as error:\n"
        "    print(error.message)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, tmp_path],
        env={**environment, "PYTHONPATH": str(root)},
        cwd=root,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (run.stdout, run.stderr, run.returncode) == ("The Java process of Spark ended before the work was done.\n", "", 0)


def test_spark_gives_up_with_a_reason(session: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(RmqstoreError) as raised:
        list(SparkRunner(session.sparkContext).run(Failing("full", 99, tmp_path), silent))
    assert "has no space left on a disk" in raised.value.message
    assert "\n" not in raised.value.message
    assert list(SparkRunner(session.sparkContext).run(Numbers(), silent)) == EXPECTED  # the session goes on


GIB = 1 << 30


@pytest.mark.parametrize(
    ("sizes", "cores", "tasks"),
    [
        ([], 2, []),
        ([0], 2, [1]),
        ([5, 5, 5], 2, [1, 1, 1]),
        ([GIB // 4] * 16, 2, [2] * 8),  # as much for every core, and few tasks
        ([GIB // 4] * 16, 8, [1] * 16),
        ([GIB // 4] * 100, 2, [2] * 50),  # half a GiB is worth a task
        ([10, *[1] * 15], 2, [1, 3, *[2] * 6]),
    ],
)
def test_parts_are_dealt_out_to_tasks(sizes: list[int], cores: int, tasks: list[int]) -> None:
    parts = [Part(number, str(number), size) for number, size in enumerate(sizes)]

    dealt = tasks_of(parts, cores)

    assert sorted(part.number for task in dealt for part in task) == list(range(len(parts)))
    assert [len(task) for task in dealt] == tasks
    loads = [sum(part.size for part in task) for task in dealt]
    assert loads == sorted(loads, reverse=True)
