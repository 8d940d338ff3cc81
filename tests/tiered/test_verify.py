"""Verification of tiered storage: stores of real brokers without a finding, and each damage at its place."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rmqstore.formats.tiered_index import HEADER
from rmqstore.formats.tiered_names import base_offset_of, segment_name
from rmqstore.store import fastjson
from tests.support.cli import rmqstore
from tests.tiered.stores import NAMES, segment_paths, unpacked

METADATA = "config/tieredStoreMetadata.json"
QUEUE = "orders/1"
LONG = ("5.1.4-clean", "5.5.0-clean")
"""Stores with lists of three segments."""


def verified(directory: Path, *words: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The findings about tiered storage, and the summary."""
    run = rmqstore("verify", directory / "store", "--broker-conf", directory / "broker.conf", "--format", "json", *words)
    assert not run.crashed, run.err
    findings = [one for one in run.objects if one["type"] == "finding"]
    return [one for one in findings if one["code"].startswith("RMQ-TI-")], run.objects[-1]


@pytest.mark.parametrize("name", NAMES)
def test_stores_of_brokers_have_no_finding(name: str, tmp_path: Path) -> None:
    unpacked(name, tmp_path)
    found, summary = verified(tmp_path)
    assert found == []
    assert (summary["verdict"], summary["not_checked"]) == ("HEALTHY", [])


def test_without_the_place_of_the_segments_they_are_named_as_not_read(tmp_path: Path) -> None:
    root = unpacked("5.3.3-crash", tmp_path)
    run = rmqstore("verify", root, "--format", "json")
    areas = [one["area"] for one in run.objects[-1]["not_checked"]]
    assert run.status == 1
    assert areas == ["segments of tiered storage"]


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    root = unpacked("5.3.3-crash", tmp_path)
    run = rmqstore("verify", root, "--set", f"tieredStoreFilePath={tmp_path / 'elsewhere'}", "--format", "json")
    assert [one["reason"] for one in run.objects[-1]["not_checked"]] == [f"{tmp_path / 'elsewhere'} does not exist here"]


# Damages


@dataclass(frozen=True)
class Damage:
    """A damage, and the code and place that `verify` gives it: `file` by a part of its name, position in it, messages."""

    name: str
    inflict: Callable[[Path], Any]
    code: str
    at: Callable[[Path, Any], dict[str, Any]]
    stores: tuple[str, ...] = NAMES


def patch(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as stream:
        stream.seek(position)
        stream.write(data)


def flip(path: Path, position: int) -> None:
    patch(path, position, bytes([path.read_bytes()[position] ^ 0x5A]))


def second_log_segment(directory: Path) -> Path:
    return segment_paths(directory, QUEUE, "COMMIT_LOG")[1]


def first_units(directory: Path) -> Path:
    return segment_paths(directory, QUEUE, "CONSUME_QUEUE")[0]


def records_of(path: Path) -> list[dict[str, Any]]:
    """The messages of a segment; `position` is that in the file."""
    run = rmqstore("dump", path, "--format", "json")
    start = base_offset_of(path.name)
    return [{**one, "position": one["physical_offset"] - start} for one in run.objects if one["type"] == "message"]


def body_flip(directory: Path) -> dict[str, Any]:
    path = second_log_segment(directory)
    record = records_of(path)[2]
    flip(path, record["position"] + 88 + record["body_length"] // 2)
    return record


def zeros_in_the_log(directory: Path) -> list[dict[str, Any]]:
    path = second_log_segment(directory)
    records = records_of(path)[1:4]
    patch(path, records[0]["position"], bytes(sum(record["size"] for record in records)))
    return records


def physical_offset(directory: Path) -> dict[str, Any]:
    path = second_log_segment(directory)
    record = records_of(path)[0]
    flip(path, record["position"] + 35)
    return record


def edited(directory: Path, edit: Callable[[dict[str, Any]], Any]) -> Any:
    """Writes the metadata with a change, as JSON, without a `.bak`."""
    path = directory / "store" / METADATA
    value = json.loads(json.dumps(fastjson.parse(path.read_bytes()).value))
    result = edit(value)
    path.write_text(json.dumps(value))
    path.with_name(path.name + ".bak").unlink(missing_ok=True)
    return result


def without_a_segment(value: dict[str, Any]) -> str:
    """Removes the second of three segments or more; the first list in the table that has as many loses one."""
    table = next(table for table in value["commitLogFileSegmentTable"].values() if len(table) > 2)
    second = sorted(table, key=int)[1]
    del table[second]
    return str(second)


def shorter(value: dict[str, Any]) -> int:
    first = value["commitLogFileSegmentTable"][f"broker-a/{QUEUE}"]["0"]
    first["size"] -= 10
    return int(first["size"])


def lost(directory: Path) -> int:
    (directory / "store" / METADATA).write_bytes(b"\0" * 100)
    (directory / "store" / f"{METADATA}.bak").write_bytes(b"{ not JSON")
    return len([path for path in (directory / "segments").rglob("*") if path.is_file()])


def gone(directory: Path) -> None:
    for path in (directory / "store" / "config").glob("tieredStoreMetadata.json*"):
        path.unlink()


def last_segment_cut(directory: Path) -> Path:
    path = segment_paths(directory, QUEUE, "COMMIT_LOG")[-1]
    os.truncate(path, records_of(path)[-1]["position"])
    return path


def index_entry(directory: Path) -> Path:
    path = segment_paths(directory, "rmq_sys_INDEX/0", "INDEX")[0]
    flip(path, path.stat().st_size - 4 - 9)  # the offset or the hash of the last entry, by release
    return path


def local_chain(directory: Path) -> Path:
    path = next(path for path in (directory / "store" / "tiered_index_file").iterdir() if path.is_file())
    flip(path, HEADER.sizeof() + 3)
    return path


DAMAGES = (
    Damage("body", body_flip, "RMQ-TI-RECORD", lambda d, record: {"position": record["position"], "length": record["size"], "count": 1}),
    Damage(
        "zeros in the log",
        zeros_in_the_log,
        "RMQ-TI-RECORD",
        lambda d, records: {"position": records[0]["position"], "count": len(records), "queue_offset": records[0]["queue_offset"]},
    ),
    Damage("PHYSICALOFFSET", physical_offset, "RMQ-TI-RECORD", lambda d, record: {"position": record["position"], "count": 1}),
    Damage(
        "zeros in the queue",
        lambda d: patch(first_units(d), 20 * 5, bytes(20 * 3)),
        "RMQ-TI-UNIT",
        lambda d, _: {"position": 100, "count": 3, "queue_offset": 5},
    ),
    Damage("offset of a unit", lambda d: flip(first_units(d), 20 * 4 + 7), "RMQ-TI-UNIT", lambda d, _: {"position": 80}),
    Damage("size of a unit", lambda d: flip(first_units(d), 20 * 4 + 11), "RMQ-TI-UNIT", lambda d, _: {"position": 80}),
    Damage("tags of a unit", lambda d: flip(first_units(d), 20 * 4 + 19), "RMQ-TI-UNIT", lambda d, _: {"position": 80}),
    Damage(
        "partial unit",
        lambda d: os.truncate(segment_paths(d, QUEUE, "CONSUME_QUEUE")[-1], 50),
        "RMQ-TI-UNIT",
        lambda d, _: {"position": 40, "length": 10},
    ),
    Damage("a segment is gone", lambda d: second_log_segment(d).unlink(), "RMQ-TI-MISSING", lambda d, _: {"found": 0}),
    Damage("the last segment is short", last_segment_cut, "RMQ-TI-MISSING", lambda d, path: {"found": path.stat().st_size}),
    Damage("messages of it", last_segment_cut, "RMQ-TI-UNIT", lambda d, path: {"count": 1}),
    Damage("metadata lacks a segment", lambda d: edited(d, without_a_segment), "RMQ-TI-UNLISTED", lambda d, _: {}, LONG),
    Damage(
        "metadata has a gap",
        lambda d: edited(d, without_a_segment),
        "RMQ-TI-METADATA",
        lambda d, second: {"expected": int(second)},
        LONG,
    ),
    Damage("metadata has a smaller size", lambda d: edited(d, shorter), "RMQ-TI-METADATA", lambda d, size: {"found": size}),
    Damage(
        "metadata lacks a topic",
        lambda d: edited(d, lambda value: value["topicMetadataTable"].pop("orders")),
        "RMQ-TI-METADATA",
        lambda d, _: {"topic": "orders", "queue_id": 0},
    ),
    Damage("metadata is garbage", lost, "RMQ-TI-METADATA", lambda d, files: {"found": files}),
    Damage("metadata is gone", gone, "RMQ-TI-METADATA", lambda d, _: {}),
    Damage("index entry", index_entry, "RMQ-TI-INDEX", lambda d, path: {}),
    Damage("chain", local_chain, "RMQ-TI-INDEX", lambda d, path: {"position": 28, "length": 4}, ("5.1.4-clean", "5.3.3-crash")),
    Damage(
        "foreign file",
        lambda d: (second_log_segment(d).parent / "notes.txt").write_text("a"),
        "RMQ-TI-UNLISTED",
        lambda d, _: {"position": None},
    ),
    Damage(
        "coda",
        lambda d: flip(second_log_segment(d), second_log_segment(d).stat().st_size - 12),
        "RMQ-TI-CODA",
        lambda d, _: {"length": 16},
        ("5.1.4-clean",),
    ),
)


@pytest.mark.parametrize(
    ("name", "damage"), [(name, damage) for damage in DAMAGES for name in damage.stores], ids=lambda one: getattr(one, "name", one)
)
def test_each_damage_has_its_code_and_place(name: str, damage: Damage, tmp_path: Path) -> None:
    unpacked(name, tmp_path)
    result = damage.inflict(tmp_path)
    found, summary = verified(tmp_path)
    wanted = damage.at(tmp_path, result)
    fitting = [one for one in found if one["code"] == damage.code and all(one[field] == value for field, value in wanted.items())]
    assert fitting, [(one["code"], one["file"], one["position"], one["message"]) for one in found]
    assert summary["errors"] or damage.code in ("RMQ-TI-UNLISTED", "RMQ-TI-CODA")


def test_the_part_by_itself(tmp_path: Path) -> None:
    unpacked("5.3.3-crash", tmp_path)
    body_flip(tmp_path)
    assert [one["code"] for one in verified(tmp_path, "--part", "tiered")[0]] == ["RMQ-TI-RECORD"]
    assert verified(tmp_path, "--part", "commitlog")[0] == []
    assert verified(tmp_path, "--part", "tiered", "--topic", "events")[0] == []


def test_names_of_segments(tmp_path: Path) -> None:
    unpacked("5.1.4-clean", tmp_path)
    names = [path.name for path in (tmp_path / "segments").rglob("*") if path.is_file()]
    assert len(names) > 30
    assert [segment_name(int(name[8:])) for name in names] == names
    assert [base_offset_of(name) for name in names] == [int(name[8:]) for name in names]
    assert base_offset_of("00000000" + names[0][8:]) is None
