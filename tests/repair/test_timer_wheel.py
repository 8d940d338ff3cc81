"""Timer wheels that are gone or damaged: what `recover` builds from the timer log is the wheel that the broker wrote, byte for byte."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqstore.formats import timer
from rmqstore.repair.derived.timer import entries
from rmqstore.repair.recover import Recovery, Strategy
from tests.repair.recovering import Damaged
from tests.repair.test_timer import RELEASE, SOON, Given
from tests.support import stores
from tests.verify.one_check import patch
from tests.verify.timer_files import LOG_FILE, SLOT, SLOTS, UNIT, UNITS_PER_FILE, slot_position

WHEEL = SLOTS * SLOT
# Stores of whole brokers after a clean stop and after a crash; the log of DLedger is not repaired.
BASES = [case.name for case in stores.cases() if case.is_broker and case.release >= "5" and "dledger" not in case.name]
Damage = Callable[[Path], None]


def removed(wheel: Path) -> None:
    wheel.unlink()


def emptied(wheel: Path) -> None:
    os.truncate(wheel, 0)


def short(wheel: Path) -> None:
    os.truncate(wheel, WHEEL - SLOT)


def long(wheel: Path) -> None:
    os.truncate(wheel, WHEEL + SLOT)


def directory(wheel: Path) -> None:
    wheel.unlink()
    (wheel / "inner").mkdir(parents=True)


def named_pipe(wheel: Path) -> None:
    wheel.unlink()
    os.mkfifo(wheel)


def link_to_nowhere(wheel: Path) -> None:
    wheel.unlink()
    wheel.symlink_to("nowhere")


def garbage(wheel: Path) -> None:
    """Half of the file."""
    patch(wheel, WHEEL // 4, b"\xa5\x5a\x01" * (WHEEL // 6))


def garbage_over_slots(wheel: Path) -> None:
    """All pages with slots."""
    data = wheel.read_bytes()
    for position in range(0, WHEEL, 4096):
        if any(data[position : position + 4096]):
            patch(wheel, position, b"\xa5" * 4096)


def other_positions(wheel: Path) -> None:
    """Slots that lead to a unit of another time, and to no unit boundary."""
    data = wheel.read_bytes()
    for number, position in enumerate(position for position in range(0, WHEEL, SLOT) if any(data[position : position + SLOT])):
        last = int.from_bytes(data[position + 16 : position + 24], "big")
        patch(wheel, position + 16, (last + 1 if number % 2 else 0).to_bytes(8, "big"))


DAMAGES: tuple[Damage, ...] = (removed, emptied, short, long, directory, named_pipe, link_to_nowhere, garbage, garbage_over_slots)


@pytest.mark.parametrize(
    ("base", "damage"),
    [(base, damage) for base in BASES for damage in (DAMAGES if base == "broker-5.5.1-crash" else (removed, garbage_over_slots))],
)
def test_the_wheel_of_a_broker_is_built_as_the_broker_wrote_it(base: str, damage: Damage, tmp_path: Path) -> None:
    store = Damaged(base, stores.fresh_store(base, tmp_path))
    wheel = store.root / "timerwheel"
    before = wheel.read_bytes()
    assert before.strip(b"\0"), "the sample has no timer"
    damage(wheel)

    result = store.recover()

    assert (result.errors, result.left, result.plan.lost) == ({}, 0, ())
    assert wheel.read_bytes() == before


@pytest.mark.parametrize("base", BASES)
def test_pending_slots_with_wrong_positions_are_corrected(base: str, tmp_path: Path) -> None:
    """Slots of delivered messages keep what is there: no broker reads it."""
    store = Damaged(base, stores.fresh_store(base, tmp_path))
    wheel = store.root / "timerwheel"
    before = wheel.read_bytes()
    other_positions(wheel)

    result = store.recover()

    assert (result.errors, result.left) == ({}, 0)
    after = wheel.read_bytes()
    read_time = timer.parse_check((store.root / "config" / "timercheck").read_bytes()).last_read_time_ms
    for position in range(0, WHEEL, SLOT):
        if int.from_bytes(before[position : position + 8], "big") * 1000 >= read_time:
            assert after[position : position + SLOT] == before[position : position + SLOT]


def given_files(root: Path, count: int = 4 * UNITS_PER_FILE) -> Given:
    """A timer log of several files, of which a start reads two; two messages are due in each second."""
    return Given(root, tuple(number // 2 * 1000 for number in range(count)))


@pytest.mark.parametrize("damage", DAMAGES)
def test_units_of_all_files_are_in_the_wheel(damage: Damage, tmp_path: Path) -> None:
    store = given_files(tmp_path)
    assert len(store.log()) == 4 * LOG_FILE
    log, wheel, check = store.log(), store.wheel(), store.check()
    damage(tmp_path / "timerwheel")

    result = store.recover()

    assert (result.errors, result.left) == ({}, 0)
    assert (store.log(), store.wheel(), store.check()) == (log, wheel, check)


def test_zeros_over_slots_of_files_that_no_start_reads(tmp_path: Path) -> None:
    store = given_files(tmp_path)
    wheel = store.wheel()
    patch(tmp_path / "timerwheel", slot_position(SOON), bytes(10 * SLOT))

    result = store.recover()

    assert (result.errors, result.left) == ({}, 0)
    assert store.wheel() == wheel


def test_minimal_builds_a_wheel_that_no_broker_starts_with(tmp_path: Path) -> None:
    store = given_files(tmp_path)
    wheel = store.wheel()
    short(tmp_path / "timerwheel")

    store.done("recover", Recovery(RELEASE, Strategy.MINIMAL).plan)

    assert store.wheel() == wheel


def test_a_wheel_of_the_wrong_length_is_built_with_a_missing_log(tmp_path: Path) -> None:
    store = Given(tmp_path)
    for path in (tmp_path / "timerlog").iterdir():
        path.unlink()
    short(tmp_path / "timerwheel")

    result = store.recover()

    assert (result.errors, result.left) == ({}, 0)
    assert (tmp_path / "timerwheel").stat().st_size == timer.WHEEL_FILE_SIZE
    assert next((tmp_path / "timerlog").iterdir()).read_bytes().strip(b"\0")


def test_a_missing_wheel_is_built_with_an_empty_log(tmp_path: Path) -> None:
    store = Given(tmp_path)
    (log,) = (tmp_path / "timerlog").iterdir()
    log.write_bytes(bytes(LOG_FILE))
    (tmp_path / "timerwheel").unlink()

    assert store.recover().errors == {}
    assert (tmp_path / "timerwheel").stat().st_size == timer.WHEEL_FILE_SIZE
    assert next((tmp_path / "timerlog").iterdir()).read_bytes().strip(b"\0")


@pytest.mark.parametrize("length", [WHEEL - SLOT, 7])
def test_the_newest_snapshot_is_built_and_an_older_one_moved_out(length: int, tmp_path: Path) -> None:
    """A start reads the snapshot with the largest offset; the plain wheel is left as it was."""
    store = given_files(tmp_path)
    wheel = store.wheel()
    newest = tmp_path / f"timerwheel.{store.units[-1] + UNIT}"
    os.truncate(tmp_path / "timerwheel", 0)
    for path in (newest, tmp_path / "timerwheel.52"):
        path.write_bytes(bytes(length))

    result = store.recover()

    assert (result.errors, result.left) == ({}, 0)
    assert newest.read_bytes() == wheel
    assert (tmp_path / "timerwheel").stat().st_size == 0
    assert not (tmp_path / "timerwheel.52").exists()


def test_units_behind_damage_of_the_timer_log_are_not_in_the_wheel(tmp_path: Path) -> None:
    """A start cuts the log there and enters the messages of later units from their queue; slots for them would link to themselves."""
    store = given_files(tmp_path)
    wheel, last = store.wheel(), store.units[-5]
    patch(tmp_path / "timerlog" / f"{3 * LOG_FILE:020d}", last % LOG_FILE, bytes(5 * UNIT))
    removed(tmp_path / "timerwheel")

    result = store.recover()

    assert (result.errors, result.left) == ({}, 0)
    # The fifth message from the end is the second one of its second, so one slot keeps its first unit and two become empty.
    kept, *emptied_slots = sorted({message.deliver_at for message in store.messages[-5:]})
    slot = {"time": kept // 1000, "first_pos": last - UNIT, "last_pos": last - UNIT, "num": 1, "magic": 0}
    for due, data in ((kept, timer.WHEEL_SLOT.build(slot)), *((due, bytes(SLOT)) for due in emptied_slots)):
        wheel = wheel[: slot_position(due)] + data + wheel[slot_position(due) + SLOT :]
    assert store.wheel() == wheel
    assert any(f"up to {last}, with slots" in note for note in result.plan.notes)


@pytest.mark.parametrize("precision", timer.PRECISIONS)
def test_the_precision_follows_from_the_units(precision: int, tmp_path: Path) -> None:
    store = Given(tmp_path, tuple(range(0, 70 * precision, precision)), precision=precision)
    wheel = store.wheel()
    removed(tmp_path / "timerwheel")

    result = store.recover()

    assert (result.errors, result.left) == ({}, 0)
    assert store.wheel() == wheel
    assert any(f"slots of {precision} ms" in note for note in result.plan.notes)


def test_a_sound_store_with_snapshots_is_left_alone(tmp_path: Path) -> None:
    store = given_files(tmp_path)
    (tmp_path / "timerwheel").rename(tmp_path / f"timerwheel.{store.units[-1] + UNIT}")
    (tmp_path / "timerwheel").write_bytes(bytes(WHEEL))

    assert not store.recover().plan.actions


@pytest.mark.parametrize(("file", "text"), [(0, "that no start reads, the first at 52:"), (3, "no valid entry at 3124: a start")])
def test_the_plan_says_what_becomes_of_messages_of_damaged_units(
    file: int, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there are too many of them."""
    monkeypatch.setattr(entries, "_MOST", 0)
    store = Given(tmp_path, tuple(range(0, 1000 * 4 * UNITS_PER_FILE, 1000)))
    patch(tmp_path / "timerlog" / f"{file * LOG_FILE:020d}", UNIT, b"\xa5" * UNIT)

    result = store.recover()

    assert (result.errors, result.left) == ({"RMQ-TM-LOG-UNIT": 1}, 0)
    assert any(text in note for note in result.plan.notes)
