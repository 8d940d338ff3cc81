"""`offsets` sets the offsets of one group, and nothing else; the messages from there on are those of the request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import Run, rmqstore
from tests.support.stores import content, fresh_store, sample_store

BASE = "broker-5.5.1-crash"


def offsets(root: Path, group: str) -> dict[tuple[str, int], dict[str, Any]]:
    rows = rmqstore("groups", root, "--group", group, "--format", "json").objects
    return {(row["topic"], row["queue_id"]): row for row in rows}


def busiest(root: Path) -> str:
    rows = rmqstore("groups", root, "--format", "json").objects
    return str(max(rows, key=lambda row: row["offset"])["group"])


def change(root: Path, group: str, *words: str | Path, status: int = 0) -> Run:
    run = rmqstore("offsets", root, "--group", group, *words, "--yes", "--format", "json", "--broker-version", "5.5.1")
    assert run.status == status, run.out + run.err
    return run


@pytest.fixture
def root(tmp_path: Path) -> Path:
    store = fresh_store(BASE, tmp_path)
    assert rmqstore("recover", store, "--yes", "--broker-version", "5.5.1").status == 0
    return store


def test_to_the_end_and_back(root: Path) -> None:
    group = busiest(root)
    before = content(root)

    change(root, group, "--to-time", "0")
    assert all(row["offset"] == row["min_offset"] for row in offsets(root, group).values())
    run = change(root, group, "--to-end")

    rows = offsets(root, group)
    assert rows and all(row["offset"] == row["max_offset"] and row["lag"] == 0 for row in rows.values())
    changed = {path for path, digest in content(root).items() if before.get(path) != digest and not path.startswith(".rmqstore")}
    assert changed <= {"config/consumerOffset.json"}
    assert any("are skipped" in note for note in run.objects[0]["notes"])


def test_to_a_time_is_the_first_message_since_then(root: Path) -> None:
    group = busiest(root)
    (topic, queue_id), row = max(offsets(root, group).items(), key=lambda item: item[1]["max_offset"])
    messages = rmqstore("query", root, "--queue", f"{topic}/{queue_id}@0..999999", "--format", "json").objects
    for message in messages[:: max(1, len(messages) // 4)]:
        change(root, group, "--topic", topic, "--to-time", str(message["store_timestamp"]))
        first = min(one["queue_offset"] for one in messages if one["store_timestamp"] >= message["store_timestamp"])
        assert offsets(root, group)[topic, queue_id]["offset"] == first
    change(root, group, "--to-time", "2100-01-01")
    assert offsets(root, group)[topic, queue_id]["offset"] == row["max_offset"]


def test_as_another_store_has_them(root: Path) -> None:
    group = busiest(root)
    wanted = {place: row["offset"] for place, row in offsets(root, group).items()}
    change(root, group, "--to-time", "0")

    change(root, group, "--from-store", sample_store(BASE))

    stored = {place: row["offset"] for place, row in offsets(sample_store(BASE), group).items()}
    now = {place: row["offset"] for place, row in offsets(root, group).items()}
    assert now == {place: min(stored.get(place, offset), offset) for place, offset in wanted.items()}


def test_a_change_can_be_undone(root: Path) -> None:
    group = busiest(root)
    path = root / "config" / "consumerOffset.json"
    before = path.read_bytes()
    run = change(root, group, "--to-time", "0")
    assert path.read_bytes() != before

    assert rmqstore("undo", root, run.objects[-1]["id"], "--yes").status == 0

    assert path.read_bytes() == before


def test_what_is_refused(root: Path) -> None:
    assert rmqstore("offsets", root, "--group", "none", "--to-end", "--yes").status == 3
    assert rmqstore("offsets", root, "--group", "none", "--yes").status == 2
    assert rmqstore("offsets", root, "--to-end", "--yes").status == 2
    assert rmqstore("offsets", root, "--group", "none", "--to-end", "--to-time", "0").status == 2
    assert rmqstore("offsets", sample_store("broker-5.5.1-rocksdb-clean"), "--group", "g", "--to-end", "--yes").status == 3
