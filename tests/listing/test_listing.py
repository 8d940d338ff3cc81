"""`queues`, `topics` and `groups` against the records of the log and the configuration that brokers wrote."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.support.builder import FIRST_TIMESTAMP, StoreBuilder
from tests.support.cli import rmqstore
from tests.support.stores import fresh_store, sample_store

CLEAN = ["4.9.8-plain", "5.3.3-plain", "5.1.4-batchcq", "5.5.1-batchcq", "4.9.8-schedule", "5.5.1-longtopic"]


def listed(command: str, root: Path, *options: str | int) -> list[dict[str, Any]]:
    run = rmqstore(command, root, "--format", "json", *map(str, options))
    assert run.status == 0, run.err
    return run.objects


@pytest.mark.parametrize("name", CLEAN)
def test_queues_are_those_of_the_log(name: str) -> None:
    root = sample_store(name)
    records: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for one in listed("dump", root):
        if one["type"] == "message":
            records[one["topic"], one["queue_id"]].append(one)

    queues = {(one["topic"], one["queue_id"]): one for one in listed("queues", root)}

    assert queues
    for key, queue in queues.items():
        written = records[key]
        assert queue["min_offset"] == min(one["queue_offset"] for one in written)
        assert queue["entries"] == queue["max_offset"] - queue["min_offset"]
        if queue["kind"] == "simple":
            assert queue["max_offset"] == max(one["queue_offset"] for one in written) + 1
            assert queue["entries"] == len(written)
        assert queue["first_store_timestamp"] == written[0]["store_timestamp"]
        assert queue["last_store_timestamp"] == written[-1]["store_timestamp"]


def test_queues_are_chosen_and_ordered(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path)
    for number in range(9):
        builder.message("TopicA" if number < 6 else "TopicB", queue_id=number % 3 % 2)
    root = builder.build()

    def keys(*options: str | int) -> list[tuple[str, int]]:
        return [(one["topic"], one["queue_id"]) for one in listed("queues", root, *options)]

    assert keys() == [("TopicA", 0), ("TopicA", 1), ("TopicB", 0), ("TopicB", 1)]
    assert keys("--topic", "TopicB") == [("TopicB", 0), ("TopicB", 1)]
    assert keys("--queue", 1) == [("TopicA", 1), ("TopicB", 1)]
    assert keys("--sort", "entries", "--limit", 2) == [("TopicA", 0), ("TopicA", 1)]
    assert keys("--sort", "last", "--limit", 1) == [("TopicB", 0)]


def test_a_queue_whose_first_records_expired(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path, log_file_size=4096)
    for _ in range(60):
        builder.message("TopicA", bytes(200))
    root = builder.build()
    min((root / "commitlog").iterdir()).unlink()

    (queue,) = listed("queues", root)

    assert (queue["min_offset"], queue["max_offset"], queue["first_store_timestamp"]) == (0, 60, None)
    assert queue["last_store_timestamp"] > FIRST_TIMESTAMP


def test_topics_are_those_of_the_configuration_and_of_the_queues() -> None:
    root = sample_store("broker-5.5.1-crash")
    queues = listed("queues", root)
    configured = json.loads((root / "config" / "topics.json").read_text())["topicConfigTable"]

    topics = {one["topic"]: one for one in listed("topics", root)}

    assert set(topics) == {*configured, *(one["topic"] for one in queues)}
    for name, topic in topics.items():
        assert topic["configured"] == (name in configured)
        assert topic["messages"] == sum(one["entries"] for one in queues if one["topic"] == name)
        assert topic["queues"] == sum(one["topic"] == name for one in queues)
        if topic["configured"]:
            assert topic["read_queues"] == configured[name]["readQueueNums"]
            assert topic["permissions"] == {6: "rw", 4: "r", 2: "w", 7: "rwx", 1: "x", 0: "none"}[configured[name]["perm"]]
    assert {one["message_type"] for one in topics.values()} > {None, "FIFO"}


def test_groups_have_the_offsets_that_the_broker_stored() -> None:
    root = sample_store("broker-5.5.1-crash")
    queues = {(one["topic"], one["queue_id"]): one for one in listed("queues", root)}

    groups = listed("groups", root)

    assert groups
    assert groups == sorted(groups, key=lambda one: (one["group"], one["topic"], one["queue_id"]))
    for one in groups:
        queue = queues.get((one["topic"], one["queue_id"]))
        assert (one["max_offset"] is None) == (queue is None)
        if queue is not None:
            assert one["lag"] == max(0, queue["max_offset"] - one["offset"])
            assert one["next"] == (one["offset"] if one["lag"] else None)
    name = groups[0]["group"]
    assert listed("groups", root, "--group", name) == [one for one in groups if one["group"] == name]


def test_offsets_before_and_after_a_queue(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path, queue_file_size=200)
    for _ in range(25):
        builder.message("TopicA")
    root = builder.build()
    (root / "consumequeue/TopicA/0/00000000000000000000").unlink()
    (root / "config").mkdir(exist_ok=True)
    table = {"TopicA@early": {"0": 4}, "TopicA@late": {"0": 30}, "TopicA@ready": {"0": 25}, "Gone@early": {"2": 7}}
    (root / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": table}))

    gone, early, late, ready = listed("groups", root)

    assert (gone["topic"], gone["lag"], gone["note"]) == ("Gone", None, "the queue has no files")
    assert (early["min_offset"], early["lag"], early["next"], early["skipped"]) == (10, 15, 10, 6)
    assert (late["lag"], late["next"]) == (0, None)
    assert late["note"].startswith("beyond the end by 5")
    assert (ready["lag"], ready["next"], ready["skipped"], ready["note"]) == (0, None, 0, None)


@pytest.mark.parametrize("command", ["queues", "topics", "groups"])
def test_a_database_that_cannot_be_read_is_refused(command: str, tmp_path: Path) -> None:
    root = fresh_store("broker-5.5.1-rocksdb-clean", tmp_path)
    for current in ("consumequeue", "config/topics", "config/consumerOffsets"):
        (root / current / "CURRENT").write_text("MANIFEST-999999\n")
    run = rmqstore(command, root)
    assert run.status == 4
    assert "RocksDB" in run.err


def test_damaged_configuration_is_refused_and_a_backup_is_used(tmp_path: Path) -> None:
    root = fresh_store("broker-5.5.1-crash", tmp_path)
    path = root / "config" / "consumerOffset.json"
    before = listed("groups", root)
    path.with_name("consumerOffset.json.bak").write_bytes(path.read_bytes())
    path.write_bytes(b"{")
    assert listed("groups", root) == before
    path.with_name("consumerOffset.json.bak").unlink()
    run = rmqstore("groups", root)
    assert run.status == 4
    assert "consumerOffset.json" in run.err


@pytest.mark.parametrize("command", ["queues", "topics", "groups"])
def test_a_table_for_people(command: str) -> None:
    run = rmqstore(command, sample_store("broker-5.5.1-crash"))
    assert run.status == 0
    count = len(listed(command, sample_store("broker-5.5.1-crash")))
    verdict, _, *lines, _, step = run.out.splitlines()
    assert verdict.startswith(f"LISTED {count} ")
    assert (len(lines), step) == (count, "Nothing to do.")
