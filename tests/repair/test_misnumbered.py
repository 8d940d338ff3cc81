"""QUEUEOFFSETs of several records of a queue that jump, in stores of real brokers: the log is again as the broker wrote it.

What brokers write out of order stays, and so does what only queue entries contradict.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

from rmqstore.formats.naming import offset_to_file_name
from rmqstore.repair.procedure import RepairRequest, Result, execute
from rmqstore.repair.recover import Recovery
from rmqstore.store.root import Store
from rmqstore.verify.engine import verify
from tests.repair.every_action import Yes
from tests.repair.recovering import Damaged, view_of
from tests.support import stores
from tests.support.builder import StoreBuilder
from tests.support.damages import set_field
from tests.support.storeview import LogRecord, StoreView

FAR = 1 << 40


def longest_queue(base: str) -> list[LogRecord]:
    """The records of the queue with most of them."""
    found: dict[tuple[str, int], list[LogRecord]] = defaultdict(list)
    for record in view_of(base).records:
        if not record.record.sys_flag & 4:
            found[record.record.topic, record.record.queue_id].append(record)
    return max(found.values(), key=len)


def jumped(base: str, tmp_path: Path, first: int, jumps: Sequence[int]) -> Damaged:
    """A store with records of a queue, from number `first` on (from the end if negative), whose QUEUEOFFSETs jump so far."""
    root = stores.fresh_store(base, tmp_path)
    records = longest_queue(base)
    first %= len(records)
    for record, jump in zip(records[first : first + len(jumps)], jumps, strict=True):
        set_field(record, "queue_offset", record.record.queue_offset + jump).apply(root)
    return Damaged(base, root)


def log_of(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((root / "commitlog").iterdir())}


def assert_as_written(store: Damaged, result: Result) -> None:
    """Everything is as the broker left it, and nothing is left to do."""
    undamaged = stores.sample_store(store.base)
    assert (result.errors, result.left, result.plan.lost) == ({}, 0, ())
    before, after = log_of(undamaged), log_of(store.root)
    assert {name: after[name] for name in before if any(before[name])} == {name: data for name, data in before.items() if any(data)}
    for record in view_of(store.base).records:
        place = (record.record.topic, record.record.queue_id, record.record.queue_offset)
        if not record.record.sys_flag & 4 and "batch" not in store.base:
            assert store.unit(place) == (record.offset, record.size)


CASES = {
    "two, ahead": (20, [5000] * 2),
    "three, far ahead": (20, [FAR] * 3),
    "two, back": (20, [-7] * 2),
    "five, back": (10, [-50] * 5),
    "eight, by one": (20, [1] * 8),
    "each by itself": (20, [5000, -7, FAR, 3]),
    "the first ones": (0, [5000] * 3),
}


@pytest.mark.parametrize("queues", ["there", "gone"])
@pytest.mark.parametrize("base", ["5.3.3-plain", "4.9.8-plain-crash"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.sampled(12)
def test_queue_offsets_between_others_come_back(case: str, base: str, queues: str, tmp_path: Path) -> None:
    store = jumped(base, tmp_path, *CASES[case])
    if queues == "gone":
        shutil.rmtree(store.root / "consumequeue")
    assert "RMQ-CL-QOFFSET-JUMP" in {finding.code for finding in verify(store.open())}
    assert_as_written(store, store.recover())


MIXED = [2, 2, 2, -7, FAR, -2, 50, -7]
"""Two of the QUEUEOFFSETs are as far apart as three records between them make them."""


@pytest.mark.parametrize("jumps", [[5000] * 3, [FAR] * 2, [-7] * 2, [-50] * 5, [FAR, 5, -9], MIXED])
def test_the_last_queue_offsets_come_back_with_queue_entries(jumps: list[int], tmp_path: Path) -> None:
    store = jumped("5.3.3-plain", tmp_path, -len(jumps), jumps)
    assert_as_written(store, store.recover())


def test_between_last_ones_that_go_back_the_log_alone_is_no_evidence(tmp_path: Path) -> None:
    store = jumped("5.3.3-plain", tmp_path, -len(MIXED), MIXED)
    shutil.rmtree(store.root / "consumequeue")
    before = log_of(store.root)
    store.recover()
    assert log_of(store.root) == before


@pytest.mark.parametrize(("base", "jump"), [("5.3.3-plain", 5), ("5.3.3-plain", 500), ("4.9.8-plain", 2)])
def test_the_last_ones_stay_where_a_broker_can_have_left_messages_out(base: str, jump: int, tmp_path: Path) -> None:
    """A broker writes such entries without a gap: they are no evidence that the QUEUEOFFSETs are wrong."""
    store = jumped(base, tmp_path, -3, [jump] * 3)
    before = log_of(store.root)
    result = store.recover()
    assert (result.errors, result.left, result.plan.lost) == ({}, 0, ())
    assert log_of(store.root) == before
    assert any(note.startswith("3 records differ from the queue entries") for note in result.plan.notes)
    assert "RMQ-CL-QOFFSET-GAP" in {finding.code for finding in verify(store.open())}
    for record in longest_queue(base)[-3:]:
        place = (record.record.topic, record.record.queue_id, record.record.queue_offset + jump)
        assert store.unit(place) == (record.offset, record.size)


def test_a_damaged_one_before_them_comes_back(tmp_path: Path) -> None:
    store = jumped("5.3.3-plain", tmp_path, -4, [FAR, 5, 5, 5])
    first, *others = longest_queue(store.base)[-4:]
    result = store.recover()
    assert (result.errors, result.left, result.plan.lost) == ({}, 0, ())
    after = log_of(store.root)
    undamaged = log_of(stores.sample_store(store.base))
    assert sum(before != now for name in undamaged for before, now in zip(undamaged[name], after[name], strict=True)) == len(others)
    assert store.unit((first.record.topic, first.record.queue_id, first.record.queue_offset)) == (first.offset, first.size)


@pytest.mark.parametrize(("base", "release"), [("5.5.1-propcrc", "5.5.1"), ("5.1.4-batchcq", "5.1.4"), ("5.5.1-lmq", "5.5.1")])
def test_other_kinds_of_queues(base: str, release: str, tmp_path: Path) -> None:
    store = jumped(base, tmp_path, 3, [5000] * 3)
    assert_as_written(store, store.recover(release=release))


@pytest.mark.parametrize("case", ["two, ahead", "five, back"])
def test_a_queue_with_expired_messages(case: str, tmp_path: Path) -> None:
    store = jumped("4.9.8-headless", tmp_path, 3, CASES[case][1])
    result = store.recover()
    assert (result.errors, result.left, result.plan.lost) == ({}, 0, ())
    assert log_of(store.root).items() >= {name: data for name, data in log_of(stores.sample_store(store.base)).items() if any(data)}.items()


def test_the_last_ones_without_queue_entries_are_served_after_a_gap(tmp_path: Path) -> None:
    store = jumped("5.3.3-plain", tmp_path, -3, [500] * 3)
    shutil.rmtree(store.root / "consumequeue")
    last = longest_queue(store.base)[-3:]
    result = store.recover()
    assert (result.errors, result.left, result.plan.lost) == ({}, 0, ())
    for record in last:
        place = (record.record.topic, record.record.queue_id, record.record.queue_offset + 500)
        assert store.unit(place) == (record.offset, record.size)
    first = longest_queue(store.base)[0]
    assert store.unit((first.record.topic, first.record.queue_id, 0)) == (first.offset, first.size)


def test_the_last_ones_that_no_queue_can_hold_are_an_error(tmp_path: Path) -> None:
    """Nothing tells their queue offsets; the messages before them stay."""
    store = jumped("5.3.3-plain", tmp_path, -2, [FAR] * 2)
    shutil.rmtree(store.root / "consumequeue")
    result = store.recover()
    assert result.errors == {"RMQ-CQ-BEHIND": 1}
    assert result.left == 0
    assert any(note.startswith("2 records of") for note in result.plan.notes)
    for record in longest_queue(store.base)[:-2]:
        assert store.unit((record.record.topic, record.record.queue_id, record.record.queue_offset)) == (record.offset, record.size)


# What brokers write


HISTORIES = {
    "a queue that starts again": [0, 1, 2, 3, 4, 0, 1, 2],
    "a queue that starts again with one message": [0, 1, 2, 3, 4, 0],
    "queue offsets that are used again": [0, 1, 2, 3, 4, 5, 3, 4, 5, 6],
    "a queue offset given twice": [0, 1, 2, 2, 3, 4],
    "messages that are missing": [0, 1, 2, *range(6, 26)],
}


@pytest.mark.parametrize("name", HISTORIES)
def test_what_brokers_write_stays(name: str, tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "store", log_file_size=4096)
    for number, offset in enumerate(HISTORIES[name]):
        builder.message(queue_offset=offset, body=bytes([number]) * 100)
        builder.message(topic="other", body=bytes([number]) * 100)
    builder.build()
    if "starts again" in name:  # the directory was deleted
        queue = builder.root / "consumequeue/TopicA/0" / offset_to_file_name(0)
        again = HISTORIES[name].index(0, 1)
        positions = [record.offset for record in StoreView(builder.root, builder.settings).records[2 * again :: 2]]
        units = b"".join(position.to_bytes(8, "big") + queue.read_bytes()[8:20] for position in positions)
        queue.write_bytes(units.ljust(queue.stat().st_size, b"\0"))
    before = log_of(builder.root)
    result = recover(builder)
    assert result.left == 0
    assert log_of(builder.root) == before
    assert "RMQ-CL-QOFFSET-JUMP" not in result.errors


def test_a_queue_that_holds_the_records_where_they_say_contradicts(tmp_path: Path) -> None:
    """Then the log and the queue agree: nothing of the log changes."""
    builder = StoreBuilder(tmp_path / "store", log_file_size=4096)
    for number in range(12):
        builder.message(queue_offset=number + 70 * (number in (5, 6)), body=bytes([number]) * 100)
    builder.build()
    queue = builder.root / "consumequeue/TopicA/0" / offset_to_file_name(0)
    data = queue.read_bytes()
    placed = bytearray(2000)
    for number in range(12):
        place = number + 70 * (number in (5, 6))
        placed[place * 20 : place * 20 + 20] = data[number * 20 : number * 20 + 20]
    queue.write_bytes(placed)
    before = log_of(builder.root)
    recover(builder)
    assert log_of(builder.root) == before


def recover(builder: StoreBuilder) -> Result:
    recovery = Recovery("5.3.3")
    return execute(RepairRequest("recover", "5.3.3", lambda: Store.open(builder.root, settings=builder.settings), recovery.plan), Yes())
