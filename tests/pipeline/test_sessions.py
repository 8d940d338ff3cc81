"""Sessions that users make themselves: clients of Spark Connect, and Pythons without the package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.cluster import without_session
from tests.support.cli import rmqstore
from tests.support.stores import fresh_store
from tests.support.waiting import PATIENCE
from tests.verify.one_check import patch

_CONNECTED = """
import sys
import rmqstore.pipeline.verify
from pyspark.sql import SparkSession
from rmqstore.spark import findings, register

rmqstore.pipeline.verify.LARGE_STORE = 0
session = SparkSession.builder.remote("local[2]").getOrCreate()
register(session)
print(session.read.format("rocketmq").option("where", "topic = 'TopicA'").load(sys.argv[1]).count())
print(sorted(row.code for row in findings(session, sys.argv[1]).select("code").collect()))
session.stop()
"""
_PLAIN = """
from pyspark.sql import SparkSession
from rmqstore.spark import register

session = SparkSession.builder.master("local[1]").getOrCreate()
register(session)
session.stop()
"""


def run(program: str, directory: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    surroundings = {name: value for name, value in without_session().items() if name != "PYSPARK_PYTHON"}
    command = [sys.executable, "-P", "-c", program, *words]
    return subprocess.run(command, cwd=directory, env={**surroundings, **environment}, capture_output=True, text=True, timeout=PATIENCE)


@pytest.mark.exhaustive
def test_spark_connect(tmp_path: Path) -> None:
    root = fresh_store("5.3.3-plain", tmp_path)
    log = next((root / "commitlog").iterdir())
    patch(log, 200, b"\xff")
    expected = [one["code"] for one in rmqstore("verify", root, "--format", "json").objects if one["type"] == "finding"]
    [counted] = rmqstore("sql", root, "select count(*) n from messages where topic = 'TopicA'", "--format", "json").objects[:1]

    done = run(_CONNECTED, tmp_path, str(root), PYSPARK_PYTHON=sys.executable)

    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == [str(counted["n"]), str(sorted(expected))]
    assert expected


def test_workers_without_the_package(tmp_path: Path) -> None:
    other = tmp_path / "python3"
    other.symlink_to(Path(sys.executable).resolve())  # outside of its environment

    path = f"{tmp_path}:{os.environ['PATH']}"
    done = run(_PLAIN, tmp_path, PATH=path)

    assert done.returncode == 1
    assert f"UsageError: Spark starts its workers with {other}, which has no rmqstore.\n" in done.stderr
    assert f"Set the environment variable PYSPARK_PYTHON to {sys.executable} before the session is created." in done.stderr
    assert run(_PLAIN, tmp_path, PATH=path, PYSPARK_PYTHON=sys.executable).returncode == 0
