"""Tables of groups, delay levels and the checkpoint: as the files say, on stores of brokers, and with hostile content."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rmqstore.pipeline.job import StoreAt
from tests.pipeline.reading import at_sample, rows_of
from tests.support.builder import StoreBuilder
from tests.support.cli import rmqstore
from tests.support.stores import case, sample_store

BROKERS = ("broker-5.5.1-crash", "broker-5.3.3-cqext-crash", "broker-5.5.1-rocksdb-clean")


def configured(root: Path, name: str) -> dict[str, Any]:
    """A configuration file as a start takes it."""
    path = root / "config" / name
    text = (path if path.exists() else path.with_name(f"{name}.bak")).read_text()
    # fastjson writes numbers as keys without quotes.
    value: dict[str, Any] = json.loads(re.sub(r"([{,\n]\s*)(\d+)\s*:", r'\1"\2":', text))
    return value


def listed(name: str, sample: str, root: Path) -> list[dict[str, Any]]:
    run = rmqstore(name, root, "--format", "json", *case(sample).set_options(root))
    assert run.status == 0, run.err
    return run.objects


@pytest.mark.parametrize("name", BROKERS)
def test_groups_are_those_of_configuration_and_offsets(name: str) -> None:
    root = sample_store(name)
    found = {row["group"]: row for row in rows_of("consumer_groups", at_sample(case(name), root))}

    counts: dict[str, int] = {}
    for one in listed("groups", name, root):
        if one["type"] == "group":
            counts[one["group"]] = counts.get(one["group"], 0) + 1
    assert {group: row["offsets"] for group, row in found.items() if row["offsets"]} == counts != {}
    if "rocksdb" not in name:
        groups = configured(root, "subscriptionGroup.json")["subscriptionGroupTable"]
        assert {group for group, row in found.items() if row["configured"]} == set(groups)
        assert {group: row["retry_max_times"] for group, row in found.items() if row["configured"]} == {
            group: config["retryMaxTimes"] for group, config in groups.items()
        }
    assert any(row["configured"] and row["consume_enable"] for row in found.values())


@pytest.mark.parametrize("name", BROKERS)
def test_delay_levels_are_those_of_offsets_and_queues(name: str) -> None:
    root = sample_store(name)
    at = at_sample(case(name), root)
    found = {row["level"]: row for row in rows_of("delay_offsets", at)}

    offsets = configured(root, "delayOffset.json")["offsetTable"]
    queues = {row["queue_id"]: row for row in rows_of("queues", at) if row["topic"] == "SCHEDULE_TOPIC_XXXX"}
    assert set(found) == {*map(int, offsets), *(queue + 1 for queue in queues)} != set()
    for level, row in found.items():
        assert row["offset"] == offsets.get(str(level))
        if level - 1 in queues:
            ends = queues[level - 1]["min_offset"], queues[level - 1]["max_offset"]
            assert (row["min_offset"], row["max_offset"]) == ends
            assert row["waiting"] == ends[1] - (row["offset"] or 0)
    assert found[1]["delay"] == 1000


@pytest.mark.parametrize("name", BROKERS)
def test_the_checkpoint_is_that_of_dump(name: str) -> None:
    root = sample_store(name)
    run = rmqstore("dump", root, "--part", "checkpoint", "--format", "json")
    (row,) = rows_of("checkpoint", at_sample(case(name), root))

    assert row == {key: run.objects[0][key] for key in row}
    assert row["physic_msg_timestamp"] > 0


def test_a_store_without_these_files_has_no_rows(tmp_path: Path) -> None:
    root = StoreBuilder(tmp_path / "store").message().build()
    (root / "checkpoint").unlink()
    at = StoreAt.of(root)

    assert [rows_of(name, at) for name in ("consumer_groups", "delay_offsets", "checkpoint")] == [[], [], []]


ODD = ("many", None, 1.5, True, [], {}, 1 << 63, -(1 << 70))


@pytest.mark.parametrize("odd", ODD)
def test_odd_values_of_the_configuration_are_no_numbers(odd: object, tmp_path: Path) -> None:
    root = StoreBuilder(tmp_path / "store").message("TopicA").build()
    (root / "config").mkdir(exist_ok=True)
    tables = {
        "topics.json": {"topicConfigTable": {"TopicA": {"topicName": "TopicA", "readQueueNums": odd, "writeQueueNums": 4, "perm": odd}}},
        "subscriptionGroup.json": {"subscriptionGroupTable": {"g": {"retryQueueNums": odd, "consumeEnable": odd}, "h": odd}},
    }
    for name, content in tables.items():
        (root / "config" / name).write_text(json.dumps(content))
    at = StoreAt.of(root)

    topic = next(row for row in rows_of("topics", at) if row["topic"] == "TopicA")
    assert (topic["read_queues"], topic["write_queues"]) == (None, 4)
    one, other = rows_of("consumer_groups", at)
    assert (one["retry_queues"], one["consume_enable"]) == (None, True if odd is True else None)
    assert other == {**dict.fromkeys(other), "group": "h", "configured": True, "offsets": 0}
