"""The current directory, which may be that of a hostile store, is never a place of modules."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rmqstore import children
from rmqstore.pipeline.spark.session import _settings
from tests.support import stores
from tests.support.waiting import PATIENCE

SAMPLE = "5.3.3-plain"
PLANTED = ("numpy", "numba", "pyarrow", "pyspark", "click", "rich", "json", "socket", "pickle", "construct", "encodings")
START = "import sys; from rmqstore.cli import main; sys.exit(main())"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A directory with modules that leave a mark when they are imported, and a package `rmqstore` without anything in it."""
    directory = tmp_path / "hostile"
    (directory / "rmqstore").mkdir(parents=True)
    (directory / "store").symlink_to(stores.sample_store(SAMPLE))
    for name in PLANTED:
        (directory / f"{name}.py").write_text(f"open({str(tmp_path / 'mark')!r}, 'a').write({name!r} + '\\n')\n")
    return directory


def _run(directory: Path, *words: str, safe: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the command that an installation puts on the PATH, or `python -m rmqstore`."""
    # Another Spark that a test has started is not the one of this command.
    kept = (name for name in os.environ if name not in ("PYTHONPATH", "PYTHONSAFEPATH") and not name.startswith("PYSPARK_GATEWAY"))
    variables = {name: os.environ[name] for name in kept}
    how = ["-P", "-c", START] if safe else ["-m", "rmqstore"]
    return subprocess.run(
        [sys.executable, *how, *words], cwd=directory, env=variables | environment, capture_output=True, text=True, timeout=PATIENCE
    )


def _marks(directory: Path) -> str:
    mark = directory.parent / "mark"
    return mark.read_text() if mark.exists() else ""


def test_stats_on_spark(hostile: Path) -> None:
    done = _run(hostile, "stats", "store", "--engine", "spark", "--format", "json")
    assert (done.returncode, _marks(hostile)) == (0, ""), done.stderr
    here = _run(hostile, "stats", "store", "--engine", "local", "--format", "json")
    assert done.stdout.splitlines()[:-1] == here.stdout.splitlines()[:-1]


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.exhaustive)])
def test_sql(engine: str, hostile: Path) -> None:
    done = _run(hostile, "sql", "store", "select count(*) as n from messages", "--format", "json", "--engine", engine)
    assert (done.returncode, _marks(hostile)) == (0, ""), done.stderr


def test_the_first_use_of_kernels(hostile: Path, tmp_path: Path) -> None:
    done = _run(hostile, "verify", "store", "--engine", "local", XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert (done.returncode, _marks(hostile)) == (0, ""), done.stderr
    assert "Compiling" in done.stderr


@pytest.mark.parametrize(
    "words", [("verify", "store", "--engine", "local"), ("dump", "store"), ("info", "store"), ("doctor", "store")], ids=" ".join
)
def test_python_m(words: tuple[str, ...], hostile: Path) -> None:
    (hostile / "rmqstore").rmdir()  # a package of this name in the directory would be the one that Python runs
    for name in ("encodings", "json", "socket", "pickle"):
        (hostile / f"{name}.py").unlink()  # such as Python itself may load before it runs anything
    done = _run(hostile, *words, safe=False)
    assert (done.returncode, _marks(hostile)) == (0, ""), done.stderr


def test_a_relative_place_of_modules_is_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", ":/a::b:./c:/d:")
    assert children.environment(X="y")["PYTHONPATH"] == "/a:/d"
    assert children.environment(X="y")["X"] == "y"
    assert children.environment()["PYTHONSAFEPATH"] == "1"
    monkeypatch.setenv("PYTHONPATH", ":")
    assert "PYTHONPATH" not in children.environment()


def test_workers_on_other_machines() -> None:
    assert _settings(None, {})["spark.executorEnv.PYTHONSAFEPATH"] == "1"


def test_every_process_that_is_started_gets_that_environment() -> None:
    """Whoever starts a Python or Java process names its environment."""
    root = Path(__file__).parents[2]
    starts = [
        (path.name, part.split(")\n", 1)[0])
        for folder in ("rmqstore", "commands")
        for path in (root / folder).rglob("*.py")
        for part in path.read_text().split("subprocess.Popen(")[1:]
    ]
    assert {name for name, _ in starts} == {"machinecode.py", "java_process.py", "pager.py", "streams.py", "database.py"}
    assert all("environment(" in (text + ")") for _, text in starts)
