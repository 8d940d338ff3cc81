"""Configuration files as a broker judges them (fact sheet timer §3; seen on brokers: observed §1, §2)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqstore.doctor.verdict import Class
from rmqstore.findings import Severity
from rmqstore.store.brokerconf import BrokerConfig
from rmqstore.store.root import Store
from rmqstore.verify.parts import config, confignames
from tests.doctor.diagnosing import diagnosis_of
from tests.support import stores
from tests.support.builder import StoreBuilder
from tests.verify.one_check import codes, errors, only, run

TOPICS = '{"dataVersion":{"counter":1,"timestamp":1},"topicConfigTable":{"orders":{"topicName":"orders","readQueueNums":4}}}'
OFFSETS = '{"offsetTable":{"orders@g1":{0:3,1:2},"%RETRY%g1@g1":{0:0}}}'


def given_store(root: Path, **files: str) -> Path:
    """Three messages in orders/0, two in orders/1, a whole configuration; `files` replace texts, `__` stands for the dot."""
    builder = StoreBuilder(root)
    for queue_id in (0, 1, 0, 1, 0):
        builder.message("orders", queue_id=queue_id)
    builder.build()
    directory = root / "config"
    directory.mkdir()
    texts = {
        "topics__json": TOPICS,
        "consumerOffset__json": OFFSETS,
        "subscriptionGroup__json": '{"subscriptionGroupTable":{"TOOLS_CONSUMER":{}}}',
        **files,
    }
    for name, text in texts.items():
        (directory / name.replace("__", ".")).write_text(text)
    return directory


def test_a_whole_configuration_gives_nothing(tmp_path: Path) -> None:
    given_store(tmp_path, topics__json__bak=TOPICS)
    assert run(config, tmp_path) == []


def test_a_store_without_configuration_gives_nothing(tmp_path: Path) -> None:
    StoreBuilder(tmp_path).message("orders").build()
    assert run(config, tmp_path) == []


# One file


@pytest.mark.parametrize(("name", "table"), [("topics", "topicConfigTable"), ("subscriptionGroup", "subscriptionGroupTable")])
def test_a_table_that_is_never_empty(name: str, table: str, tmp_path: Path) -> None:
    given_store(tmp_path, **{f"{name}__json": json.dumps({table: {}})})
    found = only(run(config, tmp_path), "RMQ-CF-EMPTY")
    assert (found.file, found.severity) == (f"config/{name}.json", Severity.ERROR)


@pytest.mark.parametrize("text", [TOPICS[:50], "\0" * 40, TOPICS + "}", TOPICS + " x", "7", '"text"', "garbage"])
def test_a_file_that_no_release_can_parse(text: str, tmp_path: Path) -> None:
    given_store(tmp_path, topics__json=text)
    found = only(run(config, tmp_path), "RMQ-CF-JSON")
    assert (found.file, found.severity) == ("config/topics.json", Severity.ERROR)


@pytest.mark.parametrize("text", [TOPICS + "\0\0", "\ufeff" + TOPICS, TOPICS.replace("}}}", "},}}"), "/* x */" + TOPICS])
def test_what_every_release_accepts(text: str, tmp_path: Path) -> None:
    given_store(tmp_path, topics__json=text)
    assert run(config, tmp_path) == []


@pytest.mark.parametrize("text", ["", "  \n", "null", "[]"])
def test_a_file_that_holds_nothing(text: str, tmp_path: Path) -> None:
    given_store(tmp_path, subscriptionGroup__json=text)
    assert only(run(config, tmp_path), "RMQ-CF-EMPTY").severity is Severity.ERROR
    (tmp_path / "abort").write_bytes(b"")
    assert only(run(config, tmp_path), "RMQ-CF-EMPTY").severity is Severity.WARNING


@pytest.mark.parametrize(
    ("backup", "state", "also"),
    [(TOPICS, "is whole", 0), (TOPICS[:20], "is not readable", 1), ("", "is empty", 1), (None, "is missing", 0)],
)
def test_the_message_says_what_the_backup_is_worth(backup: str | None, state: str, also: int, tmp_path: Path) -> None:
    directory = given_store(tmp_path, topics__json=TOPICS[:50])
    if backup is not None:
        (directory / "topics.json.bak").write_text(backup)
    found = run(config, tmp_path)
    assert f"topics.json.bak {state}" in only(found, "RMQ-CF-JSON").message
    assert codes(found)["RMQ-CF-BAK"] == also


def test_a_damaged_backup_of_a_whole_file(tmp_path: Path) -> None:
    given_store(tmp_path, topics__json__bak=TOPICS[:50])
    found = run(config, tmp_path)
    assert codes(found) == {"RMQ-CF-BAK": 1}
    assert found[0].severity is Severity.WARNING


def test_a_damaged_backup_of_a_missing_file(tmp_path: Path) -> None:
    directory = given_store(tmp_path, topics__json__bak=TOPICS[:50])
    (directory / "topics.json").unlink()
    assert only(run(config, tmp_path), "RMQ-CF-BAK").severity is Severity.ERROR


def test_a_missing_file_with_a_backup(tmp_path: Path) -> None:
    directory = given_store(tmp_path)
    (directory / "topics.json").rename(directory / "topics.json.bak")
    assert only(run(config, tmp_path), "RMQ-CF-MISSING").file == "config/topics.json"


def test_topics_missing_beside_queues(tmp_path: Path) -> None:
    directory = given_store(tmp_path)
    (directory / "topics.json").unlink()
    assert "queues of 1 topics" in only(run(config, tmp_path), "RMQ-CF-MISSING").message


@pytest.mark.parametrize(("make", "kind"), [(os.mkdir, "directory"), (os.mkfifo, "named pipe")])
def test_something_else_in_place_of_a_file(make: Callable[[Path], None], kind: str, tmp_path: Path) -> None:
    directory = given_store(tmp_path)
    (directory / "topics.json").unlink()
    make(directory / "topics.json")

    found = only(run(config, tmp_path), "RMQ-ST-KIND")

    assert (found.file, found.found) == ("config/topics.json", kind)


def test_a_file_larger_than_any_broker_writes_is_not_read(tmp_path: Path) -> None:
    os.truncate(given_store(tmp_path) / "topics.json", 1 << 40)

    assert "was not read" in only(run(config, tmp_path), "RMQ-CF-JSON").message


# Names


@pytest.fixture(scope="module")
def of_a_broker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stores.fresh_store("broker-5.3.3-cqext-crash", tmp_path_factory.mktemp("names"))


DAMAGED_NAMES = [
    ("topics.json", b'"readQueueNums":4', b'"readQueqeNums":4', "RMQ-CF-NAME"),
    ("topics.json", b'"topicName":"orders"', b'"topicName":"orderr"', "RMQ-CF-NAME"),
    ("topics.json", b'"order":', b'"\xefrder":', "RMQ-CF-NAME"),
    ("topics.json", b'"topicConfigTable"', b'"topicConfigTabld"', "RMQ-CF-EMPTY"),
    ("subscriptionGroup.json", b'"retryMaxTimes":16', b'"retryMa8Times":16', "RMQ-CF-NAME"),
    ("subscriptionGroup.json", b'"forbiddenTable"', b'"forbid\x1benTable"', "RMQ-CF-NAME"),
    ("subscriptionGroup.json", b'"subscriptionGroupTable"', b'"subscriptionGroupTab\xeee"', "RMQ-CF-EMPTY"),
    ("consumerOffset.json", b'"orders@g_orders"', b'"orders@g_ordess"', "RMQ-CF-NAME"),
    ("consumerOffset.json", b'"offsetTable"', b'"offsetTablg"', "RMQ-CF-EMPTY"),
    ("delayOffset.json", b'"offsetTable"', b'"ogfsetTable"', "RMQ-CF-EMPTY"),
    ("topicQueueMapping.json", b'"hostedQueues"', b'"hosteeQueues"', "RMQ-CF-NAME"),
]


@pytest.mark.parametrize(("name", "good", "damaged", "code"), DAMAGED_NAMES, ids=[str(one[2]) for one in DAMAGED_NAMES])
def test_a_damaged_name(name: str, good: bytes, damaged: bytes, code: str, of_a_broker: Path) -> None:
    path = of_a_broker / "config" / name
    text = path.read_bytes()
    assert good in text
    path.write_bytes(text.replace(good, damaged, 1))
    try:
        found = only([one for check in (config, confignames) for one in run(check, of_a_broker) if one.file == f"config/{name}"], code)
        verdict = diagnosis_of(of_a_broker, "broker-5.3.3-cqext-crash").verdict
    finally:
        path.write_bytes(text)
    assert found.severity is Severity.ERROR
    assert verdict.cls in (Class.STARTS_BUT, Class.DOES_NOT_START), verdict.headline


def test_members_of_a_later_release_and_missing_ones_are_no_damage(tmp_path: Path) -> None:
    """People write these files, and releases add members."""
    entry = {"topicName": "orders", "perm": 6, "somethingNew": 1, "readQueue": 3}
    given_store(tmp_path, topics__json=json.dumps({"topicConfigTable": {"orders": entry}, "other": {}}))
    assert run(confignames, tmp_path) == []


# Offsets


@pytest.mark.parametrize(("offset", "expected"), [(4, 3), (99999, 3), (-7, 0)])
def test_an_offset_outside_of_the_queue(offset: int, expected: int, tmp_path: Path) -> None:
    given_store(tmp_path, consumerOffset__json=OFFSETS.replace("0:3", f"0:{offset}"))
    found = only(run(config, tmp_path), "RMQ-CF-OFFSET")
    assert (found.topic, found.queue_id, found.expected, found.found) == ("orders", 0, expected, offset)
    assert (found.file, found.severity) == ("config/consumerOffset.json", Severity.ERROR)


def test_offsets_of_a_backup_count_where_the_file_is_damaged(tmp_path: Path) -> None:
    given_store(tmp_path, consumerOffset__json="{", consumerOffset__json__bak=OFFSETS.replace("1:2", "1:3"))
    found = only(run(config, tmp_path), "RMQ-CF-OFFSET")
    assert (found.file, found.queue_id) == ("config/consumerOffset.json.bak", 1)


def test_keys_that_are_no_topic_and_group_are_ignored(tmp_path: Path) -> None:
    keys = '"orders":{0:99},"orders@g@h":{0:99},"../orders@g":{0:99},"orders@g2":[99],"orders@g3":{"x":99},"orders@g4":{0:"99"}'
    given_store(tmp_path, consumerOffset__json=f'{{"offsetTable":{{{keys}}}}}')
    assert run(config, tmp_path) == []


def test_an_offset_in_a_multi_dispatch_queue_is_no_error(tmp_path: Path) -> None:
    """A client may set any; a stopped broker left 33 in a queue of 32."""
    root = stores.sample_store("broker-4.9.7-lmq-crash")
    found = only(run(config, root), "RMQ-CF-LMQ-OFFSET")
    assert (found.topic, found.queue_id, found.expected, found.found) == ("%LMQ%beta", 0, 32, 33)
    assert found.severity is Severity.WARNING


@pytest.mark.parametrize(("switch", "count"), [("true", 1), ("false", 0)])
def test_the_switch_decides_which_offsets_count(switch: str, count: int, tmp_path: Path) -> None:
    given_store(tmp_path, lmqConsumerOffset__json=OFFSETS.replace("0:3", "0:9"))
    assert codes(run(config, tmp_path, {"enableLmq": switch}))["RMQ-CF-OFFSET"] == count


def test_a_delay_offset_beyond_its_queue(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path).message("SCHEDULE_TOPIC_XXXX", queue_id=2, properties={"DELAY": "3"})
    builder.build()
    (tmp_path / "config").mkdir()
    path = tmp_path / "config" / "delayOffset.json"
    path.write_text('{"offsetTable":{3:1,4:0}}')
    assert run(config, tmp_path) == []
    path.write_text('{"offsetTable":{3:99999}}')
    found = only(run(config, tmp_path), "RMQ-CF-OFFSET")
    assert (found.queue_id, found.expected, found.found) == (2, None, 99999)


# Queue types


BATCH = TOPICS.replace('"topicName":"orders"', '"attributes":{"queue.type":"BatchCQ"},"topicName":"orders"')


def test_a_batch_topic_with_simple_queues(tmp_path: Path) -> None:
    given_store(tmp_path, topics__json=BATCH)
    found = only(run(config, tmp_path), "RMQ-CF-QUEUE-TYPE")
    assert (found.file, found.expected, found.found) == ("consumequeue/orders", "BatchCQ", "SimpleCQ")
    assert found.severity is Severity.ERROR


def test_batch_queues_of_a_topic_that_is_not_known(tmp_path: Path) -> None:
    given_store(tmp_path)
    (tmp_path / "batchconsumequeue" / "lost" / "0").mkdir(parents=True)
    found = only(run(config, tmp_path), "RMQ-CF-QUEUE-TYPE")
    assert (found.topic, found.expected, found.found) == ("lost", "SimpleCQ", "BatchCQ")


# Stores of brokers


@pytest.mark.parametrize("case", [case for case in stores.cases() if case.is_broker], ids=lambda case: case.name)
def test_no_error_in_what_brokers_left(case: stores.Case) -> None:
    root = stores.sample_store(case.name)
    assert errors(run(config, root, case.settings(root))) == []


def test_a_broker_killed_while_it_wrote_its_files() -> None:
    """5.5.1 moves the file to .bak before it writes anew: delayOffset.json was missing, consumerOrderInfo.json empty."""
    found = run(config, stores.sample_store("broker-5.5.1-crash"))
    assert only(found, "RMQ-CF-MISSING").file == "config/delayOffset.json"
    assert only(found, "RMQ-CF-EMPTY").file == "config/consumerOrderInfo.json"
    assert all(".bak is whole" in one.message for one in found)


def test_half_of_topics_with_a_good_backup(tmp_path: Path) -> None:
    root = stores.fresh_store("broker-5.3.3-cqext-crash", tmp_path)
    path = root / "config" / "topics.json"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    found = run(config, root)
    assert "topics.json.bak is whole" in only(found, "RMQ-CF-JSON").message
    assert codes(found)["RMQ-CF-QUEUE-TYPE"] == 0


ODD_OFFSETS = st.one_of(st.integers(-3, 9), st.sampled_from([True, False, 1.0, 4.5, None, "3", [2], 1 << 70, -(1 << 70)]))
OFFSETS_OF_KEY = st.dictionaries(st.sampled_from(["0", "1", "01", "-1", "x", "\u0661"]), ODD_OFFSETS, max_size=6)
TABLES = st.dictionaries(
    st.sampled_from(["A@g", "A@h", "B@g", "B@h", "@g", "A", "A@g@h", "%LMQ%x@g"]),
    st.one_of(OFFSETS_OF_KEY, st.sampled_from([None, 3, []])),
)


@given(TABLES, st.dictionaries(st.sampled_from(["A", "B", "", "%LMQ%x"]), st.integers(0, 6)))
def test_only_the_usual_offsets_are_left_out(table: dict[str, Any], ends: dict[str, int]) -> None:
    store = Store(Path("/nowhere"), BrokerConfig(given={"enableLmq": "false"}))
    path = Path("consumerOffset.json")
    texts = {name: config.Text(path, config.State.MISSING) for name in config.FILES}
    texts[config.CONSUMER_OFFSETS] = config.Text(path, config.State.WHOLE, "whole", {"offsetTable": table})

    def usual(topic: str, queue_id: int) -> range:
        return range(queue_id, ends.get(topic, 0))

    every = [
        (key.partition("@")[0], int(queue), offset)
        for key, offsets in table.items()
        if key.count("@") == 1 and isinstance(offsets, dict)
        for queue, offset in offsets.items()
        if queue in ("0", "1", "01") and isinstance(offset, int) and not isinstance(offset, bool)
    ]
    assert [one[3:] for one in config.stored_offsets(store, texts)] == every
    assert [one[3:] for one in config.stored_offsets(store, texts, usual)] == [one for one in every if one[2] not in usual(*one[:2])]
    assert config.consumed_topics(store, texts) == {topic for topic, _, offset in every if offset > 0}
