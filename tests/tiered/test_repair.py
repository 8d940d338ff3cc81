"""Metadata of tiered storage from the segments: what the broker had, undo byte by byte, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmqstore.store import fastjson
from tests.support.cli import Run, rmqstore
from tests.tiered.stores import NAMES, segment_paths, unpacked

NAME = "tieredStoreMetadata.json"
TIMES = frozenset({"createTimestamp", "sealTimestamp", "updateTimestamp"})
"""When a broker wrote something: no segment shows it."""


def metadata(root: Path) -> dict[str, Any]:
    return dict(fastjson.parse((root / "config" / NAME).read_bytes()).value)


def essential(value: Any) -> Any:
    """The metadata without times of writing, status and the ends of queues, which brokers do not keep up to date."""
    left_out = TIMES | {"status", "minOffset", "maxOffset"}
    if not isinstance(value, dict):
        return value
    return {str(key): essential(one) for key, one in value.items() if key not in left_out}


def recovered(directory: Path, *words: str) -> Run:
    run = rmqstore("recover", directory / "store", "--broker-conf", directory / "broker.conf", "--yes", "--format", "json", *words)
    assert not run.crashed, run.err
    return run


def contents(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file() and ".rmqstore" not in path.parts)
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def gone(root: Path) -> None:
    for path in (root / "config").glob(f"{NAME}*"):
        path.unlink()


def garbage(root: Path) -> None:
    (root / "config" / NAME).write_bytes(bytes(500))
    (root / "config" / f"{NAME}.bak").write_bytes(b'{"commitLogFileSegmentTable": {"broker')


@pytest.mark.parametrize("inflict", [gone, garbage])
@pytest.mark.parametrize("name", NAMES)
def test_the_segments_show_what_the_broker_had(name: str, inflict: Callable[[Path], None], tmp_path: Path) -> None:
    root = unpacked(name, tmp_path)
    before = metadata(root)
    inflict(root)
    damaged = contents(tmp_path)

    run = recovered(tmp_path)

    assert run.status == 0, run.err
    after = metadata(root)
    assert essential(after) == essential(before)
    assert {key: len(table) for key, table in after["queueMetadataTable"].items()} == {"orders": 3, "events": 3, "delayed": 3}
    verified = rmqstore("verify", root, "--broker-conf", tmp_path / "broker.conf", "--format", "json")
    assert verified.objects[-1]["verdict"] == "HEALTHY"
    assert {path: data for path, data in contents(tmp_path).items() if path.startswith("segments")} == {
        path: data for path, data in damaged.items() if path.startswith("segments")
    }
    assert rmqstore("undo", root, "--yes", "--quiet").status == 0
    assert contents(tmp_path) == damaged


def test_a_whole_backup_is_taken_instead(tmp_path: Path) -> None:
    root = unpacked("5.3.3-crash", tmp_path)
    path = root / "config" / NAME
    whole = path.with_name(f"{NAME}.bak").read_bytes()
    path.write_bytes(b"\0" * 100)
    recovered(tmp_path)
    assert path.read_bytes() == whole


def test_every_entry_has_its_origin(tmp_path: Path) -> None:
    root = unpacked("5.5.0-clean", tmp_path)
    gone(root)
    plan = recovered(tmp_path, "--dry-run", "--strategy", "salvage").objects[0]
    assert not (root / "config" / NAME).exists()
    entries = [one for one in plan["configuration"] if one["file"] == NAME]
    assert {one["origin"] for one in entries} == {"segments of tiered storage", "index of tiered storage"}
    assert sum(one["entry"].startswith("topic ") for one in entries) == 3
    assert not any(one.get("guess") for one in entries)


def test_numbers_that_no_index_entry_shows_are_guesses(tmp_path: Path) -> None:
    root = unpacked("5.5.0-clean", tmp_path)
    gone(root)
    for path in segment_paths(tmp_path, "rmq_sys_INDEX/0", "INDEX"):
        path.unlink()
    plan = recovered(tmp_path, "--dry-run", "--strategy", "salvage").objects[0]
    guessed = [one["entry"] for one in plan["configuration"] if one["file"] == NAME and one.get("guess")]
    assert guessed == ["topic delayed: number 0", "topic events: number 1", "topic orders: number 2"]
    assert any("No index entry shows the number of delayed and 2 more topics" in note for note in plan["notes"])


def test_a_gap_is_named_and_what_is_there_is_kept(tmp_path: Path) -> None:
    root = unpacked("5.5.0-clean", tmp_path)
    gone(root)
    first, second, third = segment_paths(tmp_path, "orders/0", "COMMIT_LOG")
    second.unlink()
    run = recovered(tmp_path)
    begin, end = first.stat().st_size, int(third.name[-20:])
    assert any(f"Bytes {begin} to {end} of the COMMIT_LOG segments of broker-a/orders/0" in note for note in run.objects[0]["notes"])
    assert sorted(metadata(root)["commitLogFileSegmentTable"]["broker-a/orders/0"], key=int) == ["0", str(end)]


def test_segments_that_overlap_are_left_alone(tmp_path: Path) -> None:
    """A broker that started without the metadata wrote on in the first file: the second one is not the rest of it any more."""
    root = unpacked("5.5.0-clean", tmp_path)
    gone(root)
    first = segment_paths(tmp_path, "orders/0", "COMMIT_LOG")[0]
    first.write_bytes(first.read_bytes() + bytes(100))
    run = recovered(tmp_path)
    assert not (root / "config" / NAME).exists()
    assert any("of broker-a/orders/0 overlap" in note for note in run.objects[0]["notes"])


def test_without_the_place_of_the_segments_nothing_is_written(tmp_path: Path) -> None:
    root = unpacked("5.3.3-crash", tmp_path)
    garbage(root)
    run = rmqstore("recover", root, "--yes", "--format", "json")
    assert any("the settings do not name tieredStoreFilePath" in note for note in run.objects[0]["notes"])
    assert json.dumps(run.objects[0]["configuration"]).count(NAME) == 0
