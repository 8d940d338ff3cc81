"""Every part of a store that is not the commit log, as objects."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from rmqstore.formats import index, tiered_index, timer
from rmqstore.formats.consumequeue_ext import decode_address
from rmqstore.formats.javahash import index_key_hash
from tests.support.builder import FIRST_TIMESTAMP, StoreBuilder
from tests.support.cli import rmqstore
from tests.support.stores import sample_store


def dump(path: Path, *options: str | int) -> list[dict[str, Any]]:
    run = rmqstore("dump", path, "--format", "json", *map(str, options))
    assert run.status == 0, run.err
    return run.objects


def small_store(root: Path) -> Path:
    builder = StoreBuilder(root, slots=7, items=40)
    for number in range(6):
        builder.message("TopicA", b"x" * number, queue_id=number % 2, tags="TagA", keys=f"k{number}")
    return builder.build()


def test_units_of_all_queues(tmp_path: Path) -> None:
    root = small_store(tmp_path)
    places = [(one["physical_offset"], one["size"]) for one in dump(root)]

    units = dump(root, "--part", "consumequeue")

    assert [(one["queue_id"], one["queue_offset"]) for one in units] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert [(one["physical_offset"], one["size"]) for one in units] == places[::2] + places[1::2]
    assert units[1] == {
        "type": "unit",
        "schema": 1,
        "topic": "TopicA",
        "queue_id": 0,
        "queue_offset": 1,
        "physical_offset": places[2][0],
        "size": places[2][1],
        "tags_code": 2598919,
        "file": "consumequeue/TopicA/0/00000000000000000000",
        "position": 20,
    }
    assert dump(root, "--part", "consumequeue", "--queue", 1, "--queue-offset", 2) == [units[5]]
    assert dump(root, "--part", "consumequeue", "--tag", "TagA") == units
    assert dump(root, "--part", "consumequeue", "--tag", "TagB") == []
    assert dump(root, "--part", "consumequeue", "--tail", 2) == units[4:]


def test_a_queue_out_of_its_tree(tmp_path: Path) -> None:
    root = small_store(tmp_path)
    whole = [{**one, "file": ""} for one in dump(root, "--part", "consumequeue")]

    def shown(path: Path) -> list[dict[str, Any]]:
        return [{**one, "file": ""} for one in dump(path)]

    assert shown(root / "consumequeue/TopicA/1/00000000000000000000") == whole[3:]
    assert shown(root / "consumequeue/TopicA/1") == whole[3:]
    assert shown(root / "consumequeue/TopicA") == whole
    assert shown(root / "consumequeue") == whole


def test_pre_blanks_and_holes(tmp_path: Path) -> None:
    StoreBuilder(tmp_path, queue_file_size=200).message(queue_offset=12).message().message().message().build()
    path = tmp_path / "consumequeue/TopicA/0/00000000000000000200"
    data = bytearray(path.read_bytes())
    data[60:80] = bytes(20)
    path.write_bytes(data)

    objects = dump(tmp_path, "--part", "consumequeue")

    assert [one["type"] for one in objects] == ["pre_blank", "pre_blank", "unit", "damage", "unit", "unit"]
    assert [one.get("queue_offset") for one in objects] == [10, 11, 12, None, 14, 15]
    assert (objects[3]["position"], objects[3]["length"], objects[3]["reason"]) == (60, 20, "unwritten")
    for one in objects:
        if one["type"] != "damage":
            assert dump(tmp_path, "--part", "consumequeue", "--topic", "TopicA", "--queue-offset", one["queue_offset"]) == [one]
    assert dump(tmp_path, "--part", "consumequeue", "--queue-offset", 13) == []
    assert dump(tmp_path, "--part", "consumequeue", "--queue-offset", 16) == []
    assert dump(tmp_path, "--part", "consumequeue", "--tail", 3) == objects[2:3] + objects[3:]


def test_index_items_with_their_slots(tmp_path: Path) -> None:
    root = small_store(tmp_path)
    places = [one["physical_offset"] for one in dump(root)]

    header, *items = dump(root, "--part", "index")

    assert header["type"] == "index_header"
    assert (header["index_count"], header["slots"]) == (7, 7)
    assert (header["begin_timestamp"], header["end_timestamp"]) == (FIRST_TIMESTAMP + 1, FIRST_TIMESTAMP + 6)
    assert [one["item"] for one in items] == [1, 2, 3, 4, 5, 6]
    assert [one["physical_offset"] for one in items] == places
    slots = {one["slot"]: one["item_number"] for one in dump(root, "--part", "index", "--slots") if one["type"] == "index_slot"}
    assert slots == {one["slot"]: one["item"] for one in items}
    assert [one["item"] for one in dump(root, "--part", "index", "--topic", "TopicA", "--key", "k4") if one["type"] == "index_item"] == [5]


def test_index_entries_of_a_key_are_those_that_a_broker_finds(tmp_path: Path) -> None:
    root = tmp_path / "store"
    builder = StoreBuilder(root, slots=2, items=40)
    for number in range(8):
        builder.message("TopicA", keys="same" if number % 2 else f"k{number}")
    builder.build()
    (path,) = (root / "index").iterdir()
    everything = [one for one in dump(root, "--part", "index") if one["type"] == "index_item"]

    def shown() -> list[dict[str, Any]]:
        return dump(root, "--part", "index", "--topic", "TopicA", "--key", "same")

    same = [one for one in everything if one["key_hash"] == index_key_hash("TopicA", "same")]
    assert len(same) == 4
    assert shown() == same

    data = bytearray(path.read_bytes())
    data[same[2]["position"] + 16 : same[2]["position"] + 20] = struct.pack(">i", same[2]["item"])  # a link to itself
    path.write_bytes(data)
    damage, *found = shown()
    assert (damage["type"], damage["reason"], damage["position"], damage["length"]) == ("damage", "chain", same[2]["position"], 20)
    assert [one["item"] for one in found] == [one["item"] for one in same]

    data[same[2]["position"] + 16 : same[2]["position"] + 20] = bytes(4)  # the end of the chain
    path.write_bytes(data)
    assert [one["item"] for one in shown()] == [one["item"] for one in same[2:]]

    data[index.slot_position(same[0]["slot"]) : index.slot_position(same[0]["slot"]) + 4] = struct.pack(">i", 1000)
    path.write_bytes(data)
    damage, *found = shown()
    assert (damage["reason"], damage["position"], damage["length"]) == ("chain", index.slot_position(same[0]["slot"]), 4)
    assert [one["item"] for one in found] == [one["item"] for one in same]


@pytest.mark.parametrize("slots", [1, 13, 1000])
def test_the_number_of_slots_is_found_out(tmp_path: Path, slots: int) -> None:
    builder = StoreBuilder(tmp_path, slots=slots, items=100)
    builder.message(keys="a b c", store_timestamp=FIRST_TIMESTAMP).message(keys="d").build()

    assert dump(tmp_path, "--part", "index")[0]["slots"] == slots


def test_an_index_whose_slots_cannot_be_told(tmp_path: Path) -> None:
    path = tmp_path / "20240101000000000"
    path.write_bytes(struct.pack(">qqqqii", FIRST_TIMESTAMP, FIRST_TIMESTAMP, 5, 9, 1, 2) + bytes(404))

    run = rmqstore("dump", path, "--part", "index", "--format", "json")

    assert run.status == 2
    assert "maxHashSlotNum" in run.err


def test_checkpoint_abort_and_lock(tmp_path: Path) -> None:
    root = small_store(tmp_path)
    (root / "checkpoint").write_bytes(struct.pack(">6q", 1, 2, 3, 4, 5, 6).ljust(4096, b"\0"))
    (root / "abort").write_text("4711")

    assert dump(root / "checkpoint") == [
        {
            "type": "checkpoint",
            "schema": 1,
            "physic_msg_timestamp": 1,
            "logics_msg_timestamp": 2,
            "index_msg_timestamp": 3,
            "master_flushed_offset": 4,
            "confirm_phy_offset": 5,
            "logics_physical_offset": 6,
            "file": "checkpoint",
        }
    ]
    assert dump(root, "--part", "checkpoint") == dump(root / "checkpoint")
    assert dump(root, "--part", "abort") == [{"type": "abort", "schema": 1, "content": "4711", "process_id": 4711, "file": "abort"}]
    assert dump(root, "--part", "lock") == [{"type": "lock", "schema": 1, "content": "lock", "as_written": True, "file": "lock"}]


def test_ext_units_are_found_by_the_addresses_in_the_queue() -> None:
    root = sample_store("5.3.3-cqext")
    units = dump(root, "--part", "consumequeue_ext")

    at = {(one["topic"], one["queue_id"], decode_address(one["address"])): one for one in units}
    # Queue entries of the same queue hold addresses below -2**31; each must be the start of an ext unit.
    queue = [one for one in dump(root, "--part", "consumequeue") if one["type"] == "unit" and one["tags_code"] < -(2**31)]
    assert queue
    assert all((one["topic"], one["queue_id"], one["tags_code"] + 2**63) in at for one in queue)


def test_batch_units_count_their_messages() -> None:
    root = sample_store("5.1.4-batchcq")
    records = {one["position"]: one for one in dump(root) if one["type"] == "message"}

    units = dump(root, "--part", "batchconsumequeue")

    assert units
    for one in units:
        properties = records[one["physical_offset"]]["properties"]
        assert one["batch_size"] == int(properties.get("INNER_NUM", 1))
        assert one["store_time"] == records[one["physical_offset"]]["store_timestamp"]


def test_dledger_entries_hold_the_messages() -> None:
    root = sample_store("broker-5.3.3-dledger-clean")
    entries = [one for one in dump(root) if one["type"] == "dledger_entry"]
    index = dump(root, "--part", "dledger_index")

    assert [one["index"] for one in entries] == list(range(len(entries)))
    assert all(one["message"]["physical_offset"] == one["position"] + 48 and "faults" not in one["message"] for one in entries)
    assert [(one["pos"], one["size"]) for one in index] == [(one["pos"], one["size"]) for one in entries]
    topics = {one["message"]["topic"] for one in dump(root, "--topic", "orders")}
    assert topics == {"orders"}


def test_the_timer_of_a_whole_broker() -> None:
    root = sample_store("broker-5.5.1-crash")
    units = {one["log_position"]: one for one in dump(root, "--part", "timerlog") if one["type"] == "timer_unit"}
    slots = dump(root, "--part", "timerwheel")

    assert units
    assert slots
    # Precision is one second: the newest unit of a slot is due at the slot's time.
    newest = [(one, units[one["last_pos"]]) for one in slots if one["last_pos"] in units]
    assert newest
    assert all(unit["write_time"] + unit["delay"] == slot["time"] * 1000 for slot, unit in newest)
    (check,) = dump(root, "--part", "timercheck")
    assert check["last_timer_log_flush_pos"] in {*units, max(units) + timer.LOG_UNIT_SIZE}


def test_compacted_topics() -> None:
    root = sample_store("broker-5.3.3-cqext-crash")
    log = dump(root, "--part", "compaction_log")
    queue = dump(root, "--part", "compaction_queue")

    assert log
    assert all("faults" not in one for one in log)
    units = [(one["physical_offset"], one["size"], one["msg_base_offset"]) for one in queue if one["type"] == "batch_unit"]
    assert units == [(one["position"], one["size"], one["queue_offset"]) for one in log if one["type"] == "message"]


def test_directories_of_the_compaction_store() -> None:
    root = sample_store("broker-5.3.3-cqext-crash")
    log, queue = dump(root, "--part", "compaction_log"), dump(root, "--part", "compaction_queue")
    directory = root / "compaction"

    assert dump(directory) == dump(directory / "compactionLog") == log
    for found in (dump(directory, "--part", "compaction_queue"), dump(directory / "compactionCq")):
        assert [{**one, "file": None} for one in found] == [{**one, "file": None} for one in queue]  # names begin at the directory
    second = [one for one in log if one["queue_id"] == 1]
    assert second
    assert dump(directory, "--topic", "compact", "--queue", "1") == dump(directory / "compactionLog" / "compact" / "1") == second


def test_epochs_positions_settings_and_json(tmp_path: Path) -> None:
    (tmp_path / "epochFileCheckpoint").write_text("2\n0\n1-0\n2-4096\n")
    (tmp_path / "position-checkpoint").write_text('{"empty":false,"queueOffsetMap":{"a_b_3":17}}')
    (tmp_path / "broker.conf").write_text("# comment\nbrokerName = one\\\n two\n")
    (tmp_path / "consumerOffset.json").write_text('{"offsetTable":{"a{1:\\"2@g":{0:153,1:-2}}}')

    header, *epochs = dump(tmp_path / "epochFileCheckpoint")
    assert (header["entries"], header["checksum_matches"]) == (2, True)
    assert [(one["epoch"], one["start_offset"]) for one in epochs] == [(1, 0), (2, 4096)]
    assert [(one["topic"], one["queue_id"], one["queue_offset"]) for one in dump(tmp_path / "position-checkpoint")] == [("a_b", 3, 17)]
    assert [(one["key"], one["value"]) for one in dump(tmp_path / "broker.conf")] == [("brokerName", "onetwo")]
    (config,) = dump(tmp_path / "consumerOffset.json")
    assert config["content"] == {"offsetTable": {'a{1:"2@g': {"0": 153, "1": -2}}}


def test_a_small_file_of_nonsense_is_damage(tmp_path: Path) -> None:
    (tmp_path / "topics.json").write_text('{"a":')

    (one,) = dump(tmp_path / "topics.json")

    assert (one["type"], one["reason"], one["length"]) == ("damage", "unparsable", 5)


def test_both_forms_of_a_tiered_index(tmp_path: Path) -> None:
    header = {
        "magic": tiered_index.BEGIN_MAGIC,
        "begin_timestamp": FIRST_TIMESTAMP,
        "end_timestamp": FIRST_TIMESTAMP,
        "slot_count": 1,
        "item_count": 1,
    }
    item = {"key_hash": 5, "topic_id": 6, "queue_id": 7, "offset": 8, "size": 9, "time_diff": 3, "prev_index": 0}
    open_file = bytearray(tiered_index.GENERATION_5_2.file_size(10, 40))
    open_file[:28] = tiered_index.HEADER.build(header)
    open_file[28 + 5 * 8 : 28 + 6 * 8] = struct.pack(">ii", 1, 0)
    position = 28 + 10 * 8 + 32
    open_file[position : position + 32] = tiered_index.ITEM.build(item)
    compacted = (
        tiered_index.HEADER.build({**header, "magic": tiered_index.END_MAGIC})
        + bytes(5 * 8)
        + struct.pack(">ii", 28 + 80, 28)
        + bytes(4 * 8)
    )
    compacted += tiered_index.COMPACTED_ITEM.build(item)

    for data, number in ((bytes(open_file), 1), (compacted, 0)):
        path = tmp_path / "1700000000000"
        path.write_bytes(data)
        shown = dump(path, "--part", "tiered_index", "--slots")
        assert [one["type"] for one in shown] == ["tiered_index_header", "tiered_index_slot", "tiered_index_item"]
        assert shown[0]["slots"] == 10
        assert shown[1]["slot"] == 5
        assert (shown[2]["item"], shown[2]["offset"], shown[2]["queue_id"], shown[2]["position"]) == (
            number,
            8,
            7,
            len(data) - 28 if not number else position,
        )


def test_json_keys_are_only_quoted_where_they_are_keys(tmp_path: Path) -> None:
    content = {"text": '{1:2,"3:4', "deep": {"5": [1, {"6": None}]}}
    path = tmp_path / "x.json"
    path.write_text(json.dumps(content).replace('"5"', " 5 ").replace('"6"', "6"))

    assert dump(path)[0]["content"] == content
