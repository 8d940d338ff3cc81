"""Popped messages in `kvStore`, of whole brokers with popConsumerKVServiceEnable: one was stopped, the other killed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rocksdict import Options, Rdict

from rmqstore.formats.naming import offset_to_file_name
from tests.rocksdb.test_timeline import unpacked
from tests.support.cli import rmqstore
from tests.verify.one_check import patch

Key = tuple[str, str, int, int]
"""Group, topic, queue id, queue offset."""


@pytest.fixture(params=["5.3.3-popped-stopped", "5.5.1-popped-killed"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    release, _, name = request.param.rpartition("-")
    return unpacked(name, tmp_path, release)


def popped(root: Path) -> dict[Key, dict[str, Any]]:
    """The values of the entries as `dump` shows them."""
    values = [one["value"] for one in rmqstore("dump", root / "kvStore", "--format", "json").objects]
    return {(one["groupId"], one["topicId"], one["queueId"], one["offset"]): one for one in values}


def findings(root: Path, command: str = "verify", *words: str) -> list[dict[str, Any]]:
    run = rmqstore(command, root, "--format", "json", *words)
    assert not run.crashed, run.err
    return [one for one in run.objects if one.get("code") == "RMQ-RD-POP"]


def not_checked(root: Path) -> list[str]:
    totals = rmqstore("verify", root, "--format", "json").objects[-1]
    return [one["reason"] for one in totals["not_checked"] if one["area"] == "kvStore/"]


def effects(root: Path) -> list[str]:
    areas = next(one["areas"] for one in rmqstore("doctor", root, "--format", "json").objects if "areas" in one)
    return [area["reason"] for area in areas]


def messages(root: Path, topic: str) -> list[dict[str, Any]]:
    return [one for one in rmqstore("dump", root, "--topic", topic, "--format", "json").objects if one["type"] == "message"]


def written(root: Path, changes: dict[bytes, bytes]) -> None:
    raw = Options(raw_mode=True)
    families = {name: Options(raw_mode=True) for name in Rdict.list_cf(str(root / "kvStore"), raw)}
    database = Rdict(str(root / "kvStore"), raw, column_families=families)
    family = database.get_column_family("popState")
    for key, value in changes.items():
        family[key] = value
    del family
    database.close()
    (root / "kvStore" / "rocksdict-config.json").unlink()


def test_pending_lists_what_was_popped_and_not_acknowledged(root: Path) -> None:
    rows = [one for one in rmqstore("pending", root, "--format", "json").objects if one.get("kind") == "pop"]
    listed = {(row["group"], row["topic"], row["queue_id"], offset): row for row in rows for offset in row["offsets"]}
    stored = popped(root)
    assert listed.keys() == stored.keys()
    assert {topic for _, topic, _, _ in stored} == {"orders", "bills", "%RETRY%g_b_bills"}
    places = {(one["topic"], one["queue_id"], one["queue_offset"]): one for topic in ("orders", "bills") for one in messages(root, topic)}
    for key, row in listed.items():
        assert (row["time"], row["due"]) == (stored[key]["popTime"], stored[key]["popTime"] + stored[key]["invisibleTime"])
        assert row["problem"] is None
        first = places.get((row["topic"], row["queue_id"], min(row["offsets"])))
        assert first is None or row["physical_offset"] == first["physical_offset"]


def test_what_a_broker_wrote_is_no_contradiction(root: Path) -> None:
    assert findings(root) == [] and findings(root, "doctor") == []
    crashed = (root / "abort").exists()
    assert [("crash" in reason) for reason in not_checked(root)] == ([True] if crashed else [])


def test_messages_after_the_end_of_their_queues(root: Path) -> None:
    cut = messages(root, "orders")[20]["physical_offset"]
    left = [one["queue_id"] for one in messages(root, "orders")[:20]]
    lost = [key for key in popped(root) if key[1] != "orders" or key[3] >= left.count(key[2])]
    assert len(lost) > 40
    for number in range(2):
        path = root / "commitlog" / offset_to_file_name(number << 20)
        if path.exists():
            start = max(cut - (number << 20), 0)
            patch(path, start, bytes((1 << 20) - start))

    told = findings(root, "doctor")

    assert sum(one["count"] for one in told) == len(lost)
    assert any("popped messages" in text for text in effects(root))
    run = rmqstore("recover", root, "--yes", "--format", "json")
    assert run.status in (0, 1), run.err
    (root / "abort").unlink(missing_ok=True)
    told = findings(root)
    assert sum(one["count"] for one in told) == len(lost)
    assert all(one["found"] >= one["expected"] for one in told)
    rows = [one for one in rmqstore("pending", root, "--format", "json").objects if one.get("kind") == "pop"]
    assert {row["problem"] for row in rows} == {None, "the queue does not hold the message"}


def renamed(value: dict[str, Any]) -> bytes:
    return json.dumps({**value, "topicId": "bills" if value["topicId"] == "orders" else "orders"}).encode()


ODD: dict[str, tuple[Callable[[dict[str, Any]], bytes], str]] = {
    "another message": (renamed, "names another message than their value: 1"),
    "no JSON": (lambda value: b"{", "another form: 1"),
    "a list": (lambda value: b"[]", "another form: 1"),
    "no offset": (lambda value: json.dumps({**value, "offset": "1"}).encode(), "another form: 1"),
    "nothing": (lambda value: b"", "another form: 1"),
}


@pytest.mark.parametrize("name", ODD)
def test_an_entry_of_another_form(root: Path, name: str) -> None:
    change, text = ODD[name]
    one = next(one for one in rmqstore("dump", root / "kvStore", "--format", "json").objects)
    key, value = one["key"], one["value"]
    stored = b"%b%b@%b@%b@%b" % (
        key["visibility_timestamp"].to_bytes(8, "big"),
        key["group"].encode(),
        key["topic"].encode(),
        key["queue_id"].to_bytes(4, "big"),
        key["queue_offset"].to_bytes(8, "big"),
    )
    written(root, {stored: change(value)})
    assert [text in found["message"] for found in findings(root)] == [True]
    assert not rmqstore("pending", root).crashed and not rmqstore("doctor", root).crashed


def test_a_database_with_a_damaged_table_is_named_as_not_read(tmp_path: Path) -> None:
    root = unpacked("stopped", tmp_path, "5.3.3-popped")
    for path in (root / "kvStore").glob("*.sst"):
        data = bytearray(path.read_bytes())
        data[100] ^= 4
        path.write_bytes(data)
    assert findings(root) == [] and len(not_checked(root)) == 1
    assert any("kvStore holds data, which was not read" in text for text in effects(root))


def test_a_database_that_cannot_be_read_is_named_as_not_checked(root: Path) -> None:
    next((root / "kvStore").glob("MANIFEST-*")).unlink()
    assert findings(root) == []
    assert len(not_checked(root)) == 1
    assert rmqstore("pending", root).status in (0, 1)
    assert any("kvStore holds data, which was not read" in text for text in effects(root))
