"""The timer after a repair of the log: units let go of lost messages, and nothing else in the timer changes.

What brokers do with such a store is seen in tests/broker/test_timer.py.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from rmqstore.formats import timer
from rmqstore.repair.procedure import Planner, RepairRequest, Result, execute
from rmqstore.repair.recover import Recovery, plan_truncate
from rmqstore.store.root import Store
from tests.repair.every_action import Yes
from tests.support import stores
from tests.support.cli import rmqstore
from tests.verify.one_check import patch
from tests.verify.timer_files import (
    LOG_FILE,
    PRECISION,
    READ_TIME,
    SLOT,
    UNIT,
    UNITS_PER_FILE,
    Message,
    TimerStore,
    slot_position,
    timer_store,
)

RELEASE = "5.3.3"
SOON = READ_TIME + 60_000
SIZE_PY, TOPIC_HASH = 36, 40


class Given:
    """A store whose timer holds five messages that are due one second after the other; two of the same second come last."""

    def __init__(self, root: Path, dues: tuple[int, ...] = (0, 1000, 2000, 3000, 3000), precision: int = PRECISION) -> None:
        self.timer: TimerStore = timer_store(root)
        self.timer.precision = precision
        self.root = root
        self.messages: list[Message] = [self.timer.message(SOON + due) for due in dues]
        self.units = [self.timer.enqueue(message) for message in self.messages]
        self.timer.build()
        patch(root / "config" / "timercheck", 0, struct.pack(">q", READ_TIME))

    def open(self) -> Store:
        return Store.open(self.root, settings=self.timer.settings)

    def done(self, command: str, plan: Planner) -> Result:
        return execute(RepairRequest(command, RELEASE, self.open, plan), Yes())

    def recover(self) -> Result:
        return self.done("recover", Recovery(RELEASE).plan)

    def destroy(self, number: int) -> None:
        """Makes the record of a message what is none."""
        offset, size, _ = self.messages[number]
        patch(next((self.root / "commitlog").iterdir()), offset, b"\xa5" * size)

    def log(self) -> bytes:
        return b"".join(path.read_bytes() for path in sorted((self.root / "timerlog").iterdir()))

    def wheel(self) -> bytes:
        return (self.root / "timerwheel").read_bytes()

    def check(self) -> list[int]:
        """The two queue offsets."""
        fields = timer.parse_check((self.root / "config" / "timercheck").read_bytes())
        return [int(fields.last_timer_queue_offset), int(fields.master_timer_queue_offset)]


def with_size(log: bytes, unit: int, size: int) -> bytes:
    """The timer log with another size in one unit."""
    return log[: unit + SIZE_PY] + struct.pack(">i", size) + log[unit + SIZE_PY + 4 :]


@pytest.mark.parametrize("number", [0, 2, 3])
def test_the_unit_of_a_lost_message_is_given_up(number: int, tmp_path: Path) -> None:
    store = Given(tmp_path)
    log, wheel = store.log(), store.wheel()
    store.destroy(number)

    result = store.recover()

    assert (result.errors, result.left) == ({}, 0)
    assert [lost.physical_offset for lost in result.plan.lost] == [store.messages[number].offset]
    assert store.log() == with_size(log, store.units[number], 0)
    assert store.wheel() == wheel
    assert store.check() == [5, 5]


def test_units_behind_a_cut_are_given_up_and_the_check_point_goes_back(tmp_path: Path) -> None:
    store = Given(tmp_path)
    log = store.log()
    at = store.messages[3].offset

    result = store.done("truncate", lambda planning, opened: plan_truncate(planning, opened, at=at))

    assert (result.errors, result.left) == ({}, 0)
    assert store.log() == with_size(with_size(log, store.units[3], 0), store.units[4], 0)
    assert store.check() == [3, 3]


def test_units_that_were_delivered_stay_as_they_are(tmp_path: Path) -> None:
    store = Given(tmp_path)
    patch(tmp_path / "config" / "timercheck", 0, struct.pack(">q", SOON + 10_000))
    log = store.log()
    store.destroy(2)

    assert store.recover().errors == {}
    assert store.log() == log


def test_a_message_that_can_be_mended_keeps_its_unit(tmp_path: Path) -> None:
    store = Given(tmp_path)
    log = store.log()
    patch(next((tmp_path / "commitlog").iterdir()), store.messages[2].offset + 4, b"\0")  # the magic

    result = store.recover()

    assert (result.errors, result.left, result.plan.lost) == ({}, 0, ())
    assert store.log() == log


@pytest.mark.parametrize(("place", "width"), [(SIZE_PY, 4), (TOPIC_HASH, 4)])
def test_what_a_unit_says_of_its_message_is_put_right(place: int, width: int, tmp_path: Path) -> None:
    store = Given(tmp_path)
    log = store.log()
    patch(tmp_path / "timerlog" / f"{0:020d}", store.units[2] + place, b"\x01" * width)

    result = store.recover()

    assert (result.errors, result.left) == ({}, 0)
    assert store.log() == log


def test_a_unit_of_a_message_that_is_due_at_another_time_is_left_alone(tmp_path: Path) -> None:
    """Its offset is damaged: it names the message of another unit."""
    store = Given(tmp_path)
    patch(tmp_path / "timerlog" / f"{0:020d}", store.units[2] + 28, struct.pack(">qi", store.messages[1].offset, 1))
    log = store.log()

    assert store.recover().errors == {"RMQ-TM-MESSAGE": 1, "RMQ-TM-LOST": 1}
    assert store.log() == log


def test_a_log_whose_first_file_is_gone_is_built_from_the_commit_log(tmp_path: Path) -> None:
    store = Given(tmp_path, tuple(range(0, 1000 * (UNITS_PER_FILE + 3), 1000)))
    (tmp_path / "timerlog" / f"{0:020d}").unlink()

    result = store.recover()

    assert (result.errors, result.left) == ({}, 0)
    named = [struct.unpack_from(">qi", unit, 28) for unit in _units(store) if unit[:4] == struct.pack(">i", UNIT)]
    assert [offset for offset, size in named if size > 0] == [message.offset for message in store.messages]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("left", [None, b"", bytes(4096), b"\x7f" * 56])
@pytest.mark.parametrize("name", ["broker-5.5.1-crash", "broker-5.3.3-cqext-crash", "broker-5.5.1-rocksdb-clean"])
def test_a_lost_timercheck_is_made_by_what_the_log_has_delivered(name: str, left: bytes | None, tmp_path: Path) -> None:
    """Never a later time than the broker's own, which would skip messages. A crash leaves an older queue offset than the last entry has."""
    root = stores.fresh_store(name, tmp_path / "store")
    options = stores.case(name).set_options(root)
    before = timer.parse_check((root / "config" / "timercheck").read_bytes())
    (root / "config" / "timercheck").unlink()
    if left is not None:
        (root / "config" / "timercheck").write_bytes(left)

    done = rmqstore("recover", root, "--yes", "--format", "json", *options)

    assert done.status == 0, done.out
    after = timer.parse_check((root / "config" / "timercheck").read_bytes())
    assert before.last_read_time_ms - 60_000 < after.last_read_time_ms <= before.last_read_time_ms
    assert after.last_timer_queue_offset == after.master_timer_queue_offset >= before.last_timer_queue_offset
    # All that is due before was delivered: its body, key and birth are in the log outside of the topic of the timer.
    waiting = [one for one in rmqstore("timers", root, "--format", "json", *options).objects if one.get("kind") == "timer"]
    assert waiting
    assert all(one["due"] is None or one["due"] >= after.last_read_time_ms for one in waiting)


def test_without_deliveries_the_first_pending_message_is_the_read_time(tmp_path: Path) -> None:
    store = Given(tmp_path)
    (tmp_path / "config" / "timercheck").unlink()

    result = store.recover()

    assert (result.errors, result.left) == ({}, 0)
    fields = timer.parse_check((tmp_path / "config" / "timercheck").read_bytes())
    assert fields.last_read_time_ms == SOON // PRECISION * PRECISION
    assert fields.last_timer_queue_offset == len(store.messages)


def _units(store: Given) -> list[bytes]:
    """The places of units in all files of the timer log."""
    log = store.log()
    return [
        log[start + UNIT * number : start + UNIT * (number + 1)]
        for start in range(0, len(log), LOG_FILE)
        for number in range(UNITS_PER_FILE)
    ]


def test_slots_of_units_that_the_log_lost_become_empty(tmp_path: Path) -> None:
    store = Given(tmp_path)
    wheel = store.wheel()
    patch(tmp_path / "timerlog" / f"{0:020d}", store.units[2], bytes(3 * UNIT))

    assert store.recover().errors == {}
    cleared = [slot_position(SOON + 2000), slot_position(SOON + 3000)]
    for position in cleared:
        wheel = wheel[:position] + bytes(SLOT) + wheel[position + SLOT :]
    assert store.wheel() == wheel


def test_a_slot_whose_last_unit_is_lost_goes_back_to_the_one_before(tmp_path: Path) -> None:
    store = Given(tmp_path)
    position = slot_position(SOON + 3000)
    patch(tmp_path / "timerlog" / f"{0:020d}", store.units[4], bytes(UNIT))

    assert store.recover().errors == {}
    slot = timer.WHEEL_SLOT.parse(store.wheel()[position : position + SLOT])
    assert (slot.first_pos, slot.last_pos) == (store.units[3], store.units[3])


def test_without_a_last_unit_a_start_goes_back_to_messages_without_units(tmp_path: Path) -> None:
    """The last unit that is left names a lost message: by itself a start would go on where the check point says."""
    store = Given(tmp_path)
    patch(tmp_path / "timerlog" / f"{0:020d}", store.units[3], bytes(2 * UNIT))
    store.destroy(2)

    result = store.recover()

    assert (result.errors, result.left) == ({}, 0)
    assert store.check() == [3, 5]


@pytest.mark.parametrize("removed", [False, True])
def test_a_lost_timer_log_is_built_from_the_commit_log(removed: bool, tmp_path: Path) -> None:
    store = Given(tmp_path)
    (log,) = (tmp_path / "timerlog").iterdir()
    log.write_bytes(bytes(LOG_FILE))
    if removed:
        log.unlink()

    result = store.recover()

    assert (result.errors, result.left) == ({}, 0)
    assert store.check() == [5, 5]  # all have entries, and a start adds none again
    assert log.read_bytes().strip(b"\0")
    assert any(store.wheel())


def test_the_check_point_stays_where_the_last_unit_leads_a_start_back(tmp_path: Path) -> None:
    store = Given(tmp_path)
    patch(tmp_path / "timerlog" / f"{0:020d}", store.units[3], bytes(2 * UNIT))

    assert store.recover().errors == {}
    assert store.check() == [5, 5]


def test_a_sound_timer_of_several_files_is_left_alone(tmp_path: Path) -> None:
    store = Given(tmp_path, tuple(range(0, 1000 * (2 * UNITS_PER_FILE + 3), 1000)))
    assert len(store.log()) == 3 * LOG_FILE
    before = store.log(), store.wheel(), store.check()

    assert store.recover().errors == {}
    assert (store.log(), store.wheel(), store.check()) == before
