"""The QUEUEOFFSETs that the log leaves out: which messages were lost, and which were not."""

from __future__ import annotations

from rmqstore.reading.continuity import Segment
from rmqstore.repair.log.gaps import Gap, gaps_of, named_by_gaps
from rmqstore.repair.plan.model import Doubt, LostMessage

KEY = ("T", 0)
OTHER = ("U", 0)


def course(*starts: int) -> dict[tuple[str, int], list[Segment]]:
    """A queue of segments of two records each, at 100, 200, ..."""
    return {KEY: [Segment(start, start + 2, 100 * number, 100 * number + 50) for number, start in enumerate(starts, 1)]}


def test_queue_offsets_that_no_record_has_are_gaps() -> None:
    assert gaps_of(course(3, 7), {}, from_zero=True) == [Gap(KEY, 0, 3, -1, 100), Gap(KEY, 5, 7, 150, 200)]
    assert gaps_of(course(3, 7), {}, from_zero=False) == [Gap(KEY, 5, 7, 150, 200)]


def test_gaps_beside_records_with_wrong_queue_offsets() -> None:
    assert gaps_of(course(0, 99, 6), {200: 2}, from_zero=True) == [Gap(KEY, 4, 6, 250, 300)]
    assert gaps_of(course(0, 99, 6), {200: 4}, from_zero=True) == [Gap(KEY, 2, 4, 150, 200)]
    assert gaps_of(course(0, 99, 4), {200: 2}, from_zero=True) == []


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
