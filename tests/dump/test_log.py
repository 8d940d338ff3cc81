"""A commit log as objects: what is shown, what filters choose, and how the dump goes on behind damage."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from rmqstore.formats import record
from tests.support.builder import FIRST_TIMESTAMP, StoreBuilder
from tests.support.cli import rmqstore

LOG_FILE_SIZE = 4096
FIRST_FILE = "commitlog/00000000000000000000"


def built(root: Path, count: int = 40) -> Path:
    """`count` messages in some files of 4 KiB: two topics, two queues each, tag and key by number."""
    builder = StoreBuilder(root, log_file_size=LOG_FILE_SIZE)
    for number in range(count):
        topic = "TopicA" if number % 2 else "TopicB"
        key = f"key-{number} shared"
        builder.message(
            topic, f"body {number}".encode(), queue_id=number // 2 % 2, tags=f"Tag{number % 3}", keys=key, unique_key=f"U{number}"
        )
    return builder.build()


def dump(path: Path, *options: str | int) -> list[dict[str, Any]]:
    run = rmqstore("dump", path, "--format", "json", *map(str, options))
    assert run.status == 0, run.err
    return run.objects


def messages(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for one in objects if one["type"] == "message"]


def damages(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for one in objects if one["type"] == "damage"]


def bodies(objects: list[dict[str, Any]]) -> list[str]:
    return [one["body"] for one in messages(objects)]


def overwrite(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as stream:
        stream.seek(position)
        stream.write(data)


def test_a_message_with_all_its_fields(tmp_path: Path) -> None:
    StoreBuilder(tmp_path).message("TopicA", b"hello", queue_id=3, tags="TagA", keys="k1 k2", unique_key="U1", flag=-5).build()

    (one,) = dump(tmp_path, "--body", "text")

    assert list(one) == [
        *(
            "type",
            "schema",
            "physical_offset",
            "size",
            "magic",
            "body_crc",
            "queue_id",
            "flag",
            "queue_offset",
            "sys_flag",
            "born_timestamp",
        ),
        *("born_host", "store_timestamp", "store_host", "reconsume_times", "prepared_transaction_offset", "body_length", "topic"),
        *("properties", "tags", "keys", "unique_key", "offset_message_id", "tags_code", "position", "body", "body_encoding"),
    ]
    assert one == {
        "type": "message",
        "schema": 1,
        "physical_offset": 0,
        "size": 91 + len("TopicA") + len("hello") + len("TAGS_TagA_KEYS_k1 k2_UNIQ_KEY_U1_"),
        "magic": 0xDAA320A7,
        "body_crc": 0x3610A686,
        "queue_id": 3,
        "flag": -5,
        "queue_offset": 0,
        "sys_flag": 0,
        "born_timestamp": FIRST_TIMESTAMP,
        "born_host": "10.1.2.3:50000",
        "store_timestamp": FIRST_TIMESTAMP + 1,
        "store_host": "10.9.8.7:10911",
        "reconsume_times": 0,
        "prepared_transaction_offset": 0,
        "body_length": 5,
        "topic": "TopicA",
        "properties": {"KEYS": "k1 k2", "TAGS": "TagA", "UNIQ_KEY": "U1"},
        "tags": "TagA",
        "keys": "k1 k2",
        "unique_key": "U1",
        "offset_message_id": "0A09080700002A9F0000000000000000",
        "tags_code": 2598919,
        "position": 0,
        "body": "hello",
        "body_encoding": "text",
    }


def test_files_end_with_a_blank(tmp_path: Path) -> None:
    objects = dump(built(tmp_path))

    blanks = [one for one in objects if one["type"] == "blank"]
    assert blanks
    assert all(one["magic"] == record.BLANK_MAGIC and (one["physical_offset"] + one["size"]) % LOG_FILE_SIZE == 0 for one in blanks)
    assert len(objects) == 40 + len(blanks)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--topic", "TopicA"], range(1, 40, 2)),
        (["--queue", 1], [number for number in range(40) if number // 2 % 2]),
        (["--topic", "TopicB", "--queue", 0, "--queue-offset", 2], [8]),
        (["--tag", "Tag2"], range(2, 40, 3)),
        (["--key", "key-7"], [7]),
        (["--key", "U11"], [11]),
        (["--key", "shared", "--limit", 3], range(3)),
        (["--key", "key"], []),
        (["--from-time", FIRST_TIMESTAMP + 39], [38, 39]),
        (["--to-time", FIRST_TIMESTAMP + 2], [0, 1]),
        (["--from-time", "2023-11-14T22:13:20.039", "--to-time", "2023-11-15T06:13:20.039+08:00"], [38]),
        (["--limit", 5], range(5)),
        (["--limit", 0], []),
        (["--tail", 3], range(37, 40)),
        (["--tail", 30, "--topic", "TopicA"], range(1, 40, 2)),
        (["--tail", 4, "--topic", "TopicA"], range(33, 40, 2)),
        (["--topic", "nobody"], []),
    ],
)
def test_filters(tmp_path: Path, options: list[str | int], expected: list[int]) -> None:
    objects = dump(built(tmp_path), "--body", "text", *options)

    assert bodies(objects) == [f"body {number}" for number in expected]


def test_ranges_of_offsets(tmp_path: Path) -> None:
    root = built(tmp_path)
    positions = [one["position"] for one in messages(dump(root))]

    def shown(*options: str | int) -> list[int]:
        return [one["position"] for one in messages(dump(root, *options))]

    assert shown("--from-offset", positions[7]) == positions[7:]
    assert shown("--from-offset", positions[7] + 1) == positions[8:]
    assert shown("--from-offset", positions[-1] + 1) == []
    assert shown("--from-offset", 10**12) == []
    assert shown("--to-offset", positions[7]) == positions[:7]
    assert shown("--to-offset", positions[7] + 1) == positions[:8]
    assert shown("--to-offset", 0) == []
    assert shown("--from-offset", positions[20], "--to-offset", positions[33]) == positions[20:33]


def test_behind_a_broken_record_the_next_one_follows(tmp_path: Path) -> None:
    root = built(tmp_path)
    whole = messages(dump(root))
    broken = whole[5]
    overwrite(root / FIRST_FILE, broken["position"] + 4, b"\0\0\0\0")

    run = rmqstore("dump", root, "--format", "json")

    assert run.status == 0
    assert messages(run.objects) == [one for one in whole if one != broken]
    (damage,) = damages(run.objects)
    assert (damage["physical_offset"], damage["length"], damage["reason"]) == (broken["position"], broken["size"], "illegal_magic")
    assert damage["file"] == FIRST_FILE
    assert run.err == f"DAMAGED: 1 damaged range, {broken['size']} bytes; run `rmqstore verify` for details\n"
    assert rmqstore("dump", root, "--format", "json", "--quiet").err == ""


def test_a_message_with_a_wrong_checksum_or_offset_is_shown_with_its_faults(tmp_path: Path) -> None:
    root = built(tmp_path)
    first, second = messages(dump(root))[:2]
    overwrite(root / FIRST_FILE, first["position"] + 88, b"X")
    overwrite(root / FIRST_FILE, second["position"] + 28, (7).to_bytes(8, "big"))

    shown = messages(dump(root))

    assert shown[0] == {**first, "faults": ["body_crc"]}
    assert shown[1]["faults"] == ["physical_offset"]
    assert (shown[1]["physical_offset"], shown[1]["position"]) == (7, second["position"])
    assert all("faults" not in one for one in shown[2:])


def test_the_zero_end_is_no_damage_but_a_zeroed_middle_is(tmp_path: Path) -> None:
    root = built(tmp_path, 80)
    whole = messages(dump(root))
    in_second = [one for one in whole if one["position"] // LOG_FILE_SIZE == 1]
    from_here = in_second[3]["position"]
    overwrite(root / "commitlog/00000000000000004096", from_here - LOG_FILE_SIZE, bytes(2 * LOG_FILE_SIZE - from_here))

    objects = dump(root)

    assert damages(dump(built(tmp_path / "sound"))) == []
    (damage,) = damages(objects)
    assert (damage["physical_offset"], damage["length"], damage["reason"]) == (from_here, 2 * LOG_FILE_SIZE - from_here, "unwritten")
    assert messages(objects) == [one for one in whole if not from_here <= one["position"] < 2 * LOG_FILE_SIZE]


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    root = built(tmp_path, 80)
    (root / "commitlog/00000000000000004096").unlink()

    (damage,) = damages(dump(root))

    assert (damage["physical_offset"], damage["length"], damage["reason"]) == (LOG_FILE_SIZE, LOG_FILE_SIZE, "missing_file")


def test_nothing_behind_a_blank_is_shown(tmp_path: Path) -> None:
    root = built(tmp_path)
    objects = dump(root)
    blank = next(one for one in objects if one["type"] == "blank")
    leftover = messages(objects)[0]
    data = (root / FIRST_FILE).read_bytes()[: leftover["size"]]
    stale = data[:28] + (blank["physical_offset"] + 8).to_bytes(8, "big") + data[36:]
    overwrite(root / FIRST_FILE, blank["physical_offset"] + 8, stale[: blank["size"] - 8])

    assert dump(root) == objects


def test_records_behind_a_wrong_blank_are_shown(tmp_path: Path) -> None:
    root = built(tmp_path)
    whole = messages(dump(root))
    broken = whole[5]
    overwrite(root / FIRST_FILE, broken["position"] + 4, record.BLANK_MAGIC.to_bytes(4, "big"))

    objects = dump(root)

    assert messages(objects) == [one for one in whole if one != broken]
    (damage,) = damages(objects)
    assert (damage["physical_offset"], damage["length"], damage["reason"]) == (broken["position"], broken["size"], "blank")


def test_a_torn_end_is_damage_without_the_zeros_behind_it(tmp_path: Path) -> None:
    root = built(tmp_path, 5)
    last = messages(dump(root))[-1]
    overwrite(root / FIRST_FILE, last["position"] + 60, bytes(last["size"] - 60))

    (damage,) = damages(dump(root))

    assert damage["physical_offset"] == last["position"]
    assert 0 < damage["length"] <= 60


def test_a_lone_file_under_another_name_knows_its_offset(tmp_path: Path) -> None:
    root = built(tmp_path)
    copy = tmp_path / "copy.bin"
    copy.write_bytes((root / "commitlog/00000000000000004096").read_bytes())

    objects = dump(copy)

    assert all("faults" not in one for one in objects)
    assert messages(objects) == [one for one in messages(dump(root)) if one["position"] // LOG_FILE_SIZE == 1]


def test_deliver_times_follow_the_configured_delay_levels(tmp_path: Path) -> None:
    StoreBuilder(tmp_path).message("SCHEDULE_TOPIC_XXXX", queue_id=1, tags="TagA", properties={"DELAY": "2"}).build()

    (standard,) = dump(tmp_path)
    (other,) = dump(tmp_path, "--set", "messageDelayLevel=1s 7s")

    assert standard["tags_code"] == FIRST_TIMESTAMP + 1 + 5000
    assert other["tags_code"] == FIRST_TIMESTAMP + 1 + 7000


# Damage at the edges of what is asked for


@pytest.mark.parametrize("field", [4, 92], ids=["magic", "body"])
def test_a_dump_from_a_damaged_record_on_tells_it(field: int, tmp_path: Path) -> None:
    root = built(tmp_path)
    places = [one["physical_offset"] for one in messages(dump(root))]
    overwrite(root / FIRST_FILE, places[5] + field, b"\xff")

    first, second = dump(root, "--from-offset", places[5])[:2]

    assert second["physical_offset"] == places[6]
    if field == 4:
        assert (first["type"], first["physical_offset"], first["length"]) == ("damage", places[5], places[6] - places[5])
    else:
        assert (first["type"], first["physical_offset"], first["faults"]) == ("message", places[5], ["body_crc"])


def test_a_dump_from_within_a_damaged_range_tells_the_rest_of_it(tmp_path: Path) -> None:
    root = built(tmp_path)
    places = [one["physical_offset"] for one in messages(dump(root))]
    overwrite(root / FIRST_FILE, places[5], b"\xee" * (places[7] - places[5]))

    first, second = dump(root, "--from-offset", places[6])[:2]

    assert (first["type"], first["physical_offset"], first["length"]) == ("damage", places[6], places[7] - places[6])
    assert second["physical_offset"] == places[7]


@pytest.mark.parametrize("inside", [1, 5, 30, 100])
def test_a_dump_from_within_a_sound_record_or_blank_tells_no_damage(inside: int, tmp_path: Path) -> None:
    root = built(tmp_path)
    everything = dump(root)
    for number in (5, next(i for i, one in enumerate(everything) if one["type"] == "blank")):
        one, *following = everything[number:]
        assert dump(root, "--from-offset", one["physical_offset"] + min(inside, one["size"] - 1)) == following


@pytest.mark.parametrize("count", [1, 7, 200, 999])
def test_the_last_objects_of_a_log_larger_than_what_is_read_first(count: int, tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path, log_file_size=1 << 20)
    for number in range(300):
        # A body that looks like a record, where reading begins, must not count.
        builder.message("TopicA", bytes(4) + record.MESSAGE_MAGIC_V1.to_bytes(4, "big") + bytes(900 + number), tags=f"Tag{number % 3}")
    root = builder.build()
    everything = dump(root)
    assert dump(root, "--tail", count) == everything[-count:]
    second = [one for one in everything if one["tags"] == "Tag1"]
    assert dump(root, "--tail", count, "--tag", "Tag1") == second[-count:]
    place = everything[100]["physical_offset"]
    assert dump(root, "--tail", count, "--to-offset", place) == everything[:100][-count:]
    assert dump(root, "--tail", count, "--from-offset", place) == everything[100:][-count:]
    overwrite(root / FIRST_FILE, everything[-3]["physical_offset"] + 4, b"bad!")
    assert dump(root, "--tail", count) == dump(root)[-count - (count > 2) :]


def test_the_last_objects_with_what_is_missing_between_their_files(tmp_path: Path) -> None:
    root = built(tmp_path, 100)
    files = sorted((root / "commitlog").iterdir())
    last = len(dump(files[-1]))
    files[-2].unlink()

    shown = dump(root, "--tail", last + 2)

    assert [one["type"] for one in shown].count("damage") == 1
    gap = damages(shown)[0]
    assert (gap["physical_offset"], gap["length"], gap["reason"]) == (int(files[-2].name), LOG_FILE_SIZE, "missing_file")
    assert shown.index(gap) == 2
    assert damages(dump(root, "--tail", last)) == []


def test_the_last_objects_with_a_file_that_was_never_finished(tmp_path: Path) -> None:
    root = built(tmp_path)
    files = sorted((root / "commitlog").iterdir())
    first_of_last = dump(files[-1])[0]["physical_offset"]
    in_last = len(dump(files[-1]))
    blank = dump(files[-2])[-1]
    overwrite(files[-2], blank["physical_offset"] - int(files[-2].name), bytes(8))

    shown = dump(root, "--tail", in_last + 3)

    assert [one["type"] for one in shown[:4]] == ["message", "message", "message", "damage"]
    assert (shown[3]["reason"], shown[3]["physical_offset"], shown[4]["physical_offset"]) == (
        "unwritten",
        blank["physical_offset"],
        first_of_last,
    )


def test_a_damage_costs_the_same_in_a_log_of_any_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A search for holes costs as much as the file is long on some file systems.
    searches: list[int] = []
    seek = os.lseek
    monkeypatch.setattr(os, "lseek", lambda *arguments: (searches.append(1), seek(*arguments))[1])

    def cost(count: int) -> int:
        root = built(tmp_path / str(count))
        for one in dump(root)[: count * 2 : 2]:
            overwrite(root / FIRST_FILE, one["physical_offset"] + 4, b"bad!")
        searches.clear()
        assert sum(one["type"] == "damage" for one in dump(root)) == count
        return len(searches)

    assert cost(12) == cost(3)
