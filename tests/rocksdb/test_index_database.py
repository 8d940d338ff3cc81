"""Keys of messages through the index in RocksDB, in a store of a whole broker 5.5.1 that writes no index files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rmqstore.errors import UnreadableError
from rmqstore.reading.rocksdb import indexdatabase
from rmqstore.reading.rocksdb.messagedatabase import message_database
from rmqstore.scan.entries import EntryHasher
from rmqstore.store.rocksdb.streams import pairs_of_database
from rmqstore.store.root import Store
from rmqstore.verify.index import database as checked
from tests.rocksdb.test_timeline import OPTIONS, changed, unpacked
from tests.support.cli import rmqstore


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return unpacked("noindex", tmp_path)


def entries(root: Path) -> list[tuple[bytes, bytes]]:
    """The entries of the index, without the two numbers."""
    found = message_database(Store.open(root), family="default")
    assert found is not None
    return [pair for _, pair in pairs_of_database(found, "default") if pair is not None and pair[0][8:9] == b"@"]


def findings(root: Path) -> list[tuple[int, str]]:
    run = rmqstore("verify", root, *OPTIONS, "--part", "index", "--format", "json", "--all")
    assert not run.crashed, run.err
    return [(one["offset"], one["message"]) for one in run.objects if one.get("code") == "RMQ-RD-INDEX"]


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
    gone = [key for key, _ in entries(root) if key[-8:] == after["physical_offset"].to_bytes(8, "big")]
    changed(root, {b"lastOffsetPy": before["physical_offset"].to_bytes(8, "big"), **dict.fromkeys(gone)}, "default")

    [found], said = query(root, "--unique-key", after["unique_key"], "--topic", "orders")

    assert (found["physical_offset"], found["way"]) == (after["physical_offset"], "scan")
    assert "which the index does not cover" in said


def test_no_message_with_the_key(root: Path) -> None:
    found, said = query(root, "--key", "no-such-key")
    assert found == []
    assert "the index in RocksDB" in said


@pytest.mark.parametrize("name", ["noindex", "clean", "crash"])
def test_the_index_of_a_broker_agrees_with_the_log(name: str, tmp_path: Path) -> None:
    """Also where RocksDB alone has an index: until 0.2.0 the missing index files were a finding."""
    root = unpacked(name, tmp_path)
    run = rmqstore("verify", root, *OPTIONS, "--format", "json", "--all")
    assert {one["code"] for one in run.objects if one["type"] == "finding"} <= {"RMQ-CL-PREALLOC", "RMQ-CP-INDEX", "RMQ-ST-ABORT"}
    assert run.objects[-1]["not_checked"] == []
    diagnosed = rmqstore("doctor", root, *OPTIONS, "--format", "json").objects
    assert "RMQ-IX-INCOMPLETE" not in {one.get("code") for one in diagnosed}
    assert name != "noindex" or {one["area"]: one["state"] for one in diagnosed[-1]["areas"]}["index"] == "ok"


def test_each_kind_of_contradiction_is_found(tmp_path: Path) -> None:
    root = unpacked("noindex", tmp_path)
    found = entries(root)
    gone, late, (moved, time), *_ = found[len(found) // 2 :: 7]
    other = moved[:-8] + (int.from_bytes(moved[-8:], "big") + 1).to_bytes(8, "big")
    changed(root, {gone[0]: None, late[0]: bytes(8), moved: None, other: time, b"short": b"x"}, "default")

    said = findings(root)

    places = {key: int.from_bytes(key[-8:], "big") for key in (gone[0], late[0], moved, other)}
    first = min(places[key] for key in (gone[0], late[0], moved))
    assert sorted(offset for offset, _ in said if offset is not None) == sorted([first, places[late[0]], places[other]])
    assert sum("3 keys of messages of the log are not in the index" in text for _, text in said) == 1
    assert sum("another form: 1" in text for _, text in said) == 1


def test_an_index_that_ends_after_the_log(tmp_path: Path) -> None:
    root = unpacked("noindex", tmp_path)
    changed(root, {b"lastOffsetPy": (1 << 40).to_bytes(8, "big")}, "default")
    [(offset, text)] = findings(root)
    assert offset == 1 << 40 and "is not indexed" in text


def test_entries_of_damaged_records_are_no_findings_of_the_index(tmp_path: Path) -> None:
    root = unpacked("noindex", tmp_path)
    message = next(one for one in rmqstore("dump", root, *OPTIONS, "--format", "json").objects if one.get("keys"))
    with min((root / "commitlog").iterdir()).open("r+b") as log:
        log.seek(message["physical_offset"])
        log.write(b"\xff" * 64)
    assert findings(root) == []


def test_an_index_with_too_many_entries_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked, "MOST_ENTRIES", 100)
    root = unpacked("noindex", tmp_path)
    last = rmqstore("verify", root, *OPTIONS, "--format", "json").objects[-1]
    assert [one["area"] for one in last["not_checked"]] == ["the index in rocksdbstore/"]


def test_entries_after_the_last_message_are_no_findings(tmp_path: Path) -> None:
    """A broker moves `lastOffsetPy` at the end of some batches only."""
    root = unpacked("noindex", tmp_path)
    middle = sorted(int.from_bytes(key[-8:], "big") for key, _ in entries(root))[200]
    changed(root, {b"lastOffsetPy": middle.to_bytes(8, "big")}, "default")
    assert findings(root) == []
    after = next(key for key, _ in entries(root) if int.from_bytes(key[-8:], "big") > middle)
    changed(root, {after: None}, "default")
    assert findings(root) == []


def test_a_damaged_table_of_the_index_ends_no_command(tmp_path: Path) -> None:
    root = unpacked("noindex", tmp_path)
    table = max((root / "rocksdbstore").glob("*.sst"), key=lambda path: path.stat().st_size)
    with table.open("r+b") as stream:
        stream.seek(3000)
        stream.write(b"\xff" * 400)
    run = rmqstore("verify", root, *OPTIONS, "--format", "json", "--all")
    assert run.status == 1 and not run.crashed, run.err
    codes = {one["code"] for one in run.objects if one["type"] == "finding"}
    assert {"RMQ-RD-BLOCK", "RMQ-IX-INCOMPLETE"} <= codes
    assert "rocksdbstore/" in {one["area"] for one in run.objects[-1]["not_checked"]}
    diagnosed = rmqstore("doctor", root, *OPTIONS, "--format", "json")
    assert diagnosed.status == 1 and "could not be read" not in diagnosed.objects[-1]["headline"]


@pytest.mark.parametrize("block", [64, 1000, 1 << 20])
def test_entries_are_read_in_blocks_of_any_size(root: Path, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = message_database(Store.open(root), family="default")
    assert found is not None
    monkeypatch.setattr(indexdatabase, "_BLOCK", block)
    keys, others = [], []
    for some in indexdatabase.index_entries(found, EntryHasher()):
        keys += [some.key(row) for row in range(len(some.rows))]
        others += [some.other] if some.other is not None else []
    assert keys == [key for key, _ in entries(root)]
    assert [key for key, _ in others] == [b"lastOffsetPy", b"lastStoreTimeStamp"]


def test_a_database_whose_reader_ends_early_is_no_shorter_index(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = message_database(Store.open(root), family="default")
    assert found is not None
    monkeypatch.setattr(indexdatabase, "END", b"!")
    with pytest.raises(UnreadableError, match="ended before it had read everything"):
        list(indexdatabase.index_entries(found, EntryHasher()))


def test_entries_but_for_some(root: Path) -> None:
    found = message_database(Store.open(root), family="default")
    assert found is not None
    for some in indexdatabase.index_entries(found, EntryHasher()):
        for left_out in (some.rows["at"] % 3 == 0, some.rows["at"] >= 0, some.rows["at"] < 0):
            rest = np.frombuffer(b"".join(piece.tobytes() for piece in some.without(left_out)), np.uint8)
            keys = [key for row, key in enumerate(map(some.key, range(len(some.rows)))) if not left_out[row]]
            rows, _, _ = EntryHasher().hashed(rest)
            assert [indexdatabase.Entries(rows, rest).key(row) for row in range(len(rows))] == keys


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6])
def test_a_damaged_block_is_no_end_of_the_entries(root: Path, share: float) -> None:
    found = message_database(Store.open(root), family="default")
    assert found is not None
    whole = len(entries(root))
    table = max(found.directory.glob("*.sst"), key=lambda path: path.stat().st_size)
    data = bytearray(table.read_bytes())
    data[int(len(data) * share) + 50] ^= 1
    table.write_bytes(data)
    read = []
    with pytest.raises(UnreadableError, match="ended before"):
        read += [pair for _, pair in pairs_of_database(found, "default")]
    assert len(read) < whole
