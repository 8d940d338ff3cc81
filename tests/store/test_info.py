"""`rmqstore info` from the command line: one object, one screen, nothing changed, no traceback on any damage."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from rmqstore.cli import main
from tests.support import stores

FreshStore = Callable[[str], Path]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended and what it wrote."""

    exit_code: int
    stdout: str
    stderr: str


Info = Callable[..., Ended]


@pytest.fixture
def info(capsys: pytest.CaptureFixture[str]) -> Info:
    """`info(arguments...)` runs the command."""

    def run(*arguments: str) -> Ended:
        status = main(["info", *arguments])
        written = capsys.readouterr()
        return Ended(status, written.out, written.err)

    return run


@pytest.mark.parametrize("name", ["4.9.8-multipath", "5.3.3-empty-crash", "broker-5.3.3-dledger-clean", "broker-5.5.1-rocksdb-clean"])
def test_json_is_one_object(name: str, info: Info) -> None:
    result = info(str(stores.sample_store(name)), "--format", "json")
    assert result.exit_code == 0
    (line,) = result.stdout.splitlines()
    told = json.loads(line)
    assert told["type"] == "info"
    assert told["state"] == ("crashed" if stores.case(name).crashed else "clean")
    assert {part["part"] for part in told["parts"]} >= {"checkpoint", "consumequeue", "lock"}


def test_the_screen_names_what_matters(info: Info) -> None:
    result = info(str(stores.sample_store("5.3.3-plain-crash")))
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) <= 50
    for text in ("CRASHED: abort exists", "5.2.0 to 5.3.4", "offsets 0 to 274891", "6 topics, 19 queues, 480 entries"):
        assert text in result.stdout


def test_several_directories_are_named_and_explained(info: Info) -> None:
    result = info(str(stores.sample_store("5.5.1-multipath")))
    assert "commitlog, commitlog2" in result.stdout
    assert "several commit log directories" in result.stdout


def test_settings_of_the_case_are_taken_with_their_placeholder(info: Info) -> None:
    case, root = stores.case("4.9.8-multipath"), stores.sample_store("4.9.8-multipath")
    result = info(str(root), "--format", "json", "--set", "storePathCommitLog={root}/commitlog,{root}/commitlog2")
    told = json.loads(result.stdout)
    assert told["commitlog"]["directories"] == ["commitlog", "commitlog2"]
    assert told["commitlog"]["end_offset"] == case.max_phy_offset
    assert told["notes"] == []


@pytest.mark.parametrize("name", ["5.3.3-plain", "broker-5.5.1-crash"])
def test_looking_changes_nothing(name: str, fresh_store: FreshStore, info: Info) -> None:
    root = fresh_store(name)
    before, content = stores.snapshot(root), stores.content(root)
    assert info(str(root)).exit_code == 0
    assert stores.snapshot(root) == before
    assert stores.content(root) == content


@pytest.mark.parametrize(("path", "status"), [("gone", 4), ("empty", 4), ("file", 4)])
def test_bad_paths_end_with_a_sentence(path: str, status: int, tmp_path: Path, info: Info) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    result = info(str(tmp_path / path))
    assert result.exit_code == status
    assert result.stderr.startswith("error: ")
    assert "unexpected" not in result.stderr


def test_a_bad_setting_is_a_usage_error(info: Info) -> None:
    assert info(str(stores.sample_store("5.3.3-plain")), "--set", "maxIndexNum=many").exit_code == 2


@pytest.mark.parametrize("seed", range(12))
def test_random_bytes_in_every_file_are_no_traceback(seed: int, fresh_store: FreshStore, info: Info) -> None:
    root = fresh_store("5.5.1-plain")
    generator = random.Random(seed)
    for path in sorted(root.rglob("*")):
        if path.is_file() and generator.random() < 0.7:
            length = generator.choice([0, 1, 7, 39, 4096, path.stat().st_size])
            path.write_bytes(generator.randbytes(length))
    result = info(str(root), "--format", "json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["type"] == "info"


@pytest.mark.parametrize("part", ["consumequeue", "index", "commitlog", "checkpoint", "abort", "lock", "config"])
def test_a_file_for_a_directory_and_a_directory_for_a_file(part: str, fresh_store: FreshStore, info: Info) -> None:
    root = fresh_store("5.3.3-plain-crash")
    place = root / part
    if place.is_dir():
        place.rename(root / "moved")
        place.write_bytes(b"x" * 100)
    else:
        if place.exists():
            place.unlink()
        place.mkdir()
    result = info(str(root))
    assert result.exit_code == 0, result.stderr
    if part not in ("commitlog", "config"):
        wanted = "file" if part in ("checkpoint", "abort", "lock") else "directory"
        assert f"where a {wanted} belongs" in " ".join(result.stdout.split())


def test_a_store_without_its_log_is_not_called_stopped_cleanly(fresh_store: FreshStore, info: Info) -> None:
    root = fresh_store("5.5.1-plain")
    for path in (root / "commitlog").iterdir():
        path.unlink()
    assert info(str(root)).stdout.startswith("NO COMMIT LOG: its files are not there, but queues and index have ")
