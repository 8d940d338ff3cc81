"""The command: formats, refusals, and what it does not load."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.builder import StoreBuilder
from tests.support.cli import rmqstore
from tests.support.stores import sample_store, snapshot
from tests.support.waiting import PATIENCE


def small(root: Path) -> Path:
    return StoreBuilder(root).message("TopicA", tags="a,b", keys='k"1').message("TopicB").build()


def test_csv_has_one_header_for_the_whole_log(tmp_path: Path) -> None:
    run = rmqstore("dump", small(tmp_path), "--format", "csv")

    rows = list(csv.DictReader(io.StringIO(run.out)))
    assert [(row["type"], row["topic"], row["tags"], row["keys"]) for row in rows] == [
        ("message", "TopicA", "a,b", 'k"1'),
        ("message", "TopicB", "", ""),
    ]
    assert json.loads(rows[0]["properties"]) == {"TAGS": "a,b", "KEYS": 'k"1'}


def test_a_table_for_people(tmp_path: Path) -> None:
    lines = rmqstore("dump", small(tmp_path)).out.splitlines()

    assert lines[0].split()[:4] == ["type", "physical_offset", "size", "topic"]
    assert "2023-11-14 22:13:20.001Z" in lines[1]
    assert len(lines) == 3


def test_large_logs_give_the_same_table_as_small_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = small(tmp_path)
    expected = rmqstore("dump", root).out
    monkeypatch.setattr("rmqstore.dump.log.LogDump.items.__defaults__", (1, 2))

    assert rmqstore("dump", root).out == expected


@pytest.mark.parametrize(
    ("options", "status"),
    [
        (["--from-time", "yesterday"], 2),
        (["--part", "nothing"], 2),
        (["--limit", "-1"], 2),
        (["--part", "checkpoint", "--topic", "TopicA"], 2),
        (["--part", "index", "--key", "k"], 2),
    ],
)
def test_refusals(tmp_path: Path, options: list[str], status: int) -> None:
    run = rmqstore("dump", small(tmp_path), *options)

    assert run.status == status
    assert run.out == ""
    assert not run.crashed


def test_paths_that_are_no_store(tmp_path: Path) -> None:
    noise = tmp_path / "noise"
    noise.write_bytes(bytes(range(256)) * 8)
    (tmp_path / "empty").mkdir()

    for path in (noise, tmp_path / "empty", tmp_path / "missing"):
        run = rmqstore("dump", path)
        assert run.status == 4
        assert "hint:" in run.err
        assert not run.crashed


def test_a_reader_that_closes_the_pipe_is_no_error() -> None:
    root = sample_store("5.3.3-plain")
    program = [sys.executable, "-m", "rmqstore", "dump", str(root), "--format", "json"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert json.loads(process.stdout.readline())["type"] == "message"
        process.stdout.close()
        errors = process.stderr.read()
        status = process.wait(timeout=PATIENCE)

    assert (status, errors) == (0, b"")


@pytest.mark.parametrize("options", [("--limit", "1"), ("--tail", "2")])
def test_one_record_is_shown_without_the_heavy_libraries(options: tuple[str, ...]) -> None:
    path = next((sample_store("5.3.3-plain") / "commitlog").iterdir())
    code = (
        "import sys; from rmqstore.cli import main; main(); "
        "print([name for name in ('numba', 'numpy', 'rich', 'pyarrow', 'pyspark') if name in sys.modules], file=sys.stderr)"
    )
    program = [sys.executable, "-c", code, "dump", str(path), *options, "--format", "json"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=PATIENCE, check=True)

    assert json.loads(done.stdout.splitlines()[0])["type"] == "message"
    assert done.stderr.strip() == "[]"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("part", ["commitlog", "consumequeue", "index", "timerwheel", "json"])
def test_nothing_is_changed(part: str) -> None:
    root = sample_store("broker-5.5.1-crash")
    before = snapshot(root)

    assert rmqstore("dump", root, "--part", part, "--format", "json").status == 0

    assert snapshot(root) == before
