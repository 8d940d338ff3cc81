"""Keys of messages through the index in RocksDB, in a store of a whole broker 5.5.1 that writes no index files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rocksdict import Options, Rdict

from tests.rocksdb.test_timeline import OPTIONS, unpacked
from tests.support.cli import rmqstore


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return unpacked("noindex", tmp_path)


def query(root: Path, *words: str) -> tuple[list[dict[str, Any]], str]:
    run = rmqstore("query", root, *OPTIONS, *words, "--format", "json")
    assert run.status in (0, 1) and not run.crashed, run.err
    return run.objects, run.err


def without_way(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(({**one, "way": None} for one in messages), key=lambda one: int(one["physical_offset"]))


def test_every_key_is_found_as_by_a_scan(root: Path) -> None:
    messages = [one for one in rmqstore("dump", root, *OPTIONS, "--format", "json").objects if one["type"] == "message"]
    keys = sorted({key for one in messages if one["keys"] for key in one["keys"].split()})
    assert len(keys) > 100
    for key in keys[::12]:
        found, said = query(root, "--key", key)
        assert {one["way"] for one in found} == {"index"}
        assert without_way(found) == without_way(query(root, "--key", key, "--scan")[0])
        assert "the index in RocksDB" in said


def test_a_unique_key_of_one_topic(root: Path) -> None:
    message = next(one for one in rmqstore("dump", root, *OPTIONS, "--format", "json").objects if one.get("topic") == "orders")
    [found], _ = query(root, "--unique-key", message["unique_key"], "--topic", "orders")
    assert (found["physical_offset"], found["way"]) == (message["physical_offset"], "index")


def test_what_came_after_the_last_entry_is_searched_in_the_log(root: Path) -> None:
    messages = [one for one in rmqstore("dump", root, *OPTIONS, "--format", "json").objects if one.get("topic") == "orders" and one["keys"]]
    before, after = messages[len(messages) // 2], messages[-1]
    raw = Options(raw_mode=True)
    families = {name: Options(raw_mode=True) for name in Rdict.list_cf(str(root / "rocksdbstore"), raw)}
    database = Rdict(str(root / "rocksdbstore"), raw, column_families=families)
    database[b"lastOffsetPy"] = before["physical_offset"].to_bytes(8, "big")
    for key in [key for key in database.keys() if key[-8:] == after["physical_offset"].to_bytes(8, "big")]:  # noqa: SIM118
        del database[key]
    database.flush()
    database.close()
    (root / "rocksdbstore" / "rocksdict-config.json").unlink(missing_ok=True)

    [found], said = query(root, "--unique-key", after["unique_key"], "--topic", "orders")

    assert (found["physical_offset"], found["way"]) == (after["physical_offset"], "scan")
    assert "which the index does not cover" in said


def test_no_message_with_the_key(root: Path) -> None:
    found, said = query(root, "--key", "no-such-key")
    assert found == []
    assert "the index in RocksDB" in said
