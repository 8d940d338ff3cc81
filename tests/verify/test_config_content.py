"""Entries of topics, groups and offsets that do not fit each other, or the queues, in the store of a whole broker."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmqstore.store import fastjson
from tests.support.cli import rmqstore
from tests.support.stores import case, cases, fresh_store, sample_store

BROKER = "broker-5.3.3-cqext-crash"
CODES = {"RMQ-CF-QUEUES", "RMQ-CF-GROUP", "RMQ-CF-TOPIC", "RMQ-CF-EXPIRED", "RMQ-CF-MAPPING", "RMQ-CF-ORDER", "RMQ-CF-ORPHAN"}
Change = Callable[[dict[str, Any]], None]


def changed(root: Path, name: str, change: Change) -> None:
    """Rewrite a file of the configuration, and its `.bak` with it."""
    path = root / "config" / name
    content = fastjson.parse(path.read_bytes()).value
    change(content)
    for one in (path, path.with_name(f"{name}.bak")):
        one.write_text(json.dumps(content))


def content_of(root: Path, name: str) -> dict[str, Any]:
    return dict(fastjson.parse((root / "config" / name).read_bytes()).value)


def findings(root: Path, name: str = BROKER) -> list[dict[str, Any]]:
    run = rmqstore("verify", root, "--part", "config", "--format", "json", *case(name).set_options(root))
    return [one for one in run.objects if one.get("code") in CODES]


def doctor(root: Path) -> dict[str, Any]:
    run = rmqstore("doctor", root, "--format", "json", *case(BROKER).set_options(root))
    return next(one for one in run.objects if one["type"] == "doctor")


@pytest.mark.parametrize("name", [one.name for one in cases() if one.is_broker])
def test_no_finding_in_what_brokers_wrote(name: str) -> None:
    assert findings(sample_store(name), name) == []


def test_queues_that_no_client_can_pull(tmp_path: Path) -> None:
    root = fresh_store(BROKER, tmp_path)
    queues = {path.parent.name: path for path in sorted((root / "consumequeue").glob("*/1"))}
    topic = next(one for one in ("orders", *queues) if one in queues)

    changed(root, "topics.json", lambda content: content["topicConfigTable"][topic].update(readQueueNums=1))
    found = findings(root)
    assert {(one["code"], one["topic"]) for one in found} == {("RMQ-CF-QUEUES", topic)}
    assert found[0]["queue_id"] == 1
    assert (found[0]["expected"], found[0]["found"]) == (2, 1)
    verdict = doctor(root)
    assert f"of {topic} cannot be consumed: readQueueNums is too small" in verdict["headline"] + json.dumps(verdict["areas"])


def test_queues_that_every_group_has_consumed(tmp_path: Path) -> None:
    """After an operator reduced the queues of a topic, nothing is lost as far as groups have read the others."""
    root = fresh_store(BROKER, tmp_path)
    rows = rmqstore("queues", root, "--topic", "orders", "--format", "json", *case(BROKER).set_options(root)).objects
    ends = {str(one["queue_id"]): one["max_offset"] for one in rows if one.get("type") == "queue"}
    assert len(ends) > 1
    changed(root, "topics.json", lambda content: content["topicConfigTable"]["orders"].update(readQueueNums=1))

    def everything(content: dict[str, Any]) -> None:
        for key in content["offsetTable"]:
            if key.startswith("orders@"):
                content["offsetTable"][key] = dict(ends)

    changed(root, "consumerOffset.json", everything)
    assert "readQueueNums" not in json.dumps(doctor(root)["areas"])


def test_a_group_without_a_configuration(tmp_path: Path) -> None:
    root = fresh_store(BROKER, tmp_path)
    groups = content_of(root, "subscriptionGroup.json")["subscriptionGroupTable"]
    group = next(key.partition("@")[2] for key in content_of(root, "consumerOffset.json")["offsetTable"] if key.partition("@")[2] in groups)
    changed(root, "subscriptionGroup.json", lambda content: content["subscriptionGroupTable"].pop(group))
    found = [one for one in findings(root) if one["code"] != "RMQ-CF-ORPHAN"]  # entries of other files name the group, too
    assert [(one["code"], one["found"]) for one in found] == [("RMQ-CF-GROUP", group)]


def test_offsets_of_a_topic_that_does_not_exist(tmp_path: Path) -> None:
    root = fresh_store(BROKER, tmp_path)
    key = next(iter(content_of(root, "consumerOffset.json")["offsetTable"]))
    group = key.partition("@")[2]
    changed(root, "consumerOffset.json", lambda content: content["offsetTable"].update({f"nowhere@{group}": {"0": 3}}))
    assert [(one["code"], one["topic"]) for one in findings(root)] == [("RMQ-CF-TOPIC", "nowhere")]


def test_a_group_that_stopped_before_the_first_message(tmp_path: Path) -> None:
    name = "4.9.8-headless"
    root = fresh_store(name, tmp_path)
    queue = next(path for path in sorted((root / "consumequeue").rglob("0*")) if path.is_file() and int(path.name))
    topic, queue_id = queue.parent.parent.name, queue.parent.name
    begin = min(int(path.name) for path in queue.parent.iterdir()) // 20
    assert begin > 0
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": {f"{topic}@late": {queue_id: begin - 1}}}))
    found = [one for one in findings(root, name) if one["code"] == "RMQ-CF-EXPIRED"]
    assert [(one["topic"], one["queue_id"], one["expected"], one["found"]) for one in found] == [(topic, int(queue_id), begin, begin - 1)]


# Static topics, ordered pops, filters, request modes


def of_static(content: dict[str, Any]) -> dict[str, Any]:
    mapping: dict[str, Any] = content["topicQueueMappingInfoMap"]["static"]
    return mapping


def second_place(content: dict[str, Any], **fields: int) -> None:
    place = {"bname": "broker-b", "gen": 1, "logicOffset": 7, "queueId": 0, "startOffset": 0, "endOffset": -1}
    of_static(content)["hostedQueues"]["1"][0]["endOffset"] = 7
    of_static(content)["hostedQueues"]["1"].append({**place, **fields})


MAPPINGS: dict[str, tuple[Change, str | None]] = {
    "a second place": (second_place, None),
    "the same generation": (lambda content: second_place(content, gen=0), "generations"),
    "overlapping offsets": (lambda content: second_place(content, logicOffset=6), "overlap"),
    "an end before the start": (lambda content: of_static(content)["hostedQueues"]["1"][0].update(startOffset=9, endOffset=3), "9 to 3"),
    "a queue of no topic": (lambda content: of_static(content)["hostedQueues"]["1"][0].update(queueId=99), "queue 99"),
    "no place": (lambda content: of_static(content)["hostedQueues"].update({"1": []}), "no place"),
    "too few queues": (lambda content: of_static(content).update(totalQueues=1), "has 1 queues"),
    "another topic": (lambda content: content["topicQueueMappingInfoMap"].update(nowhere=of_static(content)), "not in topics.json"),
}


@pytest.mark.parametrize("what", MAPPINGS)
def test_a_static_topic(what: str, tmp_path: Path) -> None:
    root = fresh_store(BROKER, tmp_path)
    change, text = MAPPINGS[what]
    changed(root, "topicQueueMapping.json", change)
    found = findings(root)
    assert {one["code"] for one in found} == ({"RMQ-CF-MAPPING"} if text else set())
    assert text is None or all(text in one["message"] for one in found)


def test_a_popped_message_after_the_end_of_its_queue(tmp_path: Path) -> None:
    root = fresh_store(BROKER, tmp_path)
    table = content_of(root, "consumerOrderInfo.json")["table"]
    key, queues = next(iter(table.items()))
    queue = next(iter(queues))
    changed(root, "consumerOrderInfo.json", lambda content: content["table"][key][queue].update(o=[3, 1 << 40]))
    (found,) = findings(root)
    assert (found["code"], found["topic"], found["queue_id"], found["found"]) == (
        "RMQ-CF-ORDER",
        key.partition("@")[0],
        int(queue),
        3 + (1 << 40),
    )


@pytest.mark.parametrize("name", ["consumerFilter.json", "consumerOrderInfo.json", "messageRequestMode.json"])
@pytest.mark.parametrize("gone", ["topic", "group"])
def test_entries_of_what_does_not_exist(name: str, gone: str, tmp_path: Path) -> None:
    root = fresh_store(BROKER, tmp_path)
    topic, group = ("nowhere", "g_orders") if gone == "topic" else ("orders", "g_nowhere")

    def add(content: dict[str, Any]) -> None:
        if name == "consumerOrderInfo.json":
            content["table"][f"{topic}@{group}"] = {"0": {"o": [0]}}
        elif name == "consumerFilter.json":
            content["filterDataByTopic"][topic] = {"topic": topic, "groupFilterData": {group: {"expression": "a > 1"}}}
        else:
            content["messageRequestModeMap"][topic] = {group: {"mode": "POP"}}

    changed(root, name, add)
    (found,) = findings(root)
    assert (found["code"], found["topic"], found["file"]) == ("RMQ-CF-ORPHAN", topic, f"config/{name}")
    assert ("nowhere" if gone == "topic" else "g_nowhere") in found["message"]
