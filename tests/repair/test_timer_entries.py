"""Damaged entries of the timer log are written again from the messages of the timer, in stores of real brokers byte for byte."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from rmqstore.formats import timer
from tests.repair.recovering import Damaged
from tests.repair.test_timer import Given
from tests.support import stores
from tests.verify.one_check import patch
from tests.verify.timer_files import LOG_FILE, UNIT, UNITS_PER_FILE

BASE = "broker-5.5.1-crash"
Change = Callable[[bytearray], None]


def zero(start: int, length: int) -> Change:
    """Zeros in the first file."""

    def change(data: bytearray) -> None:
        data[start : start + length] = bytes(length)

    return change


def flip(data: bytearray) -> None:
    """Six bits of any entries but the last one of the file: kinds, sizes, links, offsets."""
    random = Random(5)
    for _ in range(6):
        data[random.randrange(len(data) - 2 * UNIT)] ^= 1 << random.randrange(8)


def offset_of_message(data: bytearray) -> None:
    """The entry of a pending message names another place of the log."""
    data[100 * UNIT + 28 : 100 * UNIT + 36] = (12345).to_bytes(8, "big")


HARMS: dict[str, Change] = {
    "three entries": zero(10 * UNIT, 3 * UNIT),
    "the first entry": zero(0, UNIT),
    "all before the first pending entries, and these": zero(0, 33 * UNIT),
    "a page": zero(4096, 4096),
    "bits": flip,
    "the offset of a message": offset_of_message,
}


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.sampled(2)
def test_the_entries_of_a_real_broker_come_back(harm: str, tmp_path: Path) -> None:
    root = stores.fresh_store(BASE, tmp_path)
    path = min((root / "timerlog").iterdir())
    before = path.read_bytes()
    data = bytearray(before)
    HARMS[harm](data)
    path.write_bytes(data)
    result = Damaged(BASE, root).recover()
    assert (result.errors, result.left, result.plan.lost) == ({}, 0, ())
    assert path.read_bytes() == before


def test_the_end_mark_of_a_full_file_comes_back(tmp_path: Path) -> None:
    store = Given(tmp_path, tuple(range(0, 1000 * 2 * UNITS_PER_FILE, 1000)))
    before = store.log()
    patch(tmp_path / "timerlog" / f"{0:020d}", UNITS_PER_FILE * UNIT, bytes(16))
    result = store.recover()
    assert (result.errors, result.left) == ({}, 0)
    assert store.log() == before


def test_a_link_to_a_later_entry_comes_back(tmp_path: Path) -> None:
    store = Given(tmp_path)
    before = store.log()
    patch(tmp_path / "timerlog" / f"{0:020d}", store.units[4] + 4, struct.pack(">q", LOG_FILE - UNIT))
    result = store.recover()
    assert (result.errors, result.left) == ({}, 0)
    assert store.log() == before


def test_a_place_without_message_is_dropped_by_the_timer(tmp_path: Path) -> None:
    """The message is lost as well, so nothing is left to write there."""
    store = Given(tmp_path)
    store.destroy(1)
    patch(tmp_path / "timerlog" / f"{0:020d}", store.units[1], bytes(UNIT))
    result = store.recover()
    assert (result.errors, result.left, len(result.plan.lost)) == ({}, 0, 1)
    unit = timer.LOG_UNIT.parse(store.log()[store.units[1] :])
    assert (unit.size, unit.size_py) == (UNIT, timer.GIVEN_UP)
    assert any("the timer drops them" in note for note in result.plan.notes)
