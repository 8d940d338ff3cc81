"""`rocksdbstore` built from the log: index, timed messages and transactions of stores that a whole broker 5.5.1 wrote.

One was stopped, the other killed: nothing had been written to its database by then.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmqstore.formats.naming import offset_to_file_name
from rmqstore.formats.rocksdb import DELIVERED_KEY, LAST_OFFSET_KEY, LAST_TIME_KEY, SCANNED_KEY
from rmqstore.reading.rocksdb.halves import halves_of
from rmqstore.reading.rocksdb.messagedatabase import message_database
from rmqstore.reading.rocksdb.timeline import timeline_of
from rmqstore.store.rocksdb.streams import pairs_of_database
from rmqstore.store.root import Store
from tests.rocksdb.test_timeline import SETTINGS, changed, unpacked
from tests.support.cli import rmqstore
from tests.support.stores import content
from tests.verify.one_check import patch

STOPPED, KILLED = "transactions", "killed-transactions"
OPTIONS = tuple(f"--set={key}={value}" for key, value in {**SETTINGS, "transWriteOriginTransHalfEnable": "false"}.items())
NUMBERS = {LAST_OFFSET_KEY, LAST_TIME_KEY, SCANNED_KEY, DELIVERED_KEY}
Entries = dict[str, dict[bytes, bytes]]


def entries(root: Path) -> Entries:
    """All entries by column family."""
    found: Entries = {}
    database = message_database(Store.open(root))
    assert database is not None
    for name, pair in pairs_of_database(database):
        found.setdefault(name, {}).update([] if pair is None else [pair])
    return found


def recovered(root: Path, *words: str) -> list[dict[str, Any]]:
    """The objects of `recover --yes`."""
    run = rmqstore("recover", root, "--yes", "--format", "json", *words)
    assert run.status == 0, run.err
    return run.objects


def flipped(root: Path) -> None:
    for path in (root / "rocksdbstore").glob("*.sst"):
        data = bytearray(path.read_bytes())
        data[100] ^= 4
        path.write_bytes(data)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "missing": lambda root: shutil.rmtree(root / "rocksdbstore"),
    "flipped": flipped,
    "no manifest": lambda root: next((root / "rocksdbstore").glob("MANIFEST*")).write_bytes(b""),
}


def waiting(found: Entries, delivered: int) -> dict[bytes, bytes]:
    """The entries of timed messages that wait; those that were delivered stay in the database of a broker for hours."""
    return {key: value for key, value in found["timer"].items() if key not in NUMBERS and int.from_bytes(key[:8], "big") >= delivered}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_the_broker_had_comes_back(damage: str, tmp_path: Path) -> None:
    root = unpacked(STOPPED, tmp_path)
    had = entries(root)
    timeline = timeline_of(Store.open(root))
    assert timeline is not None and timeline.delivered is not None
    DAMAGES[damage](root)
    before = content(root)

    recovered(root, *OPTIONS)

    has = entries(root)
    assert has["default"] == had["default"]
    assert waiting(has, 0) == waiting(had, timeline.delivered)
    assert has["timer"][SCANNED_KEY] == had["timer"][SCANNED_KEY]
    assert has["trans"].keys() == had["trans"].keys() and len(has["trans"]) > 5
    assert has["trans"][LAST_OFFSET_KEY] == had["trans"][LAST_OFFSET_KEY]
    verified = rmqstore("verify", root, "--format", "json", *OPTIONS).objects
    assert [one["code"] for one in verified if one.get("code", "").startswith("RMQ-RD")] == []
    assert rmqstore("undo", root, "--yes").status == 0
    assert {path: digest for path, digest in content(root).items() if not path.startswith(".rmqstore/")} == before


def test_a_sound_database_stays(tmp_path: Path) -> None:
    root = unpacked(STOPPED, tmp_path)
    before = content(root / "rocksdbstore")
    plan = next(one for one in recovered(root, *OPTIONS) if one["type"] == "plan")
    assert content(root / "rocksdbstore") == before
    assert not any("rocksdbstore" in note for note in map(str, plan["notes"]))


def test_after_a_kill_nothing_is_delivered_twice_or_forgotten(tmp_path: Path) -> None:
    root = unpacked(KILLED, tmp_path)
    verdict = rmqstore("doctor", root, "--format", "json", *OPTIONS).objects[-1]
    [delayed] = [one for one in verdict["areas"] if one["area"] == "delayed and timed messages"]
    log = [one for one in rmqstore("dump", root, "--format", "json", *OPTIONS).objects if one["type"] == "message"]
    timed = {one["unique_key"] for one in log if one["topic"] == "rmq_sys_wheel_timer"}
    done = {one["unique_key"] for one in log if one["topic"] == "delayed"} & timed
    assert len(done) > 2
    assert delayed["count"] == len(done)

    done_by = recovered(root, *OPTIONS)

    has = entries(root)
    assert {key[8:].decode() for key in waiting(has, 0)} == timed - done
    halves = halves_of(Store.open(root))
    assert len(halves.open) > 5 and has["trans"].keys() == {LAST_OFFSET_KEY, *(half.key for half in halves.open.values())}
    keyed = {one["physical_offset"] for one in log if one["unique_key"]}
    assert {int.from_bytes(key[-8:], "big") for key in has["default"] if key not in NUMBERS} == keyed
    assert not (root / "abort").exists()
    assert rmqstore("doctor", root, "--format", "json", *OPTIONS).objects[-1]["class"] == "STARTS, NOTHING LOST"
    assert done_by[-1]["second_plan_actions"] == 0


def test_signs_of_use_count_where_settings_are_unknown(tmp_path: Path) -> None:
    """There is none of the index: its family stays empty."""
    root = unpacked(KILLED, tmp_path)
    recovered(root, "--set=mappedFileSizeCommitLog=1048576")
    has = entries(root)
    assert has["default"] == {}
    assert waiting(has, 0) and len(has["trans"]) > 5


def test_a_part_that_is_off_is_left_out(tmp_path: Path) -> None:
    root = unpacked(KILLED, tmp_path)
    recovered(root, *(word.replace("RocksDBEnable=true", "RocksDBEnable=false") for word in OPTIONS))
    assert message_database(Store.open(root)) is None


def test_an_index_that_contradicts_the_log_is_built_again(tmp_path: Path) -> None:
    root = unpacked(STOPPED, tmp_path)
    had = entries(root)["default"]
    gone = [key for key in had if key not in NUMBERS][3:9]
    changed(root, dict.fromkeys(gone), "default")
    recovered(root, *OPTIONS)
    assert entries(root)["default"] == had


def test_open_transactions_are_listed(tmp_path: Path) -> None:
    """Until 0.2.0 only those of the other half topic were."""
    root = unpacked(STOPPED, tmp_path)
    listed = rmqstore("pending", root, "--format", "json").objects
    there = {int.from_bytes(key[:8], "big") for key in entries(root)["trans"] if key not in NUMBERS}
    assert {one["physical_offset"] for one in listed if one.get("kind") == "transaction"} == there
    assert {one["topic"] for one in listed if one.get("kind") == "transaction"} == {"orders"}


def wrong(root: Path) -> list[tuple[int | None, str]]:
    run = rmqstore("verify", root, "--format", "json", "--all", *OPTIONS)
    return [(one["offset"], one["message"]) for one in run.objects if one.get("code") == "RMQ-RD-TRANS"]


def test_transactions_against_half_messages(tmp_path: Path) -> None:
    root = unpacked(STOPPED, tmp_path)
    assert wrong(root) == []
    had = {key: value for key, value in entries(root)["trans"].items() if key not in NUMBERS}
    [first, second, *_] = had
    answer = next(one for one in rmqstore("dump", root, "--format", "json", "--topic", "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC").objects)
    ended = int(answer["properties"]["TRANS_OFFSET"])
    changed(
        root,
        {
            first: None,
            second: had[second][:4] + bytes(4),
            (4711).to_bytes(8, "big") + b"@orders@ID": bytes(8),
            ended.to_bytes(8, "big") + b"@orders@ID": bytes(8),
            b"odd": b"",
        },
        "trans",
    )
    found = dict(wrong(root))
    assert "another form" in found.pop(None)
    assert found.keys() == {int.from_bytes(first[:8], "big"), int.from_bytes(second[:8], "big"), 4711, ended}
    assert "1 open transaction that the broker has read is not in the family trans" in found[int.from_bytes(first[:8], "big")]
    assert "no half message is there" in found[4711] and "it ended" in found[ended]
    recovered(root, *OPTIONS)
    assert wrong(root) == [], json.dumps(wrong(root))


def test_the_log_decides_where_the_queue_of_half_messages_lacks_them(tmp_path: Path) -> None:
    root = unpacked(STOPPED, tmp_path)
    shutil.rmtree(root / "consumequeue" / "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC")
    assert wrong(root) == []


def test_a_lost_delivery_or_answer_brings_nothing_back(tmp_path: Path) -> None:
    """The database shows what the damaged log no longer does, and loses its keys of the lost messages."""
    root = unpacked(STOPPED, tmp_path)
    log = [one for one in rmqstore("dump", root, "--format", "json", *OPTIONS).objects if one["type"] == "message"]
    timed = {one["unique_key"] for one in log if one["topic"] == "rmq_sys_wheel_timer"}
    delivery = next(one for one in log if one["topic"] == "delayed" and one["unique_key"] in timed)
    answer = next(one for one in log if one["topic"] == "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC")
    had = entries(root)
    before = timeline_of(Store.open(root))
    assert before is not None
    pending = before.pending
    for one in (delivery, answer):
        patch(root / "commitlog" / offset_to_file_name(0), int(one["physical_offset"]), bytes(one["size"]))

    done = recovered(root, *OPTIONS)

    assert (done[-1]["errors"], done[-1]["second_plan_actions"]) == ({}, 0)
    has = entries(root)
    assert has["trans"] == had["trans"]
    timeline = timeline_of(Store.open(root))
    assert timeline is not None and delivery["unique_key"] not in {entry.unique_key for entry in timeline.pending}
    assert timeline.pending == pending
    gone = {int(delivery["physical_offset"]), int(answer["physical_offset"])}
    assert had["default"].keys() - has["default"].keys() == {key for key in had["default"] if int.from_bytes(key[-8:], "big") in gone}
