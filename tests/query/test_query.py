"""A search finds the messages that reading the whole log finds, on each way, in stores of brokers and in damaged ones."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from rmqstore.errors import UsageError
from rmqstore.formats import index
from rmqstore.formats.sysflag import TransactionType, transaction_type
from rmqstore.query.search import Search, Way
from rmqstore.query.wanted import Key, Offset, QueueRange, TimeRange, Value, Wanted, parse_offset_id, parse_queue, parse_time_range
from rmqstore.store.root import Store
from tests.support import stores
from tests.support.cli import rmqstore
from tests.verify.one_check import patch

NAMES = [case.name for case in stores.cases()]
ORDERED = "5.5.1-plain"
Message = dict[str, Any]


def everything(root: Path) -> list[Message]:
    """Return all messages of a store by a search of the whole log."""
    return list(Search(Store.open(root), TimeRange(-(1 << 63), (1 << 63) - 1), scan=True).messages())


def found(root: Path, wanted: Wanted) -> tuple[list[Message], set[str]]:
    messages = list(Search(Store.open(root), wanted).messages())
    return sorted((without_way(one) for one in messages), key=lambda one: one["position"]), {one["way"] for one in messages}


def without_way(message: Message) -> Message:
    return {name: value for name, value in message.items() if name != "way"}


def accepted(messages: Iterable[Message], wanted: Any) -> list[Message]:
    return [without_way(one) for one in messages if wanted.accept(one)]


def queue_of(message: Value) -> QueueRange:
    return QueueRange(message["topic"], message["queue_id"], message["queue_offset"], message["queue_offset"] + 3)


def wishes(messages: list[Message]) -> Iterable[Wanted]:
    """Yield searches for some of the messages, in all forms."""
    for message in messages[:: max(1, len(messages) // 8)]:
        for key in {message["unique_key"], *(message["keys"] or "").split(" ")} - {None, ""}:
            if all(transaction_type(one["sys_flag"]) is not TransactionType.PREPARED for one in messages):
                yield Key(key)  # a topic of half messages alone, which stores without a broker have, has no queue
            yield Key(key, message["topic"])
        if message["unique_key"]:
            yield Key(message["unique_key"], unique=True)
        yield queue_of(message)
        yield TimeRange(message["store_timestamp"], message["store_timestamp"] + 5)


@pytest.mark.limited(11)
@pytest.mark.parametrize("name", NAMES)
def test_the_messages_of_a_scan(name: str) -> None:
    root = stores.sample_store(name)
    messages = everything(root)
    assert all(found(root, Offset(one["physical_offset"]))[0] == [without_way(one)] for one in messages[:: max(1, len(messages) // 100)])
    for wanted in wishes(messages):
        assert found(root, wanted)[0] == accepted(messages, wanted), wanted


@pytest.mark.parametrize("name", [ORDERED, "5.5.1-rocksdb"])
def test_the_ways(name: str) -> None:
    root = stores.sample_store(name)
    message = next(one for one in everything(root) if one["keys"] and one["store_timestamp"])
    for wanted, way in (
        (Key(message["unique_key"], message["topic"]), Way.INDEX),
        (queue_of(message), Way.QUEUE),
        (TimeRange(message["store_timestamp"], message["store_timestamp"]), Way.TIME),
        (Offset(message["physical_offset"]), Way.OFFSET),
    ):
        assert found(root, wanted)[1] == {way}


def no_index(root: Path) -> None:
    shutil.rmtree(root / "index")


def first_index_file_damaged(root: Path) -> None:
    path = min((root / "index").iterdir())
    patch(path, index.HEADER_SIZE - 24, (1 << 40).to_bytes(8, "big"))


def no_queues(root: Path) -> None:
    for name in ("consumequeue", "batchconsumequeue"):
        shutil.rmtree(root / name, ignore_errors=True)


def queues_zeroed(root: Path) -> None:
    for path in (root / "consumequeue").rglob("0*"):
        if path.is_file():
            path.write_bytes(bytes(path.stat().st_size))


def entries_of_other_records(root: Path) -> None:
    for path in (root / "consumequeue").rglob("0*"):
        if path.is_file():
            data = path.read_bytes()
            path.write_bytes(data[40:60] + data[20:40] + data[40:])


DAMAGES = [no_index, first_index_file_damaged, no_queues, queues_zeroed, entries_of_other_records]


@pytest.mark.limited(9)
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", [ORDERED, "4.9.8-plain", "5.3.3-plain", "5.1.4-batchcq", "4.9.8-lmq"])
def test_derived_files_that_lack_messages(name: str, damage: Any, tmp_path: Path) -> None:
    root = stores.fresh_store(name, tmp_path)
    messages = everything(root)
    damage(root)
    for wanted in wishes(messages):
        assert found(root, wanted)[0] == accepted(messages, wanted), wanted


def test_a_clock_that_was_set_back(tmp_path: Path) -> None:
    root = stores.fresh_store("4.9.8-plain", tmp_path)
    files = sorted((root / "commitlog").iterdir())
    for path in files[1:2]:
        patch(path, 56, (1).to_bytes(8, "big"))
    messages = everything(root)
    wanted = TimeRange(messages[-1]["store_timestamp"], messages[-1]["store_timestamp"])
    assert found(root, wanted) == (accepted(messages, wanted), {Way.SCAN})


def test_damage_that_can_hide_messages(tmp_path: Path) -> None:
    root = stores.fresh_store(ORDERED, tmp_path)
    message = everything(root)[3]
    patch(min((root / "commitlog").iterdir()), message["position"], bytes(64))
    outcome = rmqstore("query", root, "--offset-id", message["offset_message_id"])
    assert outcome.status == 1
    outcome = rmqstore("query", root, "--key", message["unique_key"], "--scan")
    assert outcome.status == 1
    assert "damaged ranges" in outcome.err


def test_the_command() -> None:
    root = stores.sample_store(ORDERED)
    message = everything(root)[100]
    for option, value in (
        ("--offset-id", message["offset_message_id"]),
        ("--physical-offset", str(message["physical_offset"])),
        ("--queue", f"{message['topic']}/{message['queue_id']}@{message['queue_offset']}"),
    ):
        outcome = rmqstore("query", root, option, value, "--format", "json")
        assert outcome.status == 0
        assert [without_way(one) for one in outcome.objects] == [without_way(message)]
    assert rmqstore("query", root, "--key", "no such key").status == 1
    assert rmqstore("query", root).status == 2
    assert rmqstore("query", root, "--key", "a", "--time", "..").status == 2


@pytest.mark.parametrize("text", ["orders", "orders/0", "orders/0@", "orders/0@3..2", "orders@3", "/0@1"])
def test_what_names_no_queue_offsets(text: str) -> None:
    with pytest.raises(UsageError):
        parse_queue(text)


def test_what_the_command_line_names() -> None:
    assert parse_queue("%RETRY%a/b/0@17..20") == QueueRange("%RETRY%a/b", 0, 17, 20)
    assert parse_time_range("1000..1970-01-01T00:00:02", None) == TimeRange(1000, 2000)
    with pytest.raises(UsageError):
        parse_time_range("1000", None)
    with pytest.raises(UsageError):
        parse_offset_id("0A09")
