"""Further queues of records (LMQ): numbers that repeat or are skipped in good health, units that are damaged, queues that are missing."""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from rmqstore.findings import Severity
from rmqstore.formats.consumequeue import UNIT_SIZE
from rmqstore.formats.record import decode_record
from rmqstore.verify.queues import multidispatch
from rmqstore.verify.queues.multidispatch import entries
from tests.scan.samples import encoded
from tests.support.builder import StoreBuilder
from tests.verify.small_stores import codes, patch, place, queue_name, verified

QUEUE = "%LMQ%a"
ON = {"enableLmq": "true", "enableMultiDispatch": "true"}


def numbered(root: Path, numbers: list[int], *, queue: str = QUEUE, topic: str = "TopicA", **sizes: int) -> StoreBuilder:
    """One message for each number that the broker gave it in `queue`; units stand where a broker appends them."""
    builder = StoreBuilder(root, **sizes)
    add(builder, numbers, queue, topic)
    builder.build()
    return builder


def add(builder: StoreBuilder, numbers: list[int], queue: str = QUEUE, topic: str = "TopicA") -> None:
    for number in numbers:
        builder.message(topic, properties={"INNER_MULTI_DISPATCH": queue, "INNER_MULTI_QUEUE_OFFSET": str(number)})


def summary(builder: StoreBuilder, settings: Mapping[str, str] | None = None) -> dict[str, Severity]:
    return {finding.code.removeprefix("RMQ-"): finding.severity for finding in verified(builder, settings)}


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([0, 1, 2], {}),
        ([0, 2, 3, 4], {"CQ-LMQ-OFFSET": Severity.INFO}),
        ([0, 0, 1, 3], {"CQ-LMQ-OFFSET": Severity.INFO, "CL-QOFFSET-REPEAT": Severity.WARNING}),
        ([0, 1, 1, 2], {"CL-QOFFSET-REPEAT": Severity.WARNING}),
        ([0, 1, 4, 3, 5], {"CQ-LMQ-OFFSET": Severity.INFO}),
        ([7, 8, 10], {"CQ-LMQ-OFFSET": Severity.INFO}),
        ([0, 0, 0, 0], {"CQ-LMQ-OFFSET": Severity.INFO}),
    ],
)
def test_numbers_that_brokers_give(numbers: list[int], expected: dict[str, Severity], tmp_path: Path) -> None:
    assert summary(numbered(tmp_path, numbers)) == expected


def test_what_is_told_about_repeated_and_skipped_numbers(tmp_path: Path) -> None:
    builder = numbered(tmp_path, [0, 0, 1, 3, 4])
    record = builder.offset // 5

    told = {place(finding, "topic", "queue_id", "offset", "expected", "found", "message") for finding in verified(builder)}

    shifted = "multi-dispatch queue with entries at other places than the queue offsets of their records: 3"
    dropped = "multi-dispatch queue with records without an entry, because their queue offsets were used before: 1"
    assert told == {
        ("CQ-LMQ-OFFSET", QUEUE, 0, record, 0, 1, shifted),
        ("CL-QOFFSET-REPEAT", QUEUE, 0, 2 * record, 1, 2, dropped),
    }


def test_shifted_numbers_over_several_log_and_queue_files(tmp_path: Path) -> None:
    builder = numbered(tmp_path, [0, *range(2, 300)], log_file_size=4096, queue_file_size=50 * UNIT_SIZE)

    (finding,) = verified(builder)

    assert place(finding, "expected", "found") == ("CQ-LMQ-OFFSET", 2, 1)
    assert finding.message.endswith("of their records: 298")


@pytest.mark.parametrize("numbers", [[0, 1, 2, 3, 4, 5], [0, 0, 1, 3, 4, 5, 6]])
@pytest.mark.parametrize("byte", range(12))
@pytest.mark.parametrize("number", [1, 3])
def test_a_damaged_unit_stays_an_error(numbers: list[int], byte: int, number: int, tmp_path: Path) -> None:
    builder = numbered(tmp_path, numbers)
    unit = bytearray((tmp_path / queue_name(topic=QUEUE)).read_bytes()[number * UNIT_SIZE : (number + 1) * UNIT_SIZE])
    unit[byte] ^= 0x40
    patch(tmp_path / queue_name(topic=QUEUE), number * UNIT_SIZE, bytes(unit))

    errors = [finding for finding in verified(builder) if finding.severity is Severity.ERROR]

    # A record that was dropped because of this unit cannot be told from one that lost its unit, and names the same place.
    assert {(error.file, error.position, error.topic) for error in errors} == {(queue_name(topic=QUEUE), number * UNIT_SIZE, QUEUE)}


def test_a_unit_overwritten_with_the_one_before_it(tmp_path: Path) -> None:
    builder = numbered(tmp_path, [0, 1, 2, 3])
    before = (tmp_path / queue_name(topic=QUEUE)).read_bytes()[UNIT_SIZE : 2 * UNIT_SIZE]
    patch(tmp_path / queue_name(topic=QUEUE), 2 * UNIT_SIZE, before)

    assert place(verified(builder)[0], "queue_offset") == ("CQ-SHIFTED", 2)


def test_a_hole_in_a_shifted_queue(tmp_path: Path) -> None:
    builder = numbered(tmp_path, [0, 2, 3, 4, 5, 6])
    patch(tmp_path / queue_name(topic=QUEUE), 3 * UNIT_SIZE, bytes(UNIT_SIZE))

    found = verified(builder)

    assert codes(found) == ["CQ-HOLE", "CQ-LMQ-OFFSET"]
    assert next(place(one, "queue_offset", "length") for one in found if "HOLE" in one.code) == ("CQ-HOLE", 3, UNIT_SIZE)


def test_a_numbered_message_that_was_not_dispatched_and_moved_all_behind_it(tmp_path: Path) -> None:
    """Not a number that was skipped: the message is in the log, and has no unit."""
    builder = numbered(tmp_path, [0, 1, 2, 3, 4])
    data = (tmp_path / queue_name(topic=QUEUE)).read_bytes()
    patch(tmp_path / queue_name(topic=QUEUE), 0, data[:UNIT_SIZE] + data[2 * UNIT_SIZE :] + bytes(UNIT_SIZE))

    found = verified(builder)

    assert codes(found) == ["CQ-LMQ-OFFSET", "CQ-SHIFTED"]
    assert next(place(one, "offset", "queue_offset", "severity") for one in found if "SHIFTED" in one.code) == (
        "CQ-SHIFTED",
        builder.offset // 5,
        1,
        Severity.ERROR,
    )


@pytest.mark.parametrize("seed", range(12))
def test_entries_looked_at_together_or_one_by_one(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers that repeat and are skipped, in a queue with damaged entries."""
    chance = random.Random(seed)
    numbers = [chance.randrange(3)]
    for _ in range(200):
        numbers.append(numbers[-1] + chance.choice([1] * 20 + [0, 2, -1, 5]))
    builder = numbered(tmp_path, numbers, queue_file_size=64 * UNIT_SIZE)
    for path in sorted((tmp_path / queue_name(topic=QUEUE)).parent.iterdir()):
        if chance.randrange(2):
            place = chance.randrange(60) * UNIT_SIZE
            patch(path, place, chance.choice([bytes(UNIT_SIZE), chance.randbytes(8), path.read_bytes()[place + UNIT_SIZE :][:UNIT_SIZE]]))

    together = verified(builder)
    monkeypatch.setattr(multidispatch, "_FEWEST_TOGETHER", 1 << 30)

    assert together == verified(builder)
    assert together


@pytest.mark.parametrize("topic", ["%RETRY%group", "rmq_sys_REVIVE_LOG_c"])
def test_topics_that_are_numbered_and_not_dispatched(topic: str, tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path)
    add(builder, [0, 1])
    add(builder, [2], topic=topic)
    add(builder, [3, 4])
    queue = builder.queues[(QUEUE, 0)].files[0]
    queue[2 * UNIT_SIZE :] = queue[3 * UNIT_SIZE :] + bytes(UNIT_SIZE)
    builder.build()

    assert summary(builder) == {"CQ-LMQ-OFFSET": Severity.INFO}


@pytest.mark.parametrize("sys_flag", [4, 12])
def test_half_messages_and_rollbacks_have_no_units(sys_flag: int, tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path)
    add(builder, [0, 1])
    builder.message(
        "TopicB", sys_flag=sys_flag, queue_offset=0, properties={"INNER_MULTI_DISPATCH": QUEUE, "INNER_MULTI_QUEUE_OFFSET": "1"}
    )
    add(builder, [2])
    builder.build()

    assert verified(builder) == []


# Queues without directory


def without(builder: StoreBuilder, *queues: str) -> StoreBuilder:
    for queue in queues:
        shutil.rmtree(builder.root / "consumequeue" / queue)
    return builder


def two_queues(root: Path) -> StoreBuilder:
    builder = StoreBuilder(root)
    add(builder, [0, 1, 2])
    add(builder, [0, 1], "%LMQ%b")
    builder.build()
    return builder


def test_a_missing_queue_beside_one_that_is_there(tmp_path: Path) -> None:
    """A clean start does not make its units again, and gives its numbers away once more."""
    (finding,) = verified(without(two_queues(tmp_path), QUEUE))

    assert finding.severity is Severity.ERROR
    assert place(finding, "file", "topic", "queue_id", "offset", "queue_offset", "expected", "found") == (
        "CQ-MISSING",
        f"consumequeue/{QUEUE}/0",
        QUEUE,
        0,
        0,
        0,
        3,
        0,
    )


def test_a_crash_dispatches_it_again(tmp_path: Path) -> None:
    builder = two_queues(tmp_path)
    builder.crash().build()

    assert summary(without(builder, QUEUE))["CQ-MISSING"] is Severity.WARNING


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {"CQ-LMQ-MISSING": Severity.WARNING}),
        (ON, {"CQ-MISSING": Severity.ERROR}),
        ({"enableLmq": "true"}, {"CQ-LMQ-MISSING": Severity.WARNING}),
        ({"enableLmq": "true", "enableMultiDispatch": "false"}, {}),
        ({"enableLmq": "false"}, {}),
    ],
)
def test_whether_a_broker_fills_such_queues_at_all(settings: dict[str, str], expected: dict[str, Severity], tmp_path: Path) -> None:
    assert summary(without(two_queues(tmp_path), QUEUE, "%LMQ%b"), settings) == expected


def test_queues_of_lite_topics_expire(tmp_path: Path) -> None:
    lite = "%LMQ%$parent$lite"
    builder = two_queues(tmp_path)
    add(builder, [0, 1], lite)
    builder.build()

    assert summary(without(builder, lite)) == {"CQ-LMQ-MISSING": Severity.WARNING}


@pytest.mark.parametrize(
    ("names", "numbers", "expected"),
    [
        ("%LMQ%a,b/c,%LMQ%b", "4,5,6", [("%LMQ%a", 0, 4), ("%LMQ%b", 0, 6)]),
        ("%LMQ%a,TopicB,%LMQ%b", "4,,6", [("%LMQ%a", 0, 4)]),
        ("TopicB,%LMQ%a", "4,5", [("TopicB", 3, 4), ("%LMQ%a", 0, 5)]),
        ("%LMQ%a,%LMQ%b,,", "4,5", [("%LMQ%a", 0, 4), ("%LMQ%b", 0, 5)]),
        ("%LMQ%a,%LMQ%b", "4", []),
        ("%LMQ%a", "-1", []),
    ],
    ids=["slash", "no number", "another topic", "commas behind", "counts differ", "negative"],
)
def test_queues_that_a_dispatcher_makes_of_the_properties(names: str, numbers: str, expected: list[tuple[str, int, int]]) -> None:
    record = decode_record(encoded(queue_id=3, properties={"INNER_MULTI_DISPATCH": names, "INNER_MULTI_QUEUE_OFFSET": numbers}))

    assert [(*entry.key, entry.number) for entry in entries(record)] == expected
