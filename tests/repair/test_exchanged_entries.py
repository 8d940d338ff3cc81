"""Queue entries that were exchanged one by one: a lost message is named by the place that its entry belongs to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rmqstore.repair.log.exchanged_entries import OutOfOrder
from rmqstore.scan.unitruns import UNIT_ROWS
from tests.repair.recovering import Damaged, view_of
from tests.support import stores
from tests.support.operations import Exchange, Noise
from tests.support.storeview import UNIT_SIZE

BASE = "5.3.3-plain"


@pytest.mark.parametrize("lost", ["first", "second", "both"])
def test_a_lost_message_has_the_place_that_its_entry_belongs_to(lost: str, tmp_path: Path) -> None:
    root = stores.fresh_store(BASE, tmp_path)
    view = view_of(BASE)
    one, other = (view.units(key)[9] for key in (("TopicA", "0"), ("topic-b_2", "1")))
    Exchange(one.path, one.position, other.path, other.position, UNIT_SIZE).apply(root)
    gone = {"first": [one], "second": [other], "both": [one, other]}[lost]
    for unit in gone:
        record = next(record for record in view.records if record.offset == unit.physical_offset)
        Noise(record.path, record.position, record.size).apply(root)
    result = Damaged(BASE, root).recover()
    assert (result.errors, result.left) == ({}, 0)
    places = {one.physical_offset: ("TopicA", 0, 9), other.physical_offset: ("topic-b_2", 1, 9)}
    found = {entry.physical_offset: (entry.topic, entry.queue_id, entry.queue_offset) for entry in result.plan.lost}
    assert found == {unit.physical_offset: places[unit.physical_offset] for unit in gone}


def rows(*positions: int) -> np.ndarray:
    """Entries that point at these physical offsets."""
    found = np.zeros(len(positions), UNIT_ROWS)
    found["physical_offset"], found["size"] = positions, 100
    return found


def test_only_one_partner_decides() -> None:
    entries = OutOfOrder()
    for queue_id, positions in enumerate([(100, 5000, 300, 400), (4000, 200, 6000), (150, 9000, 250)]):
        entries.add("T", queue_id, np.arange(len(positions)), rows(*positions))
    assert entries.exchanged() == {("T", 0, 1): ("T", 1, 1), ("T", 1, 1): ("T", 0, 1)}
    entries.add("T", 3, np.arange(3), rows(110, 4500, 290))
    assert entries.exchanged() == {}


def test_repeats_and_damage_are_no_exchange() -> None:
    entries = OutOfOrder()
    entries.add("T", 0, np.arange(5), rows(100, 100, 200, 200, 300))
    entries.add("T", 1, np.arange(3), rows(100, 9000, 300))
    assert entries.exchanged() == {}
