"""Workers that see other files than the command, or lack what it needs: the right answer or the right sentence, with the host."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.pipeline.cluster import CONF, cluster, without_session
from tests.support import stores
from tests.support.cli import rmqstore
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.exhaustive

STORE = "5.3.3-plain"
OTHER = "4.9.8-plain"


def run(master: str, *words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "rmqstore", *map(str, words), "--master", master, *CONF]
    return subprocess.run(command, env=without_session() | variables, capture_output=True, text=True, timeout=PATIENCE, check=False)


def told(done: subprocess.CompletedProcess[str]) -> tuple[str, str]:
    """The error and the hint; before them Spark may have written its log."""
    error, hint = [line for line in done.stderr.splitlines() if line.startswith(("error: ", "hint: "))]
    assert error.startswith("error: ") and hint.startswith("hint: "), done.stderr
    assert "An error occurred while calling" not in error and "Traceback" not in done.stderr
    return error, hint


class Places:
    """A cluster whose second worker sees something else at the path of the store."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "store"
        shutil.copytree(stores.sample_store(STORE), self.root)
        self.other = directory / "other"
        shutil.copytree(stores.sample_store(OTHER), self.other)
        self.older = directory / "older"
        shutil.copytree(self.root, self.older)
        # A snapshot from before the last records were written.
        last = sorted((self.older / "commitlog").iterdir())[-1]
        data = last.read_bytes()
        end = len(data.rstrip(b"\0"))
        last.write_bytes(data[: end - 300] + bytes(len(data) - end + 300))
        self.empty = directory / "empty"
        self.empty.mkdir()

    def instead(self, what: Path) -> Sequence[str | None]:
        """Both workers have it, because one alone might get no task."""
        return [f"mount --bind {what} {self.root}"] * 2


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


_GROUPED = "select topic, count(*) n from messages group by topic"


@pytest.mark.limited(1)
@pytest.mark.sampled(0)  # a cluster is started for each
@pytest.mark.parametrize(
    ("what", "commands"),
    [
        ("other", (("stats",), ("verify",))),
        ("older", (("stats",), ("export", "OUT"))),
        ("empty", (("sql", _GROUPED),)),
    ],
    ids=["other", "older", "empty"],
)
def test_another_store_under_the_same_path_is_refused(
    places: Places, what: str, commands: Sequence[tuple[str, ...]], tmp_path: Path
) -> None:
    with cluster(tmp_path, places.instead(getattr(places, what))) as master:
        for name, *more in commands:
            done = run(master, name, places.root, *(tmp_path / "out" if word == "OUT" else word for word in more))

            assert done.returncode == 3, done.stderr
            error, hint = told(done)
            assert "Host worker-" in error and str(places.root) in error
            assert "on every host" in hint


def test_stores_that_are_mounted_elsewhere_on_the_command_host_only(places: Places, tmp_path: Path) -> None:
    """Same bytes, another file system: that is the same store."""
    copy = tmp_path / "copy"
    shutil.copytree(places.root, copy)
    expected = rmqstore("stats", places.root, "--format", "json", "--engine", "local")
    with cluster(tmp_path, [f"mount --bind {copy} {places.root}", None]) as master:
        done = run(master, "stats", places.root, "--format", "json")
        assert done.returncode == 0, done.stderr
        here, there = (json.loads(text.splitlines()[0]) for text in (expected.out, done.stdout))
        assert here == there


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with cluster(tmp_path_factory.mktemp("cluster"), ["true", "true"]) as url:
        yield url


def test_a_python_without_the_package(master: str, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)

    done = run(master, "stats", stores.sample_store(STORE), PYSPARK_PYTHON=str(tmp_path / "bare" / "bin" / "python"))

    assert done.returncode == 3, done.stderr
    error, hint = told(done)
    assert "rmqstore" in error or "package" in error
    assert "Install rmqstore" in hint


@pytest.mark.thorough
def test_no_python_there(master: str, tmp_path: Path) -> None:
    done = run(master, "stats", stores.sample_store(STORE), PYSPARK_PYTHON=str(tmp_path / "nowhere" / "python"))

    assert done.returncode == 3, done.stderr
    error, hint = told(done)
    assert str(tmp_path / "nowhere" / "python") in error and "PYSPARK_PYTHON" in hint


def test_a_master_that_is_not_there() -> None:
    done = run("spark://127.0.0.1:9", "stats", stores.sample_store(STORE))

    assert done.returncode == 3, done.stderr
    error, hint = told(done)
    assert "master" in error and "--master" in hint


@pytest.mark.thorough
def test_results_that_are_too_large(master: str) -> None:
    done = run(master, "stats", stores.sample_store(STORE), "--spark-conf", "spark.driver.maxResultSize=1k")

    assert done.returncode == 4, done.stderr
    error, hint = told(done)
    assert "more than Spark accepts" in error and "maxResultSize" in hint


def test_an_output_that_workers_do_not_share(places: Places, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with cluster(tmp_path, [f"mount -t tmpfs tmpfs {out}"] * 2) as master:
        done = run(master, "export", places.root, out)

        assert done.returncode != 0
        error, hint = told(done)
        assert str(out) in error and "every host" in hint
        assert not list(out.rglob("*.jsonl"))


def test_a_disk_that_is_full(places: Places, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(out)], capture_output=True, check=False).returncode:
        pytest.skip("no permission to mount")
    try:
        with cluster(tmp_path, ["true", "true"]) as master:
            done = run(master, "export", places.root, out)
    finally:
        subprocess.run(["umount", "--lazy", str(out)], check=True)

    assert done.returncode == 4
    error, _ = told(done)
    assert "is full" in error and "host worker-" in error


@pytest.mark.exhaustive
def test_a_rebuild_whose_directory_workers_do_not_share(places: Places, tmp_path: Path) -> None:
    root = tmp_path / "damaged"
    shutil.copytree(places.root, root)
    shutil.rmtree(root / "consumequeue")
    before = {path: path.stat().st_mtime_ns for path in sorted(root.rglob("*")) if path.is_file()}
    hidden = f"mkdir -p {tmp_path}/cover && cp -a {root} {tmp_path}/cover/ && mount --bind {tmp_path}/cover/damaged {root}"
    with cluster(tmp_path, [hidden.replace("cover", f"cover{number}") for number in (1, 2)]) as master:
        done = run(master, "rebuild-consumequeue", root, "--yes", "--engine", "spark")

        assert done.returncode != 0
        error, hint = told(done)
        assert "Host worker-" in error and str(root) in error and "--work-dir" in hint
        assert {path: path.stat().st_mtime_ns for path in before} == before

        done = run(master, "rebuild-consumequeue", root, "--yes", "--engine", "spark", "--work-dir", tmp_path / "work")
        assert done.returncode == 0, done.stderr
    expected = tmp_path / "expected"
    shutil.copytree(places.root, expected)
    shutil.rmtree(expected / "consumequeue")
    assert rmqstore("rebuild-consumequeue", expected, "--yes", "--engine", "local").status == 0
    assert stores.content(root / "consumequeue") == stores.content(expected / "consumequeue")
    assert not list((tmp_path / "work").iterdir())
