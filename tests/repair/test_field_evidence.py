"""Queues that contradict the log: records stay as they are, and exchanged queues come back from the log byte for byte."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rmqstore.findings import Severity
from rmqstore.formats.naming import offset_to_file_name
from rmqstore.repair.log.corrections import Correction
from rmqstore.repair.log.evidence import CONFIRMED_BY, Evidence, Place, Proposal, Witness, index_hashes
from rmqstore.repair.procedure import RepairRequest, Result, execute
from rmqstore.repair.recover import Recovery
from rmqstore.store.root import Store
from rmqstore.verify.engine import verify
from tests.repair.every_action import Yes
from tests.repair.recovering import Damaged
from tests.support import stores
from tests.support.builder import StoreBuilder


def contents(root: Path) -> dict[str, bytes]:
    """Every file of log, queues and index."""
    parts = ("commitlog", "consumequeue", "index")
    return {path.relative_to(root).as_posix(): path.read_bytes() for part in parts for path in (root / part).rglob("*") if path.is_file()}


def exchange(one: Path, other: Path) -> None:
    aside = one.parent / "aside"
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


# base store, and what is exchanged below consumequeue/
EXCHANGES = [
    ("5.3.3-plain", "Orders/2", "Orders/0"),  # two queues of one topic
    ("4.9.8-plain", "Orders/1", "TopicA/1"),
    ("5.5.1-manyfiles", "topic-b_2", "TopicA"),  # whole topics
    ("5.5.1-lmq", "Orders/4/00000000000000000000", "TopicA/3/00000000000000000000"),
    ("5.3.3-plain", "TopicA/2/00000000000000000400", "TopicA/1/00000000000000000800"),
    ("4.9.8-headless", "%DLQ%group_x/0", "T/2"),  # queues with units of expired messages
    ("4.9.8-headless", "TopicA/3/00000000000000000000", "Orders/6/00000000000000000000"),
    ("4.9.8-headless", "T/1", "topic-b_2/0"),  # all messages of T/1 have expired
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("base", "one", "other"), EXCHANGES)
def test_exchanged_queues_are_named_and_come_back(base: str, one: str, other: str, tmp_path: Path) -> None:
    store = Damaged(base, stores.fresh_store(base, tmp_path))
    before = contents(store.root)
    exchange(store.root / "consumequeue" / one, store.root / "consumequeue" / other)
    named = {finding.file for finding in verify(store.open()) if finding.code == "RMQ-CQ-EXCHANGED"}
    assert any(f"consumequeue/{one}" in str(file) for file in named)
    assert any(f"consumequeue/{other}" in str(file) for file in named)

    result = store.recover()

    assert (result.errors, result.left, result.plan.lost) == ({}, 0, ())
    assert contents(store.root) == before


@pytest.fixture
def equal_lengths(tmp_path: Path) -> StoreBuilder:
    """Messages in turn for two topics of equal name length, so that their records and units have equal sizes."""
    builder = StoreBuilder(tmp_path / "store", log_file_size=4096)
    for number in range(60):
        builder.message(topic=("orders", "trades")[number % 2], queue_id=0, body=bytes([number]) * 200, keys=f"k{number:02}")
    builder.build()
    return builder


def test_a_queue_that_cannot_exist_is_no_value(tmp_path: Path) -> None:
    """No neighbour in its queue supports the entry, but no broker writes a negative QUEUEID."""
    builder = StoreBuilder(tmp_path / "store", log_file_size=4096)
    for number in range(4):
        builder.message(topic=f"topic{number}", queue_id=0, body=bytes([number]) * 100)
    builder.build()
    before = contents(builder.root)
    with (builder.root / "commitlog" / offset_to_file_name(0)).open("r+b") as stream:
        stream.seek(12)
        stream.write(b"\xea\xd2\x21\xc3")

    result = recover(builder)

    assert (result.errors, result.left, result.plan.lost) == ({}, 0, ())
    assert contents(builder.root) == before


def test_topics_of_equal_length_keep_their_records_when_their_queues_are_exchanged(equal_lengths: StoreBuilder) -> None:
    root = equal_lengths.root
    before = contents(root)
    exchange(root / "consumequeue/orders", root / "consumequeue/trades")

    result = recover(equal_lengths)

    assert (result.errors, result.left, result.plan.lost) == ({}, 0, ())
    assert {action.path.partition("/")[0] for action in result.plan.actions} <= {"consumequeue", "checkpoint"}
    assert contents(root) == before


def test_one_exchanged_pair_of_units_changes_no_record(equal_lengths: StoreBuilder) -> None:
    root = equal_lengths.root
    before = contents(root)
    one, other = (root / "consumequeue" / topic / "0" / offset_to_file_name(0) for topic in ("orders", "trades"))
    swap_bytes(one, other, 5 * 20, 20)

    result = recover(equal_lengths)

    assert (result.errors, result.left, result.plan.lost) == ({}, 0, ())
    assert contents(root) == before


@pytest.mark.parametrize("index", [True, False], ids=["index", "no index"])
def test_a_topic_that_neighbours_confirm_is_put_right(equal_lengths: StoreBuilder, index: bool) -> None:
    root = equal_lengths.root
    before = contents(root)
    position, size = unit(root, "orders", 7)
    write(equal_lengths, position + before_topic(equal_lengths, position, size, b"orders"), b"ordurs")
    if not index:
        for file in (root / "index").iterdir():
            file.unlink()
    result = recover(equal_lengths)
    assert (result.errors, result.left, result.plan.lost) == ({}, 0, ())
    after = contents(root)
    assert {name: after[name] for name in before if name.startswith("commitlog")} == {
        name: data for name, data in before.items() if name.startswith("commitlog")
    }


def test_the_queue_id_of_the_last_record_of_a_queue_is_put_right(equal_lengths: StoreBuilder) -> None:
    """The record before it in its queue and that queue's entries fit; in the other queue it would be the first one, with number 29."""
    root = equal_lengths.root
    before = contents(root)
    position, _ = unit(root, "orders", 29)
    write(equal_lengths, position + 12, (5).to_bytes(4, "big"))

    result = recover(equal_lengths)

    assert (result.errors, result.left, result.plan.lost) == ({}, 0, ())
    assert contents(root) == before


@pytest.mark.parametrize("other", ["begins with it", "has entries before it"])
def test_a_last_record_keeps_a_queue_id_of_a_queue_that_can_hold_it(equal_lengths: StoreBuilder, other: str) -> None:
    root = equal_lengths.root
    position, _ = unit(root, "orders", 29)
    write(equal_lengths, position + 12, (5).to_bytes(4, "big"))
    if other == "begins with it":
        write(equal_lengths, position + 20, bytes(8))
    else:
        queue = root / "consumequeue/orders/5" / offset_to_file_name(0)
        queue.parent.mkdir()
        last = root / "consumequeue/orders/0" / offset_to_file_name(0)
        queue.write_bytes(last.read_bytes()[: 29 * 20].ljust(last.stat().st_size, b"\0"))
    log = contents(root)

    result = recover(equal_lengths)

    after = contents(root)
    assert all(after[name] == data for name, data in log.items() if name.startswith("commitlog"))
    assert result.left == 0


@pytest.mark.parametrize("last", [True, False])
def test_one_neighbour_is_not_enough_for_a_queue_id(last: bool, tmp_path: Path) -> None:
    """The queue that the record names has no place for it; of the other queue it was the last record, or it was between two."""
    builder = StoreBuilder(tmp_path / "store", log_file_size=4096)
    for number in range(30):
        builder.message(queue_id=int(number % 3 == 0 and number < 28), body=bytes([number]) * 200)
    for _ in range(2):
        builder.message(queue_id=1, body=bytes(200))
    builder.build()
    before = contents(builder.root)
    position, size = unit(builder.root, "TopicA", 19 if last else 15)
    write(builder, position + 12, (1).to_bytes(4, "big"))
    raw = read(builder, position, size)

    result = recover(builder)

    assert (result.errors, result.left) == ({}, 0)
    if not last:
        assert contents(builder.root) == before
        assert not result.plan.lost
        return
    assert read(builder, position, size) == raw
    (lost,) = result.plan.lost
    assert (lost.physical_offset, lost.size) == (position, size)
    assert "TopicA/0 at queue offset 19" in lost.why
    (found,) = (finding for finding in verify(Store.open(builder.root, settings=builder.settings)) if finding.severity is not Severity.INFO)
    assert (found.code, found.offset, found.queue_id, found.queue_offset) == ("RMQ-CL-QOFFSET-FOREIGN", position, 1, 19)
    again = recover(builder)
    assert not again.plan.actions
    assert not again.plan.lost


def test_the_queue_offset_of_the_last_record_of_a_queue_is_put_right(equal_lengths: StoreBuilder) -> None:
    """The record before it in the log and unbroken queue entries say the same."""
    root = equal_lengths.root
    before = contents(root)
    position, _ = unit(root, "orders", 29)
    write(equal_lengths, position + 20, (1008).to_bytes(8, "big"))
    result = recover(equal_lengths)
    assert (result.errors, result.left, result.plan.lost) == ({}, 0, ())
    assert contents(root) == before


@pytest.mark.parametrize("queue", ["gone", "of another topic"])
def test_the_log_alone_puts_a_queue_offset_right_between_two_records(equal_lengths: StoreBuilder, queue: str) -> None:
    root = equal_lengths.root
    before = contents(root)
    position, _ = unit(root, "orders", 11)
    write(equal_lengths, position + 20, (1008).to_bytes(8, "big"))
    shutil.rmtree(root / "consumequeue/orders")
    if queue != "gone":
        shutil.copytree(root / "consumequeue/trades", root / "consumequeue/orders")
    result = recover(equal_lengths)
    assert (result.errors, result.left, result.plan.lost) == ({}, 0, ())
    assert contents(root) == before


def test_a_shifted_queue_gives_the_last_record_no_other_queue_offset(equal_lengths: StoreBuilder) -> None:
    """A unit is cut out of the queue, and the record whose place the last one would take is lost."""
    root = equal_lengths.root
    position, size = unit(root, "orders", 28)
    write(equal_lengths, position, bytes(size))
    last, last_size = unit(root, "orders", 29)
    raw = read(equal_lengths, last, last_size)
    queue = root / "consumequeue/orders/0" / offset_to_file_name(0)
    data = queue.read_bytes()
    queue.write_bytes(data[:200] + data[220:] + bytes(20))
    assert unit(root, "orders", 28) == (last, last_size)

    result = recover(equal_lengths)

    assert read(equal_lengths, last, last_size) == raw
    assert (result.errors, result.left) == ({}, 0)
    assert [(message.queue_offset, message.physical_offset) for message in result.plan.lost] == [(28, position)]
    assert unit(root, "orders", 29) == (last, last_size)


def test_index_entries_speak_for_or_against_a_topic(equal_lengths: StoreBuilder) -> None:
    store = Store.open(equal_lengths.root, settings=equal_lengths.settings)
    position, size = unit(equal_lengths.root, "orders", 7)
    raw = read(equal_lengths, position, size)
    at = before_topic(equal_lengths, position, size, b"orders")
    wrong = raw.replace(b"orders", b"ordurs", 1)
    there, away = Place("orders", 0, 7), Place("ordurs", 0, 7)
    assert index_hashes(store, [position])
    right = Proposal(position, wrong, Correction(at, b"orders", "TOPIC"), away, there)
    foreign = Proposal(position, raw, Correction(at, b"ordurs", "TOPIC"), there, away)
    assert Evidence(store, [right]).confirms(right)
    assert not Evidence(store, [foreign]).confirms(foreign)


def test_every_field_that_an_entry_can_contradict_needs_a_second_witness() -> None:
    assert set(CONFIRMED_BY) == {"TOPIC", "QUEUEID", "QUEUEOFFSET", "SYSFLAG"}
    assert all(witnesses and Witness.NEIGHBOURS in witnesses for witnesses in CONFIRMED_BY.values())


# Bytes of a built store


def recover(builder: StoreBuilder) -> Result:
    recovery = Recovery("5.3.3")
    return execute(RepairRequest("recover", "5.3.3", lambda: Store.open(builder.root, settings=builder.settings), recovery.plan), Yes())


def unit(root: Path, topic: str, queue_offset: int) -> tuple[int, int]:
    """Physical offset and size in a unit of queue 0."""
    data = (root / "consumequeue" / topic / "0" / offset_to_file_name(0)).read_bytes()[queue_offset * 20 :]
    return int.from_bytes(data[:8], "big"), int.from_bytes(data[8:12], "big")


def read(builder: StoreBuilder, position: int, size: int) -> bytes:
    start = position - position % builder.log_file_size
    return (builder.root / "commitlog" / offset_to_file_name(start)).read_bytes()[position - start :][:size]


def write(builder: StoreBuilder, position: int, data: bytes) -> None:
    start = position - position % builder.log_file_size
    with (builder.root / "commitlog" / offset_to_file_name(start)).open("r+b") as stream:
        stream.seek(position - start)
        stream.write(data)


def before_topic(builder: StoreBuilder, position: int, size: int, topic: bytes) -> int:
    """Where the topic begins in a record."""
    return read(builder, position, size).index(topic)


def swap_bytes(one: Path, other: Path, position: int, length: int) -> None:
    first, second = one.read_bytes(), other.read_bytes()
    for path, data, new in ((one, first, second), (other, second, first)):
        path.write_bytes(data[:position] + new[position : position + length] + data[position + length :])
