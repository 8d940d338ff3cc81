"""Classes of Spark that are kept for the next start: by the Java that loaded them, for the same Java with the same classes alone."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from rmqstore.kept import kept_directory
from rmqstore.pipeline.spark.java_classes import CdsArchive
from tests.support import stores

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "rmqstore" / "java"


def classes(tmp_path: Path, *, version: int = 17, options: tuple[str, ...] = (), kind: str = "jobs") -> CdsArchive:
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    java.touch()
    return CdsArchive(java, version, tmp_path / "jars", options, kind)


def second(tmp_path: Path, **how: Any) -> CdsArchive:
    """Those of the second start, which keeps them."""
    assert classes(tmp_path, **how).option == []
    return classes(tmp_path, **how)


def leave(made: CdsArchive) -> None:
    """What a Java that ends by itself does with the option."""
    Path(made.option[0].partition("=")[2]).write_bytes(b"classes")


@pytest.mark.parametrize(
    ("version", "keep", "use"), [(17, "ArchiveClassesAtExit", "SharedArchiveFile"), (25, "AOTCacheOutput", "AOTCache")]
)
def test_what_one_java_keeps_the_next_one_uses(version: int, keep: str, use: str, kept: Path, tmp_path: Path) -> None:
    first = second(tmp_path, version=version)
    assert first.option[0].startswith(f"-XX:{keep}={kept}")
    leave(first)
    assert not classes(tmp_path, version=version).are_kept
    first.keep()
    assert classes(tmp_path, version=version).option == [f"-XX:{use}={path}" for path in kept.iterdir()]


def test_they_are_those_of_one_java_one_set_of_classes_and_one_kind_of_work(kept: Path, tmp_path: Path) -> None:
    first = second(tmp_path)
    leave(first)
    first.keep()
    assert classes(tmp_path).are_kept
    assert not classes(tmp_path, kind="sql").are_kept
    assert not classes(tmp_path, options=("-XX:+UseSerialGC",)).are_kept
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark.jar").touch()
    assert not classes(tmp_path).are_kept


def test_a_java_that_was_stopped_leaves_nothing(kept: Path, tmp_path: Path) -> None:
    stopped = second(tmp_path, version=25)
    leave(stopped)
    Path(f"{stopped.option[0].partition('=')[2]}.config").touch()
    stopped.discard()
    assert [path.suffix for path in kept.iterdir()] == [".seen"]


def test_what_killed_commands_left_goes(kept: Path, tmp_path: Path) -> None:
    kept.mkdir(parents=True)
    ended = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True, check=True
    ).stdout.strip()
    for pid in (ended, os.getpid()):
        (kept / f"jobs-0123.{pid}.part").touch()
    classes(tmp_path)
    assert [path.name for path in kept.glob("*.part")] == [f"jobs-0123.{os.getpid()}.part"]


def test_the_oldest_go(kept: Path, tmp_path: Path) -> None:
    for number in range(6):
        made = second(tmp_path, kind=f"kind{number}")
        leave(made)
        made.keep()
        for path in kept.glob(f"kind{number}-*"):
            os.utime(path, (number, number))
    assert sorted(path.name[:5] for path in kept.iterdir()) == ["kind2", "kind3", "kind4", "kind5"]


def test_without_a_place_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a:b"))
    assert classes(tmp_path).option == []


def test_a_directory_that_somebody_else_could_fill_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))  # where no directory can be made
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    shared = tmp_path / f"rmqstore-{os.getuid()}"
    assert kept_directory("kernels") == shared / "rmqstore" / "kernels"
    shared.chmod(0o777)
    assert kept_directory("kernels") is None


@pytest.mark.thorough
def test_the_second_command_keeps_them_and_the_next_one_starts_with_them(kept: Path) -> None:
    def run() -> str:
        command = [
            sys.executable,
            "-m",
            "rmqstore",
            "verify",
            str(stores.sample_store("5.3.3-plain-crash")),
            "--engine",
            "spark",
            "--format",
            "json",
        ]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PYSPARK_GATEWAY")}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    first = run()
    assert len(first.splitlines()) > 1  # findings, which are compared below, and the summary
    assert [path.suffix for path in kept.iterdir()] == [".seen"]
    run()
    (archive,) = kept.iterdir()
    assert archive.stat().st_size > 20 << 20
    before = archive.stat()
    after = run()
    assert [path.stat().st_mtime_ns for path in kept.iterdir()] == [before.st_mtime_ns]
    assert after.splitlines()[:-1] == first.splitlines()[:-1]

    archive.chmod(0o644)
    os.truncate(archive, before.st_size // 2)
    third = run()
    assert third.splitlines()[:-1] == first.splitlines()[:-1]
    assert archive.stat().st_size > before.st_size * 3 // 4
