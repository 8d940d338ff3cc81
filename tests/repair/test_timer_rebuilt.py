"""A timer log that is missing, short or empty is built from the commit log, with the pending messages of the one that a broker wrote."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rmqstore.formats import timer
from rmqstore.rebuild.timerwheel import Waiting, files_of, rolled, units_of
from rmqstore.repair.procedure import undo
from rmqstore.store.root import Store
from rmqstore.verify.timer.files import open_timer
from rmqstore.verify.timer.log import UNIT
from rmqstore.verify.timer.messages import is_deleted
from tests.repair.every_action import Yes
from tests.repair.recovering import Damaged
from tests.support import stores

BASES = ("broker-5.3.3-cqext-crash", "broker-5.5.1-crash")


def pending(store: Store) -> list[tuple[int, int, int]]:
    """Message, size and kind of each unit that is not delivered yet, but rolled ones without their slot."""
    files = open_timer(store, 0)
    found: list[tuple[int, int, int]] = []
    for window in files.log.windows():
        units = window.units[window.sound & files.is_live(files.slot_time(window.units)) & (window.units["size_py"] != timer.GIVEN_UP)]
        found += [(int(unit["offset_py"]), int(unit["size_py"]), int(unit["magic"])) for unit in units]
    return sorted(found)


def _gone(log: Path) -> None:
    shutil.rmtree(log)


def _zeros(log: Path) -> None:
    for path in log.iterdir():
        path.write_bytes(bytes(path.stat().st_size))


def _short(log: Path) -> None:
    last = max(log.iterdir())
    last.write_bytes(last.read_bytes()[:-52])


def _gone_with_wheel(log: Path) -> None:
    shutil.rmtree(log)
    for wheel in log.parent.glob("timerwheel*"):
        wheel.unlink()


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("damage", [_gone, _zeros, _short, _gone_with_wheel])
def test_the_same_messages_wait_in_the_new_log(damage: Callable[[Path], None], base: str, tmp_path: Path) -> None:
    store = Damaged(base, stores.fresh_store(base, tmp_path))
    before, wheel = pending(store.open()), (store.root / "timerwheel").read_bytes()
    assert len(before) > 50
    damage(store.root / "timerlog")
    damaged = {path.name: path.read_bytes() for path in sorted((store.root / "timerlog").glob("*"))}

    result = store.recover()

    assert (result.errors, result.left) == ({}, 0)
    assert pending(store.open()) == before
    assert any(f"built from the commit log: {len(before)} messages" in note for note in result.plan.notes)
    undo(store.root, None if result.transaction is None else result.transaction.id, Yes())
    assert {path.name: path.read_bytes() for path in sorted((store.root / "timerlog").glob("*"))} == damaged
    if damage is not _gone_with_wheel:
        assert (store.root / "timerwheel").read_bytes() == wheel


def test_units_of_one_time_are_linked_across_files() -> None:
    size = 3 * timer.LOG_UNIT_SIZE + timer.LOG_BLANK_SIZE + 20
    waiting = [Waiting(100 * number, 90, 5000 + 1000 * (number % 2), 1, 7) for number in range(5)]
    units, offsets = units_of(waiting, 4000, size, UNIT)
    assert offsets.tolist() == [0, 52, 104, size, size + 52]
    assert units["prev_pos"].tolist() == [-1, -1, 0, 52, 104]
    assert (units["delay"] + units["write_time"]).tolist() == [one.slot_time for one in waiting]
    first, second = files_of(units, size)
    assert (first[0], second[0]) == (0, size)
    blank = timer.LOG_BLANK.parse(first[1][156:])
    assert (len(first[1]), blank.size) == (172, size - 156)
    assert np.array_equal(np.frombuffer(second[1], UNIT), units[3:])


@pytest.mark.parametrize(("due", "slot"), [(99, (99, False)), (100, (50, True)), (132, (50, True)), (133, (100, True)), (999, (100, True))])
def test_what_is_due_after_the_window_rolls(due: int, slot: tuple[int, bool]) -> None:
    assert rolled(due, 0, 100) == slot


@pytest.mark.parametrize(("deletion", "deletes"), [("KEY", True), ("orders+KEY", True), ("orders_KEY", False), ("other+KEY", False)])
def test_deletions_name_a_key_or_a_topic_plus_a_key(deletion: str, deletes: bool) -> None:
    assert is_deleted("orders", "KEY", {deletion}) is deletes
