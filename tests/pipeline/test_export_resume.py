"""An export that was stopped by anything goes on where it was, and nobody ever sees a file that is not whole."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from rmqstore.errors import RefusedError
from rmqstore.pipeline.export.attempt import PieceDone
from rmqstore.pipeline.export.destination import Destination
from rmqstore.pipeline.export.manifest import MANIFEST
from tests.pipeline.exporting import FORMATS, dumped, export, lines_of, parts_of, read, request
from tests.support.cli import Run, rmqstore
from tests.support.stores import case, content, fresh_store, sample_store

NAME = "5.5.1-manyfiles"


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """No power is cut here."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def run_export(out: Path, *options: str | Path, root: Path | None = None) -> Run:
    root = root or sample_store(NAME)
    return rmqstore("export", root, out, *case(NAME).set_options(root), "--engine", "local", "--threads", "1", *options)


def whole(directory: Path, *options: str) -> dict[str, str]:
    """What an export holds that nothing stops; without the manifest, whose lines may come in another order."""
    assert run_export(directory / "whole", *options).status == 0
    return files_of(directory / "whole")


def files_of(out: Path) -> dict[str, str]:
    return {path: digest for path, digest in content(out).items() if path != MANIFEST}


@contextmanager
def stopping(monkeypatch: pytest.MonkeyPatch, after: int) -> Iterator[None]:
    """Ctrl-C when some pieces are published."""
    publish, seen = Destination.publish, []

    def limited(self: Destination, done: PieceDone) -> None:
        seen.append(done)
        if len(seen) > after:
            raise KeyboardInterrupt
        publish(self, done)

    with monkeypatch.context() as patched:
        patched.setattr(Destination, "publish", limited)
        yield


@contextmanager
def full_disk(monkeypatch: pytest.MonkeyPatch, file: str) -> Iterator[None]:
    """The files of this name go to a device that is always full."""
    opened = Path.open

    def full(self: Path, mode: str = "r", *arguments: Any, **options: Any) -> IO[Any]:
        if self.name == file and "w" in mode:
            opened(self, "w").close()
            return opened(Path("/dev/full"), mode, *arguments, **options)
        return opened(self, mode, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", full)
        yield


@pytest.mark.parametrize("format", FORMATS)
def test_an_interrupted_export_goes_on_with_what_is_missing(format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, out = whole(tmp_path, "--format", format), tmp_path / "out"
    with stopping(monkeypatch, after=2):
        stopped = run_export(out, "--format", format)
    before = {path: path.stat().st_mtime_ns for path in parts_of(out, format)}

    run = run_export(out, "--format", format)

    assert stopped.status == 130
    assert "2 pieces of the log are exported" in stopped.err
    assert len(before) == 2
    assert run.status == 0
    assert "2 of " in run.err
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert files_of(out) == expected


@pytest.mark.parametrize("format", FORMATS)
def test_a_full_disk_leaves_whole_files_only(format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, out = whole(tmp_path, "--format", format), tmp_path / "out"
    with full_disk(monkeypatch, f"part-00002.{format}"):
        run = run_export(out, "--format", format)

    assert (run.status, run.crashed) == (4, False)
    assert "is full" in run.err
    assert "Make space" in run.err
    assert not (out / "_SUCCESS").exists()
    assert not (out / ".staging").exists()
    assert {name: digest for name, digest in expected.items() if name.startswith("part-") and name < "part-00002"} == files_of(out)
    assert run_export(out, "--format", format).status == 0
    assert files_of(out) == expected


def test_a_disk_that_fills_up_while_partitions_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ("--format", "parquet", "--partition-by", "topic,queue_id")
    expected, out = whole(tmp_path, *options), tmp_path / "out"
    with full_disk(monkeypatch, "part-00001.parquet"):
        run = run_export(out, *options)

    assert (run.status, run.crashed) == (4, False)
    assert set(files_of(out).items()) < set(expected.items())
    assert run_export(out, *options).status == 0
    assert files_of(out) == expected


def test_a_stop_between_the_files_of_a_piece_leaves_no_duplicate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ("--format", "parquet", "--partition-by", "topic,queue_id")
    expected, out = whole(tmp_path, *options), tmp_path / "out"
    replace, seen = Path.replace, []

    def limited(self: Path, target: Path) -> Path:
        if "part-00001" in target.name:
            seen.append(target)
            if len(seen) == 3:
                raise KeyboardInterrupt
        return replace(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", limited)
        assert run_export(out, *options).status == 130
    assert len(parts_of(out, "parquet")) > 2

    assert run_export(out, *options).status == 0
    assert files_of(out) == expected


def test_a_cut_off_line_of_the_manifest_is_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, out = whole(tmp_path), tmp_path / "out"
    with stopping(monkeypatch, after=3):
        run_export(out)
    manifest = out / MANIFEST
    manifest.write_bytes(manifest.read_bytes()[:-20])

    run = run_export(out)

    assert "2 of " in run.err
    assert files_of(out) == expected
    assert all(json.loads(line) for line in manifest.read_text().splitlines())


def test_what_was_exported_is_not_exported_again(tmp_path: Path) -> None:
    expected, out = whole(tmp_path), tmp_path / "whole"
    before = {path: path.stat().st_mtime_ns for path in parts_of(out, "jsonl")}

    run = run_export(out)

    assert run.status == 0
    assert "nothing is left to do" in run.err
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert files_of(out) == expected


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--topic", "TopicA"], "filters"),
        (["--format", "csv"], "format"),
        (["--body", "raw"], "body"),
        (["--columns", "topic"], "columns"),
    ],
)
def test_another_export_is_refused(options: list[str], told: str, tmp_path: Path) -> None:
    whole(tmp_path)
    before = content(tmp_path)

    run = run_export(tmp_path / "whole", *options)

    assert run.status == 3
    assert told in run.err
    assert "another directory" in run.err
    assert content(tmp_path) == before


def test_an_export_of_a_store_that_has_changed_is_refused(tmp_path: Path) -> None:
    root = fresh_store(NAME, tmp_path)
    assert run_export(tmp_path / "out", root=root).status == 0
    moved = root.rename(tmp_path / "moved")
    assert run_export(tmp_path / "out", root=moved).status == 0
    last = max((moved / "commitlog").iterdir())
    os.utime(last, ns=(last.stat().st_atime_ns, last.stat().st_mtime_ns + 1))

    run = run_export(tmp_path / "out", root=moved)

    assert run.status == 3
    assert "is not the one" in run.err


def test_a_directory_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    (tmp_path / "fake").mkdir()
    (tmp_path / "fake" / MANIFEST).write_text("{]\n")
    for out in (tmp_path, tmp_path / "notes", tmp_path / "fake"):
        before = content(tmp_path)
        run = run_export(out)
        assert (run.status, run.crashed) == (3, False)
        assert content(tmp_path) == before


def test_a_directory_inside_of_the_store_is_refused(tmp_path: Path) -> None:
    root = fresh_store(NAME, tmp_path)
    before = content(root)

    assert run_export(root / "export", root=root).status == 2
    assert content(root) == before


def test_two_exports_into_one_directory_at_a_time_are_refused(tmp_path: Path) -> None:
    whole(tmp_path)
    with (tmp_path / "whole" / MANIFEST).open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(RefusedError, match="under way"):
            export(NAME, sample_store(NAME), tmp_path / "whole", request("jsonl"))


def test_the_manifest_tells_what_is_there(tmp_path: Path) -> None:
    whole(tmp_path)
    out = tmp_path / "whole"
    head, *pieces = [json.loads(line) for line in (out / MANIFEST).read_text().splitlines()]

    assert (head["type"], head["format"], head["pieces"]) == ("export", "jsonl", len(pieces))
    assert sum(one["messages"] for one in pieces) == len(read(out, "jsonl")) == len(dumped(NAME, sample_store(NAME)))
    files = {file["path"]: file["bytes"] for one in pieces for file in one["files"]}
    assert files == {path.name: path.stat().st_size for path in parts_of(out, "jsonl")}
    assert sum(files.values()) == len(lines_of(out))
