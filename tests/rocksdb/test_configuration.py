"""Topics, groups and consumer offsets in RocksDB: listed and verified as if they were in their JSON files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rmqstore.findings import Finding, Severity
from rmqstore.formats import rocksdb
from rmqstore.store.root import Store
from rmqstore.verify.context import Options
from rmqstore.verify.engine import Verification
from tests.rocksdb.bases import opened, unpack_database
from tests.support import stores
from tests.support.cli import rmqstore

BROKER = "broker-5.5.1-rocksdb-clean"
AREA = "topics, groups and offsets in RocksDB"
SEPARATE = ("topics", "subscriptionGroups", "consumerOffsets")


def _rows(command: str, root: Path, kind: str) -> list[dict[str, Any]]:
    done = rmqstore(command, root, "--format", "json")
    assert done.status == 0, done.err
    return [one for one in done.objects if one["type"] == kind]


def _verified(root: Path) -> tuple[list[Finding], list[str]]:
    verification = Verification(Store.open(root), Options())
    found = [one for one in verification.run() if one.severity is not Severity.INFO]
    return found, [one.area for one in verification.totals.not_checked]


@pytest.mark.parametrize("name", ["5.3.3-rocksdb", BROKER])
def test_queues_hold_the_messages_that_were_sent(name: str) -> None:
    root = stores.sample_store(name)
    sent: dict[tuple[str, int], int] = {}
    for line in stores.case(name).truth():
        # Delayed messages and transactions are in a queue of their own first.
        if line["topic"] not in ("delay", "tx") and line.get("queueId") is not None and line.get("queueOffset") is not None:
            key = line["topic"], line["queueId"]
            sent[key] = max(sent.get(key, 0), line["queueOffset"] + 1)

    listed = {(row["topic"], row["queue_id"]): row["max_offset"] for row in _rows("queues", root, "queue")}

    assert sent
    assert {key: end for key, end in sent.items() if listed.get(key, 0) < end} == {}
    assert all(row["problem"] is None and row["first_store_timestamp"] for row in _rows("queues", root, "queue"))


def test_topics_and_groups_of_a_broker() -> None:
    root = stores.sample_store(BROKER)

    topics = {row["topic"]: row for row in _rows("topics", root, "topic")}
    groups = _rows("groups", root, "group")

    assert topics["orders"]["configured"]
    assert topics["orders"]["messages"] > 0
    assert {row["topic"] for row in groups} <= topics.keys()
    assert all(0 <= row["offset"] <= row["max_offset"] for row in groups if row["max_offset"] is not None)
    assert all(row["note"] in (None, "the queue has no files") for row in groups)


def test_what_a_broker_wrote_has_no_finding() -> None:
    assert _verified(stores.sample_store(BROKER)) == ([], [])


def test_an_offset_beyond_the_end_of_its_queue(tmp_path: Path) -> None:
    root = stores.fresh_store(BROKER, tmp_path)
    with opened(root / "config" / "consumerOffsets") as families:
        key, value = next((key, value) for key, value in families["default"].items() if key.startswith(b"orders@"))
        offsets = json.loads(value)["offsetTable"]
        queue = min(offsets)
        families["default"][key] = json.dumps({"offsetTable": {**offsets, queue: 10**6}}).encode()

    (found,), _ = _verified(root)

    assert (found.code, found.topic, found.queue_id, found.found) == ("RMQ-CF-OFFSET", "orders", int(queue), 10**6)
    (row,) = (one for one in _rows("queues", root, "queue") if (one["topic"], one["queue_id"]) == ("orders", int(queue)))
    assert found.expected == row["max_offset"]


def test_an_entry_that_is_no_json(tmp_path: Path) -> None:
    root = stores.fresh_store(BROKER, tmp_path)
    with opened(root / "config" / "topics") as families:
        families["default"][b"strange"] = b"{"

    (found,), areas = _verified(root)

    assert (found.code, found.file) == ("RMQ-RD-OTHER", "config")
    assert "strange" in found.message
    assert areas == []


@pytest.mark.parametrize(("counter", "areas"), [(1, []), (10**6, [AREA])])
def test_a_newer_json_file_is_taken_over_by_a_start(counter: int, areas: list[str], tmp_path: Path) -> None:
    root = stores.fresh_store(BROKER, tmp_path)
    value = {"topicConfigTable": {"orders": {"topicName": "orders"}}, "dataVersion": {"counter": counter}}
    (root / "config" / "topics.json").write_text(json.dumps(value))

    _, found = _verified(root)

    assert found == areas
    assert rmqstore("topics", root).status == (4 if areas else 0)


def test_two_kinds_of_databases_need_a_setting(tmp_path: Path) -> None:
    root = stores.fresh_store(BROKER, tmp_path)
    unpack_database("rdb", tmp_path / "other")
    shutil.copytree(next((tmp_path / "other").rglob("CURRENT")).parent, root / "config" / "rdb")

    done = rmqstore("topics", root)

    assert done.status == 4
    assert "one of several" in done.err
    assert AREA in _verified(root)[1]
    assert rmqstore("topics", root, "--set", "configManagerVersion=v1").status == 0


def test_the_second_form_of_configuration(tmp_path: Path) -> None:
    """The same topics, groups and offsets in the form of `configManagerVersion=v2`."""
    root = stores.fresh_store(BROKER, tmp_path)
    before = {command: _rows(command, root, kind) for command, kind in (("topics", "topic"), ("groups", "group"))}
    entries: dict[bytes, bytes] = {}
    tables = {"topics": rocksdb.TOPICS, "subscriptionGroups": rocksdb.GROUPS}
    for name in SEPARATE:
        with opened(root / "config" / name) as families:
            for key, value in families["default"].items():
                if name in tables:
                    rest = rocksdb.CONFIG_NAME.build({"length": len(key), "name": key})
                    entries[_head(tables[name], rest)] = bytes([rocksdb.JSON_VALUE]) + value
                    continue
                topic, _, group = key.partition(b"@")
                for queue, offset in json.loads(value)["offsetTable"].items():
                    lengths = {"group_length": len(group), "topic_length": len(topic)}
                    rest = rocksdb.CONFIG_OFFSET.build({**lengths, "group": group, "topic": topic, "queue_id": int(queue)})
                    entries[_head(rocksdb.CONSUMER_OFFSETS, rest)] = offset.to_bytes(8, "big")
        shutil.rmtree(root / "config" / name)
    unpack_database("rdb", tmp_path / "other")
    shutil.copytree(next((tmp_path / "other").rglob("CURRENT")).parent, root / "config" / "rdb")
    with opened(root / "config" / "rdb") as families:
        for key in [key for key, _ in families["default"].items()]:
            del families["default"][key]
        for key, value in entries.items():
            families["default"][key] = value

    assert _rows("topics", root, "topic") == before["topics"]
    assert _rows("groups", root, "group") == before["groups"]
    assert _verified(root) == ([], [])


def _head(table: int, rest: bytes) -> bytes:
    return rocksdb.CONFIG_HEAD.build({"prefix": 1, "table": table, "record": rocksdb.DATA, "rest": rest})
