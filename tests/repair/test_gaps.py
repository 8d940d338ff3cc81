"""What the QUEUEOFFSETs of the log tell: records that jump, also beside lost messages, and queue offsets that were never lost."""

from __future__ import annotations

import pytest

from rmqstore.repair.log.gaps import Break, Gap, gaps_of, jumps_of, named_by_gaps
from rmqstore.repair.plan.model import Doubt, LostMessage

KEY = ("T", 0)
OTHER = ("U", 0)
BEFORE, AFTER = (150, 190), (250, 290)


def breaks(first: int, present: int, end: int) -> list[Break]:
    """Of a record at 200 with queue offset `present`, between those at 100 and 300 with `first` - 1 and `end`."""
    return [Break(KEY, first, present, 100, 200), Break(KEY, present + 1, end, 200, 300)]


@pytest.mark.parametrize(
    ("end", "damages", "value"),
    [
        (6, [], 5),
        (6, [BEFORE, AFTER], 5),
        (8, [BEFORE], 7),
        (8, [AFTER], 5),
        (8, [BEFORE, AFTER], None),
        (8, [], None),
        (8, [(10, 90), (310, 400)], None),
    ],
)
def test_a_record_that_jumps_gets_what_its_neighbours_leave(end: int, damages: list[tuple[int, int]], value: int | None) -> None:
    (jump,) = jumps_of(breaks(5, 99, end), damages)
    assert (jump.value, jump.first, jump.end) == (value, 5, end)


@pytest.mark.parametrize("present", [5, 6, 7])
def test_a_record_between_its_neighbours_does_not_jump(present: int) -> None:
    assert jumps_of(breaks(5, present, 8), [BEFORE]) == []


@pytest.mark.parametrize(("damages", "gap"), [([BEFORE], Gap(KEY, 5, 7, 100, 200)), ([AFTER], Gap(KEY, 6, 8, 200, 300))])
def test_what_was_lost_beside_a_record_that_jumps_is_a_gap(damages: list[tuple[int, int]], gap: Gap) -> None:
    found = breaks(5, 99, 8)
    assert gaps_of(found, jumps_of(found, damages)) == [gap]


def test_a_queue_offset_whose_entry_points_elsewhere_was_not_lost() -> None:
    lost = [LostMessage(physical_offset=1000, size=500, why="zeros")]
    gap = Gap(KEY, 3, 4, 900, 1600)
    (named,) = named_by_gaps(lost, [gap], [(1000, 1500)], lambda ranges: [])
    assert (named.topic, named.queue_offset, named.doubt) == ("T", 3, None)
    assert named_by_gaps(lost, [gap], [(1000, 1500)], lambda ranges: [], (), lambda place: place == ("T", 0, 3)) == lost


def test_messages_of_several_queues_have_a_doubt_about_their_positions() -> None:
    lost = [LostMessage(physical_offset=1000, size=500, why="zeros")]
    gaps = [Gap(KEY, 3, 4, 900, 1600), Gap(OTHER, 7, 8, 900, 1700)]
    found = named_by_gaps(lost, gaps, [(1000, 1500)], lambda ranges: [1200])
    assert {(one.topic, one.queue_offset) for one in found} == {("T", 3), ("U", 7)}
    assert [(one.physical_offset, one.size, one.doubt) for one in found] == [(1000, 200, Doubt.POSITION), (1200, 300, Doubt.POSITION)]
