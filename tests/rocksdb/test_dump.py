"""`dump` of RocksDB databases: every entry of stores of real brokers, decoded by the use of the database."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rocksdict import Options, Rdict

from rmqstore.reading.rocksdb.timeline import timeline_of
from rmqstore.store.root import Store
from tests.rocksdb.test_timeline import OPTIONS, changed, unpacked
from tests.support.cli import rmqstore
from tests.support.stores import sample_store

DATABASES = Path(__file__).parent / "databases"


def entries(path: Path, *words: str) -> list[dict[str, Any]]:
    run = rmqstore("dump", path, *words, "--format", "json")
    assert run.status == 0, run.err
    assert {one["type"] for one in run.objects} == {"rocksdb_entry"}
    return run.objects


def of(found: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [one for one in found if one["entry"] == kind]


def test_the_index_has_an_entry_for_each_key_of_each_message(tmp_path: Path) -> None:
    root = unpacked("noindex", tmp_path)
    messages = [one for one in rmqstore("dump", root, *OPTIONS, "--format", "json").objects if one["type"] == "message"]
    expected = set()
    for one in messages:
        if one["unique_key"]:
            keys = {
                ("unique_key", None),
                *(("key", key) for key in (one["keys"] or "").split()),
                *([("tag", one["tags"])] if one["tags"] else []),
            }
            hour = one["store_timestamp"] // 3_600_000 * 3_600_000
            place = one["topic"], one["unique_key"], one["physical_offset"], hour, one["store_timestamp"]
            expected |= {(*place, *key) for key in keys}

    found = of(entries(root / "rocksdbstore"), "index_entry")

    names = ("topic", "unique_key", "physical_offset", "hour")
    said = {
        (*(one["key"][name] for name in names), one["value"]["store_timestamp"], one["key"]["kind"], one["key"]["key"]) for one in found
    }
    assert len(said) == len(found) > 600
    assert said == expected


def test_timed_messages_are_those_of_the_timeline(tmp_path: Path) -> None:
    root = unpacked("clean", tmp_path)
    found = of(entries(root / "rocksdbstore"), "timed_message")
    timeline = timeline_of(Store.open(root))
    assert timeline is not None and len(found) == len(timeline.entries) > 10
    for one, entry in zip(found, timeline.entries, strict=True):
        assert one["key"] == {"deliver_timestamp": entry.due, "unique_key": entry.unique_key}
        assert one["value"] == {"size": entry.size, "physical_offset": entry.physical_offset}
        assert (
            rmqstore("query", root, "--physical-offset", str(entry.physical_offset), "--format", "json").objects[0]["unique_key"]
            == entry.unique_key
        )


def test_entries_of_queues_are_those_of_the_part() -> None:
    root = sample_store("5.5.1-rocksdb")
    units = rmqstore("dump", root, "--part", "consumequeue", "--format", "json").objects
    found = entries(root, "--part", "rocksdb")
    said = Counter(
        (one["key"]["topic"], one["key"]["queue_id"], one["key"]["queue_offset"], one["value"]["physical_offset"], one["value"]["size"])
        for one in of(found, "queue_entry")
    )
    names = ("topic", "queue_id", "queue_offset", "physical_offset", "size")
    assert said == Counter(tuple(one[name] for name in names) for one in units if one["type"] == "unit")
    assert of(found, "queue_end") and not of(found, "other")


@pytest.mark.parametrize("name", ["5.3.3-rdb", "5.3.3-topics"])
def test_entries_of_the_configuration(name: str, tmp_path: Path) -> None:
    subprocess.run(["tar", "xJf", DATABASES / f"{name}.tar.xz", "-C", tmp_path], check=True)
    (database,) = {path.parent for path in tmp_path.rglob("CURRENT")}
    found = entries(database)
    assert of(found, "config") and not of(found, "other")
    topics = [one["value"] for one in found if isinstance(one["value"], dict) and "topicName" in one["value"]]
    assert {"orders"} < {one["topicName"] for one in topics}


def test_an_entry_of_another_form_is_shown(tmp_path: Path) -> None:
    root = unpacked("clean", tmp_path)
    changed(root, {b"\xff\x00": b"x"})
    assert of(entries(root / "rocksdbstore"), "other") == [
        {
            "type": "rocksdb_entry",
            "schema": 1,
            "file": "rocksdbstore",
            "family": "timer",
            "entry": "other",
            "key": {"hex": "ff00"},
            "value": "x",
        }
    ]


def test_a_database_that_is_open_is_refused(tmp_path: Path) -> None:
    root = unpacked("clean", tmp_path)
    raw = Options(raw_mode=True)
    families = {name: Options(raw_mode=True) for name in Rdict.list_cf(str(root / "rocksdbstore"), raw)}
    database = Rdict(str(root / "rocksdbstore"), raw, column_families=families)
    try:
        run = rmqstore("dump", root / "rocksdbstore", "--format", "json")
    finally:
        database.close()
    assert (run.status, run.objects) == (3, [])
    assert "open" in run.err


def test_a_damaged_database_is_an_error(tmp_path: Path) -> None:
    root = unpacked("clean", tmp_path)
    (root / "rocksdbstore" / "CURRENT").write_text("MANIFEST-999999\n")
    run = rmqstore("dump", root / "rocksdbstore", "--format", "json")
    assert run.status == 4 and "not opened by RocksDB" in run.err and not run.crashed
    assert run.objects == []
