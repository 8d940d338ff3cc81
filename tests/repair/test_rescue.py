"""Configuration files of which neither the file nor its `.bak` can be read are written from their readable parts, queues and log."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

from rmqstore.repair.plan.model import Origin
from rmqstore.repair.procedure import undo
from rmqstore.repair.recover import Strategy
from rmqstore.store.fastjson import parse, readable_part
from rmqstore.verify.parts import config
from tests.repair.every_action import Yes
from tests.repair.recovering import Damaged, view_of
from tests.support import stores
from tests.support.cli import rmqstore

BASES = ("broker-4.9.7-lmq-crash", "broker-5.3.3-cqext-crash", "broker-5.5.1-crash")
OF_BROKERS = ("rmq_sys_", "RMQ_SYS_", "%LMQ%", "SCHEDULE_TOPIC_XXXX")


@pytest.fixture(params=BASES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Damaged:
    return Damaged(request.param, stores.fresh_store(request.param, tmp_path))


def text_of(store: Damaged, name: str) -> bytes:
    both = [store.root / "config" / name, store.root / "config" / f"{name}.bak"]
    return next((path.read_bytes() for path in both if path.exists() and path.stat().st_size), b"")


def put(store: Damaged, name: str, data: bytes) -> Path:
    """Write both the file and its `.bak`."""
    path = store.root / "config" / name
    path.with_name(f"{name}.bak").write_bytes(data)
    path.write_bytes(data)
    return path


def table(data: bytes, name: str) -> dict[str, object]:
    return dict(parse(data).value[config.TABLES[name]])


DAMAGES = {
    "garbage": lambda data: random.Random(7).randbytes(max(len(data), 64)),
    "empty": lambda data: b"",
    "zeros": lambda data: bytes(len(data)),
    "null": lambda data: b"null",
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("text", [b"{}", b'{"%s":{}}'])
@pytest.mark.parametrize("name", [config.TOPICS, config.GROUPS])
def test_a_file_without_entries_is_replaced_by_its_valid_copy(name: str, text: bytes, store: Damaged) -> None:
    """No broker writes these files without its own topics and groups; a start would not read the `.bak`."""
    path = store.root / "config" / name
    valid = path.read_bytes()
    path.with_name(f"{name}.bak").write_bytes(valid)
    path.write_bytes(text.replace(b"%s", config.TABLES[name].encode()))
    result = store.recover()
    assert (result.errors, result.left) == ({}, 0)
    assert path.read_bytes() == valid


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [config.TOPICS, config.GROUPS])
def test_a_file_and_its_copy_without_entries_are_written_again(name: str, store: Damaged) -> None:
    names = set(table(text_of(store, name), name))
    path = put(store, name, b'{"%s":{}}' % config.TABLES[name].encode())
    result = store.recover()
    assert (result.errors, result.left) == ({}, 0)
    found = set(table(path.read_bytes(), name))
    assert {one for one in names if one.startswith(("orders", "g_orders"))} <= found


@pytest.mark.limited(25)
@pytest.mark.sampled(6)
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", [name for name in config.TABLES if name != config.LMQ_OFFSETS])
def test_a_file_without_a_valid_copy_is_written_again_and_undone(name: str, damage: str, store: Damaged) -> None:
    if name.endswith("Metrics") or not text_of(store, name):
        pytest.skip("this store has no such file")
    path = put(store, name, DAMAGES[damage](text_of(store, name)))
    before = path.read_bytes()
    result = store.recover()
    assert (result.errors, result.left) == ({}, 0)
    assert config.TABLES[name] in parse(path.read_bytes()).value
    assert not path.with_name(f"{name}.bak").exists()
    assert any(name in note for note in result.plan.notes)
    undo(store.root, None if result.transaction is None else result.transaction.id, Yes())
    assert path.read_bytes() == path.with_name(f"{name}.bak").read_bytes() == before


@pytest.mark.sampled(2)
@pytest.mark.parametrize("damage", ["garbage", "missing"])
def test_topics_come_from_queues_and_log(damage: str, store: Damaged) -> None:
    were = table(text_of(store, config.TOPICS), config.TOPICS)
    path = put(store, config.TOPICS, b"\x07" * 99)
    if damage == "missing":
        path.unlink()
        path.with_name("topics.json.bak").unlink()
    result = store.recover()
    assert (result.errors, result.left) == ({}, 0)
    now = table(path.read_bytes(), config.TOPICS)
    stored = {record.record.topic for record in view_of(store.base).records}
    assert {topic for topic in stored if not topic.startswith(OF_BROKERS)} <= now.keys() <= were.keys()
    for topic, entry in now.items():
        assert entry["readQueueNums"] <= were[topic]["readQueueNums"]
        kept = {name: value for name, value in (were[topic].get("attributes") or {}).items() if name != "reserve.time"}
        assert (entry.get("attributes") or {}) == kept
    assert {entry.entry for entry in result.plan.configuration if entry.guess} == now.keys()


def test_entries_before_the_cut_are_kept_and_newer_than_the_backup(store: Damaged) -> None:
    name = config.LMQ_OFFSETS if text_of(store, config.LMQ_OFFSETS) else config.CONSUMER_OFFSETS
    data = text_of(store, name)
    older = {key: dict.fromkeys(queues, 0) for key, queues in table(data, name).items()}
    path = store.root / "config" / name
    path.write_bytes(data[: len(data) * 3 // 4])
    left = readable_part(path.read_bytes()).value["offsetTable"]
    path.with_name(f"{name}.bak").write_text(json.dumps({**parse(data).value, "dataVersion": None, "offsetTable": older}))
    result = store.recover()
    assert (result.errors, result.left) == ({}, 0)
    now = table(path.read_bytes(), name)
    assert len(left) > 2
    assert now.keys() == older.keys()
    for key, queues in table(data, name).items():
        for queue, offset in queues.items():
            assert now[key][queue] == (offset if queue in left.get(key, {}) else 0)
    origins = {entry.origin for entry in result.plan.configuration}
    assert origins == {Origin.FILE, Origin.BACKUP}


def test_groups_are_found_by_name(store: Damaged) -> None:
    path = put(store, config.GROUPS, b"{{{")
    result = store.recover()
    assert result.errors == {}
    named = {
        key.partition("@")[2]
        for name in (config.CONSUMER_OFFSETS, config.LMQ_OFFSETS)
        if text_of(store, name)
        for key in table(text_of(store, name), name)
    }
    now = table(path.read_bytes(), config.GROUPS)
    assert {group for group in named if not group.startswith(("CID_RMQ", "%LMQ%"))} <= now.keys()
    assert all(entry.guess for entry in result.plan.configuration)


def test_the_minimal_strategy_writes_what_stops_a_start(store: Damaged) -> None:
    path = put(store, config.TOPICS, b"\xff" * 50)
    result = store.recover(Strategy.MINIMAL)
    assert "RMQ-CF-JSON" not in (result.errors or {})
    assert table(path.read_bytes(), config.TOPICS)


@pytest.mark.parametrize("rest", [b"1:2", b"\x00\x01\xff", b'"'])
def test_the_readable_part_ends_with_the_last_complete_value(rest: bytes) -> None:
    assert readable_part(b'{"offsetTable":{"a@b":{0:1,' + rest).value == {"offsetTable": {"a@b": {"0": 1}}}


@pytest.mark.parametrize("text", [b"", b"\x00" * 40, b"[1,2]", b"}{", b"nonsense", b'"a":1'])
def test_nothing_is_read_where_no_object_begins(text: bytes) -> None:
    assert readable_part(text).value == {}


def test_the_readable_part_of_a_whole_text_is_all_of_it() -> None:
    for base in BASES:
        for path in (stores.sample_store(base) / "config").glob("*.json"):
            if path.stat().st_size:
                assert readable_part(path.read_bytes()).value == parse(path.read_bytes()).value


@pytest.mark.parametrize("name", ["broker-4.9.7-lmq-crash", "broker-5.3.3-cqext-crash"])
def test_lost_delay_levels_of_queues_that_are_lost_as_well(name: str, tmp_path: Path) -> None:
    root = stores.fresh_store(name, tmp_path)
    options = stores.case(name).set_options(root)
    offsets = parse((root / "config" / "delayOffset.json").read_bytes()).value["offsetTable"]
    shutil.rmtree(root / "consumequeue")
    for path in (root / "config").glob("delayOffset.json*"):
        path.unlink()

    done = rmqstore("recover", root, "--yes", "--format", "json", *options)

    assert done.status == 0, done.out[-2000:]
    again = parse((root / "config" / "delayOffset.json").read_bytes()).value["offsetTable"]
    assert again.keys() >= offsets.keys() and all(again[level] >= offset for level, offset in offsets.items() if offset)
