"""Findings about consume queues, unit by unit: what each injury is called and where, and which odd queues are in good health."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqstore.findings import Severity
from rmqstore.formats import batchconsumequeue, consumequeue_ext
from rmqstore.formats.consumequeue import PRE_BLANK, UNIT_SIZE
from rmqstore.formats.naming import SCHEDULE_TOPIC
from tests.support.builder import FIRST_TIMESTAMP, StoreBuilder
from tests.verify.small_stores import SIZE, TAGS_CODE, codes, filled, log_name, patch, patch_unit, place, queue_name, unit, verified

WHERE = ("file", "position", "length", "offset", "queue_offset")


@pytest.fixture
def six(tmp_path: Path) -> StoreBuilder:
    """Six messages in one queue."""
    builder = filled(StoreBuilder(tmp_path), 6)
    builder.build()
    return builder


def beyond(count: int) -> bytes:
    return b"".join(unit(100_000 + number * SIZE) for number in range(count))


@pytest.mark.parametrize(
    ("start", "data", "expected"),
    [
        (1, unit(7), ("CQ-UNIT", 20, 20, SIZE, 1)),
        (1, unit(2 * SIZE), ("CQ-SHIFTED", 20, 20, SIZE, 1)),
        (1, unit(-1), ("CQ-UNIT", 20, 20, SIZE, 1)),
        (1, unit(2**63 - 1), ("CQ-UNIT", 20, 20, SIZE, 1)),
        (1, unit(SIZE, SIZE + 1), ("CQ-SIZE", 20, 20, SIZE, 1)),
        (1, unit(SIZE, -1), ("CQ-SIZE", 20, 20, SIZE, 1)),
        (1, unit(SIZE, tags_code=0), ("CQ-TAGS", 20, 20, SIZE, 1)),
        (1, bytes(20), ("CQ-HOLE", 20, 20, SIZE, 1)),
        (1, bytes(40), ("CQ-HOLE", 20, 40, SIZE, 1)),
        (0, bytes(20), ("CQ-HOLE", 0, 20, 0, 0)),
        (4, bytes(40), ("CQ-BEHIND", 80, 40, 4 * SIZE, 4)),
        (2, PRE_BLANK, ("CQ-PREBLANK", 40, 20, 2 * SIZE, 2)),
        (6, PRE_BLANK, ("CQ-PREBLANK", 120, 20, None, 6)),
        (6, beyond(1), ("CQ-BEYOND", 120, 20, 100_000, 6)),
        (6, beyond(3), ("CQ-BEYOND", 120, 60, 100_000, 6)),
        (6, unit(7), ("CQ-UNIT", 120, 20, 7, 6)),
        (6, unit(-5), ("CQ-UNIT", 120, 20, None, 6)),
        (6, unit(2 * SIZE), ("CQ-SHIFTED", 120, 20, 2 * SIZE, 6)),
        (7, unit(2 * SIZE), ("CQ-STALE", 140, 20, 2 * SIZE, 7)),
        (8, beyond(2), ("CQ-STALE", 160, 40, 100_000, 8)),
    ],
)
def test_one_injury_is_one_finding(six: StoreBuilder, start: int, data: bytes, expected: tuple[object, ...]) -> None:
    patch_unit(six.root, start, data)

    (finding,) = verified(six)

    code, position, length, offset, queue_offset = expected
    assert place(finding, *WHERE, "topic", "queue_id") == (code, queue_name(), position, length, offset, queue_offset, "TopicA", 0)


def test_the_evidence(six: StoreBuilder) -> None:
    patch_unit(six.root, 1, unit(SIZE, tags_code=5))
    patch_unit(six.root, 2, unit(2 * SIZE, 99))
    patch_unit(six.root, 3, unit(7))

    found = {finding.code.removeprefix("RMQ-"): (finding.expected, finding.found) for finding in verified(six)}

    assert found == {"CQ-TAGS": (TAGS_CODE, 5), "CQ-SIZE": (SIZE, 99), "CQ-UNIT": (3 * SIZE, 7)}


def test_units_that_moved(six: StoreBuilder) -> None:
    patch_unit(six.root, 2, b"".join(unit(number * SIZE) for number in (3, 4, 5)) + bytes(20))

    shifted, behind = verified(six)

    assert place(shifted, "queue_offset", "length", "found") == ("CQ-SHIFTED", 2, 60, 3 * SIZE)
    assert place(behind, "queue_offset", "length") == ("CQ-BEHIND", 5, 20)


def test_units_of_one_piece_are_told_apart(six: StoreBuilder) -> None:
    patch_unit(six.root, 1, unit(7) + unit(8) + unit(4 * SIZE) + PRE_BLANK)

    assert [place(finding, "queue_offset", "length", "found") for finding in verified(six)] == [
        ("CQ-UNIT", 1, 40, 7),
        ("CQ-SHIFTED", 3, 20, 4 * SIZE),
        ("CQ-PREBLANK", 4, 20, 0),
    ]


def test_what_many_units_point_at_is_counted(six: StoreBuilder) -> None:
    patch_unit(six.root, 6, unit(2 * SIZE) * 30)

    *told, last = verified(six)

    assert [place(finding, "queue_offset") for finding in told] == [("CQ-SHIFTED", 6 + number) for number in range(20)]
    assert (last.code, last.message) == ("RMQ-CQ-SHIFTED", "10 more findings of this kind below 0")


def test_units_that_are_too_many_to_look_at_are_told(six: StoreBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqstore.verify.queues.targets._STEPS", 1)
    patch_unit(six.root, 6, unit(2 * SIZE))
    shutil.copytree(six.root / "consumequeue/TopicA/0", six.root / "consumequeue/TopicA/1")

    looked_at, other = verified(six)

    assert place(looked_at, "queue_id", "queue_offset", "length") == ("CQ-SHIFTED", 0, 6, 20)
    assert place(other, "queue_id", "queue_offset", "length") == ("CQ-SURPLUS", 1, 0, 7 * UNIT_SIZE)
    assert "was not verified" in other.message


def test_the_last_possible_queue_offset(six: StoreBuilder) -> None:
    patch(six.root / log_name(), 5 * SIZE + 20, (2**63 - 1).to_bytes(8, "big"))

    behind = next(finding for finding in verified(six) if finding.code == "RMQ-CQ-BEHIND")

    assert place(behind, "queue_offset", "length", "offset") == ("CQ-BEHIND", 2**63 - 1, 20, 5 * SIZE)


def test_what_a_crash_leaves(tmp_path: Path) -> None:
    builder = filled(StoreBuilder(tmp_path), 6)
    builder.crash().build()
    patch_unit(tmp_path, 4, bytes(40))

    told = {finding.code: finding.severity for finding in verified(builder)}

    assert told["RMQ-CQ-BEHIND"] is Severity.WARNING
    assert Severity.ERROR not in told.values()


def test_units_of_another_queue(six: StoreBuilder) -> None:
    shutil.copytree(six.root / "consumequeue/TopicA/0", six.root / "consumequeue/TopicA/1")

    (finding,) = verified(six)

    assert place(finding, "file", "length", "queue_id") == ("CQ-SURPLUS", queue_name(queue_id=1), 6 * UNIT_SIZE, 1)


def test_a_missing_queue(six: StoreBuilder) -> None:
    shutil.rmtree(six.root / "consumequeue/TopicA/0")

    (finding,) = verified(six)

    assert place(finding, "topic", "queue_id", "offset", "expected", "found") == ("CQ-MISSING", "TopicA", 0, 0, 6, 0)


@pytest.mark.parametrize(("configured", "code"), [("TopicB", "CQ-DELETED"), ("TopicA", "CQ-MISSING")])
def test_a_missing_queue_of_a_topic_that_is_not_configured(six: StoreBuilder, configured: str, code: str) -> None:
    shutil.rmtree(six.root / "consumequeue/TopicA/0")
    (six.root / "config").mkdir()
    (six.root / "config/topics.json").write_text(json.dumps({"topicConfigTable": {configured: {}}}))

    assert code in codes(verified(six))


def test_queues_of_half_messages_and_rollbacks_have_no_units(tmp_path: Path) -> None:
    builder = filled(StoreBuilder(tmp_path), 2)
    builder.message(sys_flag=4, queue_offset=0, topic="TopicB").message(sys_flag=12, queue_offset=0, topic="TopicB")
    builder.build()

    assert verified(builder) == []


@pytest.mark.parametrize("sys_flag", [4, 12])
def test_a_unit_of_a_half_message(six: StoreBuilder, sys_flag: int) -> None:
    patch(six.root / log_name(), 2 * SIZE + 39, bytes([sys_flag]))

    assert place(next(f for f in verified(six) if "CQ" in f.code), *WHERE) == ("CQ-SURPLUS", queue_name(), 40, 20, 2 * SIZE, 2)


# Files of a queue


@pytest.fixture
def files(tmp_path: Path) -> StoreBuilder:
    """A queue whose files hold five units each."""
    builder = filled(StoreBuilder(tmp_path, queue_file_size=5 * UNIT_SIZE), 9)
    filled(builder, 8, keys="kx")
    builder.build()
    return builder


def test_a_missing_queue_file_in_the_middle(files: StoreBuilder) -> None:
    (files.root / queue_name(100)).unlink()

    between, missing = verified(files)

    assert place(between, "file", "expected", "found") == ("CQ-GAP", queue_name(200), 100, 200)
    assert place(missing, "length", "offset", "queue_offset") == ("CQ-GAP", 100, 5 * SIZE, 5)


def test_a_missing_last_queue_file(files: StoreBuilder) -> None:
    (files.root / queue_name(300)).unlink()

    (finding,) = verified(files)

    assert place(finding, "length", "queue_offset", "expected", "found") == ("CQ-BEHIND", 40, 15, 17, 15)


def test_a_queue_file_of_zeros_at_the_end(files: StoreBuilder) -> None:
    (files.root / queue_name(400)).write_bytes(bytes(100))

    (finding,) = verified(files)

    assert place(finding, "file", "position", "length") == ("CQ-ZEROFILE", queue_name(400), 0, 100)


def test_lengths_and_names_of_queue_files(files: StoreBuilder) -> None:
    (files.root / queue_name(400)).touch()
    (files.root / "consumequeue/TopicA/0/notes").write_bytes(b"x")
    path = files.root / queue_name(100)
    path.write_bytes(path.read_bytes()[:90])

    found = {finding.code.removeprefix("RMQ-"): finding.file for finding in verified(files) if finding.position is None}

    assert found["CQ-ZEROLEN"] == queue_name(400)
    assert found["CQ-NAME"] == "consumequeue/TopicA/0/notes"
    assert found["CQ-FILELEN"] == queue_name(100)


def test_a_file_name_between_two_units(files: StoreBuilder) -> None:
    (files.root / queue_name(300)).rename(files.root / queue_name(311))

    assert {"CQ-GAP", "CQ-BEHIND"} & set(codes(verified(files)))


# The beginning of a queue


def test_a_queue_that_begins_with_filler(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path, queue_file_size=100)
    filled(builder.message(queue_offset=7, tags="T", keys="k"), 5).build()

    assert verified(builder) == []


def test_nothing_but_filler(six: StoreBuilder) -> None:
    path = six.root / queue_name(topic="TopicX")
    path.parent.mkdir(parents=True)
    path.write_bytes((PRE_BLANK * 7).ljust(2000, b"\0"))

    (finding,) = verified(six)

    assert place(finding, "file", "position", "length", "topic") == ("CQ-PREBLANK-ONLY", queue_name(topic="TopicX"), 0, 140, "TopicX")


@pytest.fixture
def expired(tmp_path: Path) -> StoreBuilder:
    """Nine messages, the first four of which lay in a log file that was deleted."""
    builder = filled(StoreBuilder(tmp_path, log_file_size=500), 9)
    (builder.build() / log_name()).unlink()
    return builder


def test_units_of_expired_messages(expired: StoreBuilder) -> None:
    (finding,) = verified(expired)

    assert place(finding, *WHERE, "severity") == ("CQ-EXPIRED", queue_name(), 0, 80, 0, 0, Severity.INFO)


def test_expired_units_behind_live_ones(expired: StoreBuilder) -> None:
    patch_unit(expired.root, 9, unit(SIZE))

    told = {finding.code.removeprefix("RMQ-"): finding for finding in verified(expired)}

    assert place(told["CQ-ORDER"], *WHERE) == ("CQ-ORDER", queue_name(), 180, 20, SIZE, 9)


def test_filler_and_expired_units_together(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path, log_file_size=500, queue_file_size=200)
    builder.message(queue_offset=3, tags="T", keys="k0")
    filled(builder, 8)
    (builder.build() / log_name()).unlink()

    (finding,) = verified(builder)

    assert place(finding, "position", "length", "queue_offset") == ("CQ-EXPIRED", 60, 80, 3)


# Queues that were made anew


def recreated(tmp_path: Path, before: int, after: int, log_file_size: int = 64 * 1024) -> StoreBuilder:
    """The topic was deleted behind `before` messages and got `after` more when it was there again."""
    builder = filled(StoreBuilder(tmp_path, log_file_size=log_file_size), before)
    del builder.queues["TopicA", 0]
    return filled(builder.message(queue_offset=0, tags="T", keys="kx"), after - 1)


@pytest.mark.parametrize("log_file_size", [500, 64 * 1024])
@pytest.mark.parametrize(("before", "after"), [(5, 3), (3, 5), (4, 4), (5, 1)])
def test_a_topic_made_anew(tmp_path: Path, before: int, after: int, log_file_size: int) -> None:
    builder = recreated(tmp_path, before, after, log_file_size)
    builder.build()

    (finding,) = verified(builder)

    assert place(finding, "queue_offset", "expected", "found", "severity") == ("CL-QOFFSET-RESTART", 0, before, 0, Severity.WARNING)


def test_a_topic_made_anew_that_lost_units(tmp_path: Path) -> None:
    builder = recreated(tmp_path, 6, 5)
    patch_unit(builder.build(), 3, bytes(40))

    restart, behind = verified(builder)

    assert restart.code == "RMQ-CL-QOFFSET-RESTART"
    assert place(behind, "queue_offset", "length") == ("CQ-BEHIND", 3, 40)


def test_a_damaged_queue_offset_of_zero_is_no_new_queue(six: StoreBuilder) -> None:
    patch(six.root / log_name(), 3 * SIZE + 20, bytes(8))
    patch_unit(six.root, 2, bytes(20))

    told = codes(verified(six))

    assert "CL-QOFFSET-RESTART" in told
    assert "CQ-HOLE" in told


# Tags codes


def delayed(tmp_path: Path, level: str) -> StoreBuilder:
    builder = StoreBuilder(tmp_path).message(topic=SCHEDULE_TOPIC, tags="T", properties={"DELAY": level}, queue_id=2)
    builder.build()
    return builder


@pytest.mark.parametrize("level", ["1", "3", "18", "30", "0", "-1"])
def test_delay_levels(tmp_path: Path, level: str) -> None:
    assert verified(delayed(tmp_path, level)) == []


def test_a_wrong_time_of_delivery(tmp_path: Path) -> None:
    builder = delayed(tmp_path, "3")
    patch(tmp_path / queue_name(topic=SCHEDULE_TOPIC, queue_id=2), 12, TAGS_CODE.to_bytes(8, "big"))

    (finding,) = verified(builder)

    assert place(finding, "expected", "found", "topic") == ("CQ-TAGS", FIRST_TIMESTAMP + 1 + 10_000, TAGS_CODE, SCHEDULE_TOPIC)


def test_other_delay_levels_are_a_setting(tmp_path: Path) -> None:
    levels = (2000, 4000)
    builder = StoreBuilder(tmp_path, delay_levels=levels).message(topic=SCHEDULE_TOPIC, properties={"DELAY": "2"})
    builder.build()

    assert verified(builder, {"messageDelayLevel": "2s 4s"}) == []
    assert codes(verified(builder)) == ["CQ-TAGS"]


def test_a_tag_that_is_not_utf8(tmp_path: Path) -> None:
    builder = filled(StoreBuilder(tmp_path), 1)
    fields = {
        "magic_code": 0xDAA320A7, "body_crc": 0, "queue_id": 0, "flag": 0, "queue_offset": 1, "sys_flag": 0,
        "born_timestamp": FIRST_TIMESTAMP, "born_host": "10.1.2.3:1",
        "store_timestamp": FIRST_TIMESTAMP + 2, "store_host": "10.9.8.7:10911", "reconsume_times": 0,
        "prepared_transaction_offset": 0, "body": b"", "topic": b"TopicA", "properties": b"KEYS\x01a\xffb \xed\xa0\x80\x02TAGS\x01\xc3\x02",
    }  # fmt: skip
    builder.put(fields)
    builder.build()

    assert codes(verified(builder)) == ["CL-TEXT"]


# Further queues of a record


def dispatched(tmp_path: Path, offsets: list[int]) -> StoreBuilder:
    builder = filled(StoreBuilder(tmp_path), 2)
    for offset in offsets:
        builder.message(tags="T", properties={"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b", "INNER_MULTI_QUEUE_OFFSET": f"{offset},{offset}"})
    builder.build()
    return builder


def test_light_queues(tmp_path: Path) -> None:
    assert verified(dispatched(tmp_path, [0, 1, 2])) == []


def test_a_damaged_unit_of_a_light_queue(tmp_path: Path) -> None:
    builder = dispatched(tmp_path, [0, 1, 2])
    patch(tmp_path / queue_name(topic="%LMQ%b"), 20, unit(0, tags_code=9))

    (finding,) = verified(builder)

    assert place(finding, "topic", "queue_offset") == ("CQ-UNIT", "%LMQ%b", 1)


# Ext units and batch units


def with_ext(tmp_path: Path, change: Callable[[bytearray], None] = lambda data: None) -> StoreBuilder:
    """A queue whose first two units store addresses of ext units."""
    builder = filled(StoreBuilder(tmp_path), 3)
    made = b"".join(
        consumequeue_ext.UNIT.build({"tags_code": TAGS_CODE, "msg_store_time": FIRST_TIMESTAMP + 1 + number, "filter_bit_map": b"\1" * 4})
        for number in range(2)
    )
    data = bytearray(made.ljust(4096, b"\0"))
    change(data)
    builder.file(f"consumequeue_ext/TopicA/0/{0:020d}", bytes(data)).build()
    for number in range(2):
        patch_unit(tmp_path, number, unit(number * SIZE, tags_code=consumequeue_ext.encode_address(number * 24)))
    return builder


EXT_SETTINGS = {"enableConsumeQueueExt": "true", "mappedFileSizeConsumeQueueExt": "4096"}


def test_ext_units(tmp_path: Path) -> None:
    assert verified(with_ext(tmp_path), EXT_SETTINGS) == []


@pytest.mark.parametrize(("position", "expected"), [(24 + 9, TAGS_CODE), (24 + 17, FIRST_TIMESTAMP + 2), (24 + 1, 24)])
def test_a_wrong_ext_unit(tmp_path: Path, position: int, expected: int) -> None:
    def change(data: bytearray) -> None:
        data[position] ^= 0x40

    (finding,) = verified(with_ext(tmp_path, change), EXT_SETTINGS)

    assert place(finding, "file", "position", "queue_offset", "offset", "expected") == (
        "CQ-EXT", f"consumequeue_ext/TopicA/0/{0:020d}", 24, 1, SIZE, expected,
    )  # fmt: skip


def test_an_ext_address_that_leads_nowhere(tmp_path: Path) -> None:
    builder = with_ext(tmp_path)
    patch_unit(tmp_path, 1, unit(SIZE, tags_code=consumequeue_ext.encode_address(10_000)))

    unnamed, lost = verified(builder, EXT_SETTINGS)

    assert place(lost, "queue_offset") == ("CQ-EXT", 1)
    assert place(unnamed, "position", "found") == ("CQ-EXT-ORPHAN", 24, 1)


def with_batches(tmp_path: Path, change: Callable[[bytearray], None] = lambda data: None) -> StoreBuilder:
    """A batch queue of three records with 1, 10 and 1 messages."""
    builder = StoreBuilder(tmp_path)
    units = bytearray()
    offset = 0
    for count in (1, 10, 1):
        position = builder.offset
        inner = {"INNER_NUM": str(count), "INNER_BASE": str(offset)} if count > 1 else {}
        builder.message("TopicB", tags="T", properties=inner, queue_offset=offset, sys_flag=0x80 if inner else 0)
        units += batchconsumequeue.UNIT.build(
            {
                "physical_offset": position, "size": builder.offset - position, "tags_code": TAGS_CODE,
                "store_time": builder.store_timestamp,
                "msg_base_offset": offset, "batch_size": count, "compacted_offset": -1, "reserved": 0,
            }
        )  # fmt: skip
        offset += count
    del builder.queues["TopicB", 0]
    data = bytearray(bytes(units).ljust(46 * 20, b"\0"))
    change(data)
    builder.file(f"batchconsumequeue/TopicB/0/{0:020d}", bytes(data)).build()
    return builder


BATCH_SETTINGS = {"mapperFileSizeBatchConsumeQueue": str(46 * 20)}
BATCH_FILE = f"batchconsumequeue/TopicB/0/{0:020d}"


def test_batch_units(tmp_path: Path) -> None:
    assert verified(with_batches(tmp_path), BATCH_SETTINGS) == []


@pytest.mark.parametrize(("position", "expected", "found"), [(35, 1, 1 ^ 0x40), (37, 10, 10 ^ 0x40), (19, TAGS_CODE, TAGS_CODE ^ 0x40)])
def test_a_wrong_batch_unit(tmp_path: Path, position: int, expected: int, found: int) -> None:
    def change(data: bytearray) -> None:
        data[46 + position] ^= 0x40

    (finding,) = verified(with_batches(tmp_path, change), BATCH_SETTINGS)

    assert place(finding, "file", "position", "length", "expected", "found") == ("CQ-BATCH", BATCH_FILE, 46, 46, expected, found)


def test_a_batch_queue_that_ends_before_the_log(tmp_path: Path) -> None:
    def change(data: bytearray) -> None:
        data[2 * 46 : 3 * 46] = bytes(46)

    (finding,) = verified(with_batches(tmp_path, change), BATCH_SETTINGS)

    assert place(finding, "topic", "queue_offset") == ("CQ-BEHIND", "TopicB", 11)


def test_a_batch_unit_beyond_the_log(tmp_path: Path) -> None:
    def change(data: bytearray) -> None:
        data[3 * 46 : 4 * 46] = data[2 * 46 : 3 * 46]
        data[3 * 46 + 6 : 3 * 46 + 8] = b"\x30\x00"

    told = {finding.code.removeprefix("RMQ-"): finding for finding in verified(with_batches(tmp_path, change), BATCH_SETTINGS)}

    assert place(told["CQ-BEYOND"], "file", "position", "offset") == ("CQ-BEYOND", BATCH_FILE, 3 * 46, 0x3000)


def test_units_that_repeat_a_neighbour_for_lost_messages(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path)
    for queue_offset in (0, 1, 4, 5):
        builder.message(tags="T", keys="k1", queue_offset=queue_offset)
    builder.build()
    patch_unit(builder.root, 2, unit(SIZE) * 2 + unit(2 * SIZE) + unit(3 * SIZE))

    found = [finding for finding in verified(builder) if finding.code.startswith("RMQ-CQ")]

    assert [(finding.code, finding.severity, finding.queue_offset) for finding in found] == [
        ("RMQ-CQ-REPEATED", Severity.INFO, 2),
        ("RMQ-CQ-REPEATED", Severity.INFO, 3),
    ]


def test_a_unit_behind_the_last_one_that_repeats_it_is_too_many(tmp_path: Path) -> None:
    builder = filled(StoreBuilder(tmp_path), 4)
    builder.build()
    queue = next((tmp_path / "consumequeue").rglob("0" * 20))
    patch(queue, 80, queue.read_bytes()[60:80])

    (finding,) = verified(builder)

    assert (finding.code, finding.severity, finding.queue_offset) == ("RMQ-CQ-SHIFTED", Severity.ERROR, 4)
