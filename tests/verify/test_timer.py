"""The invariants of wheel, log and check point of the timer (fact sheet timer §1.9), and what was seen on brokers (observed, §3)."""

from __future__ import annotations

import json
import struct
import time
from pathlib import Path

import pytest

from rmqstore.findings import Severity
from rmqstore.verify.timer import wheel
from tests.support import stores
from tests.verify.one_check import codes, errors, only, patch, run
from tests.verify.timer_files import (
    LOG_FILE,
    READ_TIME,
    SLOT,
    SLOTS,
    UNIT,
    UNITS_PER_FILE,
    WRITE_TIME,
    Message,
    Slot,
    TimerStore,
    slot_position,
    timer_store,
)

SOON = READ_TIME + 60_000


def given_store(root: Path, count: int = 5, apart: int = 1000) -> TimerStore:
    """`count` messages, due `apart` ms after each other from SOON on."""
    store = timer_store(root)
    for number in range(count):
        store.put(SOON + number * apart)
    store.build()
    return store


def test_a_sound_timer_gives_nothing(tmp_path: Path) -> None:
    store = given_store(tmp_path, 3 * UNITS_PER_FILE + 4, apart=500)
    assert len(store.log) == 4
    assert run(wheel, tmp_path, store.settings) == []
    assert run(wheel, tmp_path) == []


def test_a_store_without_timer_gives_nothing() -> None:
    assert run(wheel, stores.sample_store("4.9.8-plain")) == []


# Wheel


@pytest.mark.parametrize("length", [SLOTS * SLOT - SLOT, SLOTS * SLOT + SLOT, 7])
def test_a_wheel_of_another_length(length: int, tmp_path: Path) -> None:
    given_store(tmp_path)
    with (tmp_path / "timerwheel").open("r+b") as stream:
        stream.truncate(length)
    found = only(run(wheel, tmp_path), "RMQ-TM-WHEEL-LENGTH")
    assert (found.expected, found.found, found.severity) == (38_707_200, length, Severity.ERROR)


def test_an_empty_wheel_is_filled_again_by_the_start(tmp_path: Path) -> None:
    given_store(tmp_path)
    (tmp_path / "timerwheel").write_bytes(b"")
    assert run(wheel, tmp_path) == []


def test_a_time_that_does_not_belong_into_the_slot(tmp_path: Path) -> None:
    given_store(tmp_path)
    position = slot_position(SOON)
    patch(tmp_path / "timerwheel", position, struct.pack(">q", SOON // 1000 + 1))
    found = only(run(wheel, tmp_path), "RMQ-TM-WHEEL-SLOT")
    assert (found.file, found.position, found.length) == ("timerwheel", position, 32)


@pytest.mark.parametrize("field", [8, 16])
@pytest.mark.parametrize("value", [-2, 1, LOG_FILE - 24])
def test_a_position_that_is_no_unit_boundary(field: int, value: int, tmp_path: Path) -> None:
    given_store(tmp_path)
    patch(tmp_path / "timerwheel", slot_position(SOON) + field, struct.pack(">q", value))
    assert only(run(wheel, tmp_path), "RMQ-TM-WHEEL-SLOT").position == slot_position(SOON)


def test_a_slot_that_names_a_unit_of_another_time(tmp_path: Path) -> None:
    given_store(tmp_path)
    patch(tmp_path / "timerwheel", slot_position(SOON) + 16, struct.pack(">q", UNIT))
    assert "is of another time" in only(run(wheel, tmp_path), "RMQ-TM-WHEEL-SLOT").message


def test_slots_beyond_a_log_that_lost_its_last_units(tmp_path: Path) -> None:
    """The case that makes a broker spin until its memory is full."""
    given_store(tmp_path, 5)
    patch(tmp_path / "timerlog" / f"{0:020d}", 3 * UNIT, bytes(2 * UNIT))
    found = [one for one in run(wheel, tmp_path) if one.code == "RMQ-TM-WHEEL-BEYOND"]
    assert [one.position for one in found] == [slot_position(SOON + 3000), slot_position(SOON + 4000)]
    assert {one.severity for one in found} == {Severity.ERROR}
    # The first slot names the end of the log itself: two equal numbers are no evidence, the message says what is wrong.
    assert [(one.expected, one.found) for one in found] == [(None, 3 * UNIT), (3 * UNIT, 4 * UNIT)]


def test_clearing_those_slots_makes_the_store_sound(tmp_path: Path) -> None:
    given_store(tmp_path, 5)
    patch(tmp_path / "timerlog" / f"{0:020d}", 3 * UNIT, bytes(2 * UNIT))
    for one in run(wheel, tmp_path):
        if one.code == "RMQ-TM-WHEEL-BEYOND":
            assert one.position is not None
            patch(tmp_path / "timerwheel", one.position, bytes(SLOT))
    assert errors(run(wheel, tmp_path)) == []


def test_delivered_slots_may_point_anywhere(tmp_path: Path) -> None:
    """Slots are not cleared after delivery, and units of the past are not read any more."""
    store = timer_store(tmp_path)
    for number in range(5):
        store.put(READ_TIME - 60_000 + number * 1000)
    store.build()
    patch(tmp_path / "timerlog" / f"{0:020d}", 3 * UNIT, bytes(2 * UNIT))
    assert run(wheel, tmp_path) == []


def test_a_lost_timer_log_leaves_every_pending_slot_beyond_its_end(tmp_path: Path) -> None:
    given_store(tmp_path, 5)
    (tmp_path / "timerlog" / f"{0:020d}").unlink()
    found = run(wheel, tmp_path)
    assert codes(found)["RMQ-TM-WHEEL-BEYOND"] == 5


def test_pending_units_that_neither_wheel_nor_replay_knows(tmp_path: Path) -> None:
    """Only the last one or two files are replayed; what an emptied wheel had of older ones is lost."""
    store = given_store(tmp_path, 4 * UNITS_PER_FILE, apart=500)
    with (tmp_path / "timerwheel").open("r+b") as stream:
        stream.truncate(0)
        stream.truncate(SLOTS * SLOT)
    replayed = (store.offset - LOG_FILE) // LOG_FILE * LOG_FILE
    found = only(run(wheel, tmp_path), "RMQ-TM-WHEEL-SLOT")
    assert found.found == replayed // LOG_FILE * UNITS_PER_FILE


def test_the_newest_snapshot_counts_and_not_the_plain_wheel(tmp_path: Path) -> None:
    store = given_store(tmp_path, 4)
    (tmp_path / "timerwheel").rename(tmp_path / f"timerwheel.{store.offset}")
    for name in ("timerwheel", "timerwheel.52"):
        with (tmp_path / name).open("wb") as stream:
            stream.truncate(SLOTS * SLOT)
    patch(tmp_path / f"timerwheel.{store.offset}", slot_position(SOON) + 16, struct.pack(">q", UNIT))
    assert only(run(wheel, tmp_path), "RMQ-TM-WHEEL-SLOT").file == f"timerwheel.{store.offset}"


@pytest.mark.parametrize(("settings", "ahead"), [({}, 604_740 // 3 * 4), ({"timerRollWindowSlot": "3000"}, 4000)])
def test_a_slot_further_ahead_than_any_unit_is_put(settings: dict[str, str], ahead: int, tmp_path: Path) -> None:
    now = int(time.time())
    near, far = (now + ahead - 100) * 1000, (now + ahead + 300) * 1000
    store = timer_store(tmp_path)
    store.wheel = {at // 1000 % SLOTS: Slot(at // 1000, 0, 0) for at in (near, far)}
    store.put(SOON)
    store.build()

    assert only(run(wheel, tmp_path, settings), "RMQ-TM-WHEEL-TIME").position == slot_position(far)


# Log


@pytest.mark.parametrize(
    ("field", "value"),
    [(0, 53), (12, 0), (12, 2), (12, 16), (4, -2), (16, 0), (16, READ_TIME + 1), (24, 1 << 30), (28, -1), (36, -1), (44, 1)],
)
def test_a_unit_that_breaks_a_rule(field: int, value: int, tmp_path: Path) -> None:
    given_store(tmp_path, 5)
    width = {4: 8, 16: 8, 28: 8, 44: 8}.get(field, 4)
    patch(tmp_path / "timerlog" / f"{0:020d}", 2 * UNIT + field, value.to_bytes(width, "big", signed=True))
    found = only(run(wheel, tmp_path), "RMQ-TM-LOG-UNIT")
    assert (found.file, found.position, found.length, found.severity) == (f"timerlog/{0:020d}", 2 * UNIT, UNIT, Severity.ERROR)


def test_zeros_in_the_middle_are_one_range(tmp_path: Path) -> None:
    given_store(tmp_path, 9)
    patch(tmp_path / "timerlog" / f"{0:020d}", 2 * UNIT, bytes(3 * UNIT))
    found = only(run(wheel, tmp_path), "RMQ-TM-LOG-UNIT")
    assert (found.position, found.length) == (2 * UNIT, 3 * UNIT)


def test_a_start_cuts_the_log_at_the_bad_unit_and_the_later_slots_lie_beyond(tmp_path: Path) -> None:
    given_store(tmp_path, 5)
    patch(tmp_path / "timerlog" / f"{0:020d}", 2 * UNIT, bytes(UNIT))
    found = [one.position for one in run(wheel, tmp_path) if one.code == "RMQ-TM-WHEEL-BEYOND"]
    assert found == [slot_position(SOON + number * 1000) for number in (2, 3, 4)]


def test_damage_in_a_file_that_no_start_reads_cuts_nothing(tmp_path: Path) -> None:
    given_store(tmp_path, 4 * UNITS_PER_FILE, apart=500)
    patch(tmp_path / "timerlog" / f"{0:020d}", 2 * UNIT, bytes(UNIT))
    found = codes(run(wheel, tmp_path))
    assert found["RMQ-TM-LOG-UNIT"] == 1
    assert found["RMQ-TM-WHEEL-BEYOND"] == 0


def test_zeros_at_the_end_of_a_file_that_another_follows(tmp_path: Path) -> None:
    given_store(tmp_path, 2 * UNITS_PER_FILE)
    position = (UNITS_PER_FILE - 2) * UNIT
    patch(tmp_path / "timerlog" / f"{0:020d}", position, bytes(2 * UNIT))
    found = only(run(wheel, tmp_path), "RMQ-TM-LOG-UNIT")
    assert (found.position, found.length) == (position, 2 * UNIT)


@pytest.mark.parametrize(("position", "data", "text"), [(12, b"\0\0\0\0", "end mark is missing"), (0, struct.pack(">i", 9), "counts 9")])
def test_the_mark_at_the_end_of_a_full_file(position: int, data: bytes, text: str, tmp_path: Path) -> None:
    given_store(tmp_path, 2 * UNITS_PER_FILE)
    mark = UNITS_PER_FILE * UNIT
    patch(tmp_path / "timerlog" / f"{0:020d}", mark + position, data)
    found = only(run(wheel, tmp_path), "RMQ-TM-LOG-UNIT")
    assert (found.position, found.length) == (mark, 16)
    assert text in found.message


@pytest.mark.parametrize("link", [2 * UNIT, 3 * UNIT, 26, 0])
def test_links_lead_to_older_units_of_the_same_time(link: int, tmp_path: Path) -> None:
    store = timer_store(tmp_path)
    for due in (SOON + 5000, SOON, SOON, SOON):  # the third unit links to the second, the first is of another time
        store.put(due)
    store.build()
    patch(tmp_path / "timerlog" / f"{0:020d}", 2 * UNIT + 4, struct.pack(">q", link))
    assert only(run(wheel, tmp_path), "RMQ-TM-CHAIN").position == 2 * UNIT


def test_a_chain_goes_through_several_files(tmp_path: Path) -> None:
    given_store(tmp_path, 2 * UNITS_PER_FILE + 3, apart=0)
    assert run(wheel, tmp_path) == []
    patch(tmp_path / "timerlog" / f"{LOG_FILE:020d}", 4, struct.pack(">q", LOG_FILE))
    assert only(run(wheel, tmp_path), "RMQ-TM-CHAIN").file == f"timerlog/{LOG_FILE:020d}"


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [(28, 7, "no message begins at 7"), (36, 91, "but the entry says 91"), (40, 12345, "another topic")],
)
def test_a_unit_that_points_to_another_message(field: int, value: int, text: str, tmp_path: Path) -> None:
    given_store(tmp_path, 5)
    width = 8 if field == 28 else 4
    patch(tmp_path / "timerlog" / f"{0:020d}", 2 * UNIT + field, value.to_bytes(width, "big"))
    found = only(run(wheel, tmp_path), "RMQ-TM-MESSAGE")
    assert found.position == 2 * UNIT
    assert text in found.message


def test_a_unit_that_points_to_an_ordinary_message(tmp_path: Path) -> None:
    store = timer_store(tmp_path)
    store.put(SOON, topic="orders")
    store.build()
    assert "belongs to orders" in only(run(wheel, tmp_path), "RMQ-TM-MESSAGE").message


@pytest.mark.parametrize("repeated", [1, 3])
def test_messages_that_a_restart_put_into_the_timer_once_more(repeated: int, tmp_path: Path) -> None:
    store = timer_store(tmp_path)
    messages = [store.message(SOON + number * 1000) for number in range(6)]
    for message in [*messages[:5], *messages[5 - repeated :]]:
        store.enqueue(message)
    store.build()

    (found,) = run(wheel, tmp_path)

    assert (found.code, found.position, found.severity) == ("RMQ-TM-LOG-ORDER", 5 * UNIT, Severity.WARNING)
    last, again = messages[4].offset, messages[5 - repeated].offset
    assert (found.expected, found.found) == (last if last != again else None, again)


def test_a_single_unit_out_of_order(tmp_path: Path) -> None:
    store = timer_store(tmp_path)
    messages = [store.message(SOON + number * 1000) for number in range(4)]
    for message in (messages[0], messages[1], messages[0]._replace(deliver_at=SOON), messages[2], messages[3]):
        store.enqueue(message)
    store.build()

    assert "out of order" in only(run(wheel, tmp_path), "RMQ-TM-LOG-ORDER").message


def test_order_is_followed_over_the_border_of_files(tmp_path: Path) -> None:
    store = given_store(tmp_path, UNITS_PER_FILE + 3)
    patch(tmp_path / "timerlog" / f"{LOG_FILE:020d}", 28, bytes(store.log[0][28:36]))

    found = only(run(wheel, tmp_path), "RMQ-TM-LOG-ORDER")

    assert (found.file, found.position) == (f"timerlog/{LOG_FILE:020d}", 0)


@pytest.mark.parametrize(
    ("kind", "later", "sound"),
    [(1, 0, True), (1, 1000, False), (1, -1000, False), (3, 1000, True), (3, 0, False), (3, -1000, False)],
)
def test_the_time_of_a_unit_and_that_of_its_message(kind: int, later: int, sound: bool, tmp_path: Path) -> None:
    store = timer_store(tmp_path)
    store.put(SOON + 9000 + later, kind=kind, slot_time=SOON + 9000)
    store.build()

    found = run(wheel, tmp_path)

    assert [(one.code, one.position, one.severity) for one in found] == ([] if sound else [("RMQ-TM-UNIT", 0, Severity.WARNING)])


@pytest.mark.parametrize(
    ("kind", "deletes", "sound"), [(1, False, True), (5, True, True), (7, True, True), (1, True, False), (5, False, False)]
)
def test_deletions(kind: int, deletes: bool, sound: bool, tmp_path: Path) -> None:
    store = timer_store(tmp_path)
    message = store.message(SOON + 1000, TIMER_DEL_UNIQKEY="orders+0A" if deletes else None)
    store.enqueue(message, kind=kind, slot_time=SOON if kind == 7 else None)
    store.build()

    assert [one.code for one in run(wheel, tmp_path)] == ([] if sound else ["RMQ-TM-UNIT"])


# Messages and their queue


LACKING: list[dict[str, str | None]] = [{"TIMER_OUT_MS": None}, {"TIMER_OUT_MS": "soon"}, {"REAL_QID": None}, {"REAL_QID": "one"}]


@pytest.mark.parametrize("changes", LACKING)
@pytest.mark.parametrize("enqueued", [True, False])
def test_a_message_that_lacks_what_the_timer_needs(changes: dict[str, str | None], enqueued: bool, tmp_path: Path) -> None:
    message = given_timer_with(tmp_path, enqueued, changes)

    found = only(run(wheel, tmp_path), "RMQ-TM-PROPERTIES")

    assert found.severity is Severity.ERROR
    assert next(iter(changes)) in found.message
    assert found.offset == message.offset


def given_timer_with(root: Path, enqueued: bool, changes: dict[str, str | None], body: bytes = b"") -> Message:
    """A timer with two sound messages and the one returned, which the timer has met or not."""
    store = timer_store(root)
    store.put(SOON)
    store.put(SOON + 1000)
    message = store.message(SOON + 2000, body=body, **changes)
    if enqueued:
        store.enqueue(message)
    else:
        store.messages -= 1
    store.build()
    return message


def test_a_message_without_real_topic(tmp_path: Path) -> None:
    given_timer_with(tmp_path, False, {"REAL_TOPIC": None})

    found = only(run(wheel, tmp_path), "RMQ-TM-PROPERTIES")

    assert (found.topic, found.queue_id, found.queue_offset) == ("rmq_sys_wheel_timer", 0, 2)


@pytest.mark.parametrize("enqueued", [True, False])
@pytest.mark.parametrize(("limit", "code"), [("1000", ["RMQ-TM-SIZE"]), ("1200", []), (None, [])])
def test_a_message_larger_than_the_timers_buffer(limit: str | None, code: list[str], enqueued: bool, tmp_path: Path) -> None:
    given_timer_with(tmp_path, enqueued, {}, bytes(1000))

    assert [one.code for one in run(wheel, tmp_path, {"maxMessageSize": limit} if limit else {})] == code


def test_a_pending_message_that_the_timer_passed_over(tmp_path: Path) -> None:
    store = timer_store(tmp_path)
    store.put(SOON)
    lost = store.message(SOON + 1000)
    store.put(SOON + 2000)
    store.build()

    (found,) = run(wheel, tmp_path)

    assert (found.code, found.severity, found.offset, found.queue_offset) == ("RMQ-TM-LOST", Severity.ERROR, lost.offset, 1)


def test_a_message_that_the_timer_passed_over_and_that_is_due_by_now(tmp_path: Path) -> None:
    store = timer_store(tmp_path)
    store.put(SOON)
    store.message(READ_TIME - 1000)
    store.put(SOON + 2000)
    store.build()

    (found,) = run(wheel, tmp_path)

    assert (found.code, found.severity) == ("RMQ-TM-LOST", Severity.WARNING)


def test_many_of_them_among_files_of_the_log(tmp_path: Path) -> None:
    store = timer_store(tmp_path)
    for number in range(4 * UNITS_PER_FILE + 1):
        message = store.message(SOON + number * 1000)
        if number % 10 != 5:
            store.enqueue(message)
    store.build()

    assert codes(run(wheel, tmp_path)) == {"RMQ-TM-LOST": 8}


def test_messages_that_were_due_when_the_timer_met_them_have_no_unit(tmp_path: Path) -> None:
    store = timer_store(tmp_path)
    store.put(SOON)
    store.message(WRITE_TIME - 1000)
    store.put(SOON + 2000)
    store.message(WRITE_TIME)
    store.build()

    assert run(wheel, tmp_path) == []


def test_a_log_that_lost_its_last_units_and_a_start_that_writes_them_again(tmp_path: Path) -> None:
    store = timer_store(tmp_path)
    store.put(SOON)
    lost = store.message(SOON + 1000)
    store.message(SOON + 2000)
    store.build()

    found = only(run(wheel, tmp_path), "RMQ-TM-CHECK")

    assert (found.offset, found.queue_offset, found.severity) == (lost.offset, 1, Severity.WARNING)
    assert "2 pending entries" in found.message


def test_a_timer_without_units_does_not_look_for_lost_messages_again(tmp_path: Path) -> None:
    store = timer_store(tmp_path)
    store.put(SOON)
    store.put(SOON + 1000)
    store.build()
    (tmp_path / "timerlog" / f"{0:020d}").unlink()
    with (tmp_path / "timerwheel").open("r+b") as stream:
        stream.truncate(0)

    found = only(run(wheel, tmp_path), "RMQ-TM-LOST")

    assert (found.offset, found.queue_offset) == (0, 0)
    assert "2 pending messages" in found.message


@pytest.mark.parametrize(
    ("settings", "entries", "count"),
    [({}, b"entries", 0), ({}, b"", 1), ({"timerRocksDBEnable": "true"}, b"entries", 0), ({"timerRocksDBEnable": "false"}, b"entries", 1)],
)
def test_messages_that_rocksdb_may_hold(settings: dict[str, str], entries: bytes, count: int, tmp_path: Path) -> None:
    store = timer_store(tmp_path)
    store.message(SOON)
    store.build()
    (tmp_path / "rocksdbstore").mkdir()
    (tmp_path / "rocksdbstore" / "000012.log").write_bytes(entries)

    assert codes(run(wheel, tmp_path, settings))["RMQ-TM-LOST"] == count


# Check point


def check_file(root: Path) -> Path:
    return root / "config" / "timercheck"


@pytest.mark.parametrize(
    ("position", "value"),
    [(0, 0), (0, READ_TIME + 1), (0, READ_TIME + 3_600_000), (8, 9999), (8, -1), (16, 999), (16, -5), (24, 2)],
    ids=["unset", "odd", "later than written", "flushed", "flushed negative", "queue", "queue negative", "master"],
)
def test_an_implausible_field(position: int, value: int, tmp_path: Path) -> None:
    given_store(tmp_path, 5)
    patch(check_file(tmp_path), position, struct.pack(">q", value))
    found = [one for one in run(wheel, tmp_path) if one.code == "RMQ-TM-CHECK"]
    assert found
    expected = 16 if position == 24 else position  # of the two queue offsets that differ, the own one is named
    assert found[0].position == expected
    assert {one.severity for one in found} == {Severity.WARNING if value else Severity.ERROR}


def test_a_read_time_in_the_future(tmp_path: Path) -> None:
    given_store(tmp_path, 2)
    future = (int(time.time()) + 86_400) * 1000
    patch(check_file(tmp_path), 0, struct.pack(">q", future))
    assert "in the future" in only(run(wheel, tmp_path), "RMQ-TM-CHECK").message


def test_a_short_check_point(tmp_path: Path) -> None:
    given_store(tmp_path)
    data = check_file(tmp_path).read_bytes()
    check_file(tmp_path).write_bytes(data[:56])
    found = only(run(wheel, tmp_path), "RMQ-TM-CHECK")
    assert (found.expected, found.found) == (4096, 56)


def test_a_missing_check_point(tmp_path: Path) -> None:
    given_store(tmp_path)
    check_file(tmp_path).unlink()
    assert only(run(wheel, tmp_path), "RMQ-TM-CHECK").file == "config/timercheck"


# A store of a broker


BROKER = "broker-5.5.1-crash"


def test_a_killed_broker_leaves_a_sound_timer() -> None:
    assert run(wheel, stores.sample_store(BROKER), stores.case(BROKER).settings(stores.sample_store(BROKER))) == []


def test_the_last_units_of_a_broker_zeroed(tmp_path: Path) -> None:
    root = stores.fresh_store(BROKER, tmp_path)
    last = max((root / "timerlog").iterdir())
    data = last.read_bytes()
    end = max(position for position in range(0, len(data) - UNIT, UNIT) if data[position : position + 4] == struct.pack(">i", UNIT)) + UNIT
    patch(last, end - 10 * UNIT, bytes(10 * UNIT))
    found = [one for one in run(wheel, root, stores.case(BROKER).settings(root)) if one.code == "RMQ-TM-WHEEL-BEYOND"]
    assert found
    assert {one.expected for one in found} == {int(last.name) + end - 10 * UNIT}


@pytest.mark.filterwarnings("error")
def test_a_wheel_of_the_largest_times(tmp_path: Path) -> None:
    given_store(tmp_path)
    far = (2**63 - 1) // SLOTS * SLOTS
    patch(tmp_path / "timerwheel", 0, struct.pack(">q", far))
    assert f"its time {far * 1000} ms" in only(run(wheel, tmp_path), "RMQ-TM-WHEEL-TIME").message


# Counts


def write_counts(root: Path, **counts: object) -> None:
    directory = root / "config"
    directory.mkdir(exist_ok=True)
    table = {topic: {"count": count, "timeStamp": READ_TIME} for topic, count in counts.items()}
    (directory / "timermetrics").write_text(json.dumps({"dataVersion": {"counter": 1}, "timingCount": table}))


def test_counts_that_fit_the_entries(tmp_path: Path) -> None:
    store = timer_store(tmp_path)
    for number in range(5):
        store.put(SOON + number)
    deleted = store.message(SOON, TIMER_DEL_UNIQKEY="key")
    store.enqueue(deleted, kind=5)
    store.build()
    write_counts(tmp_path, orders=4, others=0)
    assert run(wheel, tmp_path) == []


def test_counts_of_more_messages_than_there_are_entries(tmp_path: Path) -> None:
    given_store(tmp_path)
    write_counts(tmp_path, orders=7, unreadable="7")
    found = only(run(wheel, tmp_path), "RMQ-TM-METRICS")
    assert (found.topic, found.expected, found.found, found.severity) == ("orders", 5, 7, Severity.INFO)
    assert found.file == "config/timermetrics"


def test_counts_of_whole_brokers_fit(tmp_path: Path) -> None:
    """A broker that was killed, too: entries and counts are of one moment."""
    root = stores.sample_store("broker-5.5.1-crash")
    counted = json.loads((root / "config/timermetrics").read_text())["timingCount"]
    assert counted["delay"]["count"] == 174
    assert run(wheel, root) == []
