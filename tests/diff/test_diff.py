"""`diff` on copies of stores of brokers: the same, older, damaged, diverged, and copies of other stores."""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path
from typing import Any

import pytest

from rmqstore.diff import logs
from rmqstore.store import fastjson
from tests.support.builder import StoreBuilder
from tests.support.cli import rmqstore
from tests.support.stores import case, cases, content, fresh_store, sample_store
from tests.support.storeview import LogRecord, StoreView
from tests.verify.one_check import patch

BASE = "5.3.3-plain"
NAMES = [one.name for one in cases()]


def diff(one: Path, other: Path, *options: str, status: int = 0) -> dict[str, Any]:
    run = rmqstore("diff", one, other, "--format", "json", *options)
    assert run.status == status, run.out + run.err
    (value,) = run.objects
    return value


def records(root: Path) -> list[LogRecord]:
    return [one for file in StoreView(root, case(BASE).settings(root)).log_files for one in file.records]


def older(tmp_path: Path, at: int, name: str = BASE) -> Path:
    root = fresh_store(name, tmp_path / "older")
    assert rmqstore("truncate", root, "--at", str(at), "--yes").status == 0
    return root


@pytest.mark.parametrize("name", NAMES)
def test_a_store_is_the_same_as_itself(name: str) -> None:
    root = sample_store(name)
    before = content(root)

    found = diff(root, root, *case(name).set_options(root))

    assert (found["relation"], found["whole"], found["first_difference"]) == ("same", True, None)
    assert (found["only_first"], found["only_second"], found["queues"], found["offsets"], found["topics"]) == ([], [], [], [], [])
    assert found["compared_bytes"] == found["common"][1] - found["common"][0]
    assert content(root) == before


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", range(0, 470, 30))
def test_an_older_copy_is_the_beginning_of_the_newer_one(number: int, tmp_path: Path) -> None:
    every = records(sample_store(BASE))
    short = older(tmp_path, every[number].offset)

    for one, other in ((sample_store(BASE), short), (short, sample_store(BASE))):
        found = diff(one, other)
        assert (found["relation"], found["first_difference"], found["diverged_at"]) == ("prefix", None, None)
        assert found["more_messages"] == len(every) - number
        assert found["common"] == [0, every[number].offset]
    assert f"has {len(every) - number} message" in found["verdict"]
    assert found["second"]["last_store_timestamp"] == every[-1].record.store_timestamp


def test_a_copy_whose_last_record_is_torn_did_not_diverge(tmp_path: Path) -> None:
    """A slave that was killed while it received a record has zeros in its properties, which no broker notices."""
    every = records(sample_store(BASE))
    last = next(one for one in reversed(every[:300]) if one.fields["properties"].width > 20)
    torn = older(tmp_path, last.offset + last.size)
    properties = last.fields["properties"]
    patch(torn / last.path, properties.offset + 12, bytes(properties.width - 12))

    found = diff(sample_store(BASE), torn, status=1)

    assert (found["relation"], found["diverged_at"], found["record"]) == ("damaged", None, last.offset)
    assert found["records"] == [{"offset": last.offset, "size": last.size, "valid_in": "first"}]
    assert f"differ at offset {found['first_difference']}, in the last record that both have: 1 record valid" in found["verdict"]
    assert "--from" in found["next"] and found["next"].index(str(torn)) < found["next"].index("--from")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(24))
def test_a_changed_byte_of_a_body_is_named_with_its_record(seed: int, tmp_path: Path) -> None:
    root = fresh_store(BASE, tmp_path)
    chance = random.Random(seed)
    record = chance.choice([one for one in records(root) if one.record.body])
    field = record.fields["body"]
    position = chance.randrange(field.offset, field.offset + field.width)
    flip(root / record.path, position)
    offset = record.offset + position - record.position

    found = diff(sample_store(BASE), root, status=1)

    assert (found["first_difference"], found["record"], found["relation"]) == (offset, record.offset, "damaged")
    assert found["differing"] == {"both": 0, "first": 1, "second": 0, "neither": 0}
    assert found["records"] == [{"offset": record.offset, "size": record.size, "valid_in": "first"}]
    back = diff(root, sample_store(BASE), status=1)
    assert back["differing"] == {"both": 0, "first": 0, "second": 1, "neither": 0}


def flip(path: Path, position: int) -> None:
    data = path.read_bytes()[position]
    patch(path, position, bytes([data ^ 1]))


def diverged(tmp_path: Path, common: int, *lengths: int) -> tuple[Path, Path, int]:
    """Two stores with `common` equal messages, and then bodies of other lengths in the second one; and where that begins."""
    roots, begin = [], 0
    for number, name in enumerate(("master", "slave")):
        builder = StoreBuilder(tmp_path / name, log_file_size=16 << 10)
        for message in range(common):
            builder.message("TopicA", bytes([message % 256]) * (message % 300))
        begin = builder.offset
        for extra in lengths:
            builder.message("TopicA", b"x" * (extra + 10 * number))
        roots.append(builder.build())
    return roots[0], roots[1], begin


@pytest.mark.parametrize(("common", "lengths"), [(100, (50,) * 30), (1, (40,) * 200), (70, (500, 20, 20)), (33, (1,))])
def test_two_logs_that_diverged(common: int, lengths: tuple[int, ...], tmp_path: Path) -> None:
    master, slave, begin = diverged(tmp_path, common, *lengths)
    one, other = ((root / "commitlog" / path.name).read_bytes() for root in (master, slave) for path in [file_at(master, begin)])
    start = begin - int(file_at(master, begin).name)
    first = next(at for at in range(start, len(one)) if one[at] != other[at]) - start + begin

    found = diff(master, slave, status=1)

    assert (found["relation"], found["first_difference"]) == ("diverged", first)
    assert found["record"] == found["diverged_at"] == begin
    assert f"truncate {slave} --at {begin}" in found["next"]
    assert rmqstore("truncate", slave, "--at", str(begin), "--yes").status == 0
    assert diff(master, slave)["relation"] == "prefix"


def file_at(root: Path, offset: int) -> Path:
    return max(path for path in (root / "commitlog").iterdir() if int(path.name) <= offset)


def test_copies_of_other_stores(tmp_path: Path) -> None:
    assert diff(sample_store(BASE), sample_store("5.3.2-plain"), status=1)["relation"] == "diverged"
    later = StoreBuilder(tmp_path, first_offset=1 << 30).message().build()
    found = diff(sample_store(BASE), later, status=1)
    assert (found["relation"], found["first_difference"]) == ("apart", None)


def test_a_missing_file_is_a_difference(tmp_path: Path) -> None:
    root = fresh_store(BASE, tmp_path)
    gone = sorted((root / "commitlog").iterdir())[2]
    gone.unlink()

    found = diff(sample_store(BASE), root, status=1)

    start = int(gone.name)
    assert (found["relation"], found["only_first"], found["only_second"]) == ("gaps", [[start, start + 65536]], [])
    first = sorted((root / "commitlog").iterdir())[0]
    first.unlink()
    gone.write_bytes((sample_store(BASE) / "commitlog" / gone.name).read_bytes())
    assert diff(sample_store(BASE), root)["relation"] == "prefix"


def test_without_deep_nothing_is_claimed_that_was_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "SMALL", 1000)
    monkeypatch.setattr(logs, "_SAMPLE", 500)
    monkeypatch.setattr(logs, "_TAIL", 2000)
    root = fresh_store(BASE, tmp_path)
    record = next(one for one in records(root) if one.position > 5000 and one.record.body)
    flip(root / record.path, record.fields["body"].offset)

    found = diff(sample_store(BASE), root)

    assert (found["relation"], found["whole"], found["first_difference"]) == ("same", False, None)
    assert found["compared_bytes"] < 20_000
    assert f"compared: {found['compared_bytes']} of" in found["verdict"] and "--deep" in found["verdict"]
    deep = diff(sample_store(BASE), root, "--deep", status=1)
    assert (deep["whole"], deep["record"]) == (True, record.offset)


def test_samples_find_where_logs_diverged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    master, slave, begin = diverged(tmp_path, 200, *(60,) * 300)
    monkeypatch.setattr(logs, "SMALL", 1000)
    monkeypatch.setattr(logs, "_SAMPLE", 200)
    monkeypatch.setattr(logs, "_TAIL", 1000)

    found = diff(master, slave, status=1)

    assert (found["whole"], found["diverged_at"], found["record"]) == (False, begin, begin)
    assert found["compared_bytes"] < found["common"][1] and "--deep" in found["next"]


def test_what_a_switch_means_for_consumers(tmp_path: Path) -> None:
    name = "broker-5.5.1-crash"
    root = fresh_store(name, tmp_path)
    path = root / "config" / "consumerOffset.json"
    value: Any = fastjson.parse(path.read_bytes()).value
    key = next(key for key, offsets in value["offsetTable"].items() if any(offsets.values()) and not key.startswith("%RETRY%"))
    queue = next(queue for queue, offset in value["offsetTable"][key].items() if offset)
    before = value["offsetTable"][key][queue]
    value["offsetTable"][key][queue] = before - 1
    path.write_text(json.dumps(value))
    topics = root / "config" / "topics.json"
    table = json.loads(topics.read_text())
    changed, gone = sorted(table["topicConfigTable"])[:2]
    table["topicConfigTable"][changed]["readQueueNums"] += 1
    del table["topicConfigTable"][gone]
    topics.write_text(json.dumps(table))

    found = diff(sample_store(name), root)

    topic, group = key.split("@")
    place = {"group": group, "topic": topic, "queue_id": int(queue), "first": before, "second": before - 1}
    assert found["offsets"] == [{**place, "ahead": "first", "twice": 1, "missed": 0}]
    assert found["topics"] == [
        {"topic": changed, "in": "both", "members": ["readQueueNums"]},
        {"topic": gone, "in": "first", "members": []},
    ]
    assert (found["groups"], found["timers"]) == ([], [])


def test_queues_that_have_other_offsets(tmp_path: Path) -> None:
    every = records(sample_store(BASE))
    short = older(tmp_path, every[100].offset)

    found = diff(sample_store(BASE), short)

    kept: dict[tuple[str, int], int] = {}
    for one in every[:100]:
        key = (one.record.topic, one.record.queue_id)
        kept[key] = max(kept.get(key, 0), one.record.queue_offset + 1)
    rows = {(row["topic"], row["queue_id"]): row for row in found["queues"]}
    assert rows
    assert all(row["shift"] in (0, None) for row in rows.values())
    assert all((row["second"] or [0, 0])[1] == kept.get(key, 0) for key, row in rows.items())


def test_several_copies_and_text(tmp_path: Path) -> None:
    every = records(sample_store(BASE))
    short = older(tmp_path, every[100].offset)

    run = rmqstore("diff", sample_store(BASE), sample_store(BASE), short)

    assert run.status == 0
    assert re.findall(r"^(SAME|PREFIX): ", run.out, re.MULTILINE) == ["SAME", "PREFIX"]
    assert f"has {len(every) - 100} messages more; no conflict" in run.out


def test_no_store(tmp_path: Path) -> None:
    assert rmqstore("diff", sample_store(BASE)).status == 2
    assert rmqstore("diff", sample_store(BASE), tmp_path / "none").status == 4
    root = fresh_store(BASE, tmp_path)
    first = min((root / "commitlog").iterdir())
    first.unlink()
    os.mkfifo(first)
    assert diff(sample_store(BASE), root)["only_first"] == [[0, 65536]]
