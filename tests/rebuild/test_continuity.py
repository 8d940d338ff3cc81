"""Which QUEUEOFFSETs of a queue the records around them contradict, and which ones brokers and losses leave so."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqstore.reading.continuity import Segment, misnumbered, room_of

STEP = 1000  # bytes between two records


def segments_of(offsets: Sequence[int], width: int = 1) -> list[Segment]:
    """The segments of records with these QUEUEOFFSETs, one every STEP bytes from STEP on."""
    found: list[Segment] = []
    for number, offset in enumerate(offsets, 1):
        before = found.pop() if found and found[-1].end == offset else None
        start, first = (before.start, before.first) if before is not None else (offset, number * STEP)
        found.append(Segment(start, offset + width, first, number * STEP))
    return found


def corrected(offsets: Sequence[int], lost: Sequence[int] = (), *, from_zero: bool = True, width: int = 1) -> list[int | None]:
    """The QUEUEOFFSETs by the records on both sides, None where they leave several. `lost`: numbers of records with damage before them."""
    damages = [((number + 1) * STEP - 600, (number + 1) * STEP - 100) for number in lost]
    found: dict[int, int | None] = {}
    for run in misnumbered(segments_of(offsets, width), room_of(damages), from_zero=from_zero):
        if not run.closed:
            continue
        starts: Sequence[int | None] = run.starts if run.starts is not None else [None] * len(run.segments)
        for segment, start in zip(run.segments, starts, strict=True):
            for place in range(segment.first // STEP - 1, segment.last // STEP):
                found[place] = None if start is None else offsets[place] - segment.start + start
    return [found.get(place, offset) for place, offset in enumerate(offsets)]


DAMAGED = {
    "two alike": [0, 1, 5002, 5003, 4, 5],
    "far ahead": [0, 1, 2 + (1 << 40), 3 + (1 << 40), 4 + (1 << 40), 5],
    "back": [0, 1, 2, 3, 4, 5, 6, 0, 1, 9, 10],
    "below zero": [0, 1, -48, -47, -46, -45, 6],
    "each by itself": [0, 1, 900, 7, -5, 5, 6],
    "ahead by one": [0, 1, 2, 4, 5, 5, 6],
    "the first ones": [5000, 5001, 2, 3],
    "two runs": [0, 901, 902, 3, 4, 5, -44, -43, 8, 9],
    "two runs that jump alike": [0, 1, 2, 903, 904, 5, 6, 907, 908, 9],
    "as many as are right": [0, 901, 902, 3, 4, 905, 6],
}


@pytest.mark.parametrize("name", DAMAGED)
def test_records_on_both_sides_leave_one_value(name: str) -> None:
    assert corrected(DAMAGED[name]) == list(range(len(DAMAGED[name])))


LEFT_BY_BROKERS = {
    "nothing odd": [0, 1, 2, 3],
    "a queue offset given twice": [0, 1, 1, 2, 3],
    "a queue that starts again": [0, 1, 2, 3, 0, 1, 2, 3, 4, 5],
    "a queue that starts again twice": [0, 1, 2, 3, 0, 1, 0, 1, 2, 3],
    "queue offsets that are used again": [0, 1, 2, 3, 4, 2, 3, 4, 5, 6],
    "used again twice": [0, 1, 2, 3, 4, 3, 4, 5, 4, 5, 6, 7],
    "messages that are missing": [0, 1, 2, 7, 8, 12, 13],
    "a queue from another log": [0, 1, 500, 501, 502],
}


@pytest.mark.parametrize("name", LEFT_BY_BROKERS)
def test_what_brokers_leave_is_right(name: str) -> None:
    assert corrected(LEFT_BY_BROKERS[name]) == LEFT_BY_BROKERS[name]


def test_messages_were_lost_where_the_damage_is() -> None:
    assert corrected([0, 1, 905, 906, 7], [2]) == [0, 1, 5, 6, 7]
    assert corrected([0, 1, 902, 903, 7], [4]) == [0, 1, 2, 3, 7]
    assert corrected([0, 1, 902, 906, 7], [3]) == [0, 1, 2, 6, 7]


def test_messages_that_were_lost_in_several_places_leave_several_values() -> None:
    assert corrected([0, 1, 905, 906, 7], [2, 4]) == [0, 1, None, None, 7]


def test_nothing_is_lost_without_damage() -> None:
    assert corrected([0, 1, 905, 906, 7]) == [0, 1, 905, 906, 7]


def test_losses_explain_queue_offsets_that_rise() -> None:
    assert corrected([0, 1, 5, 6, 9], [2, 4]) == [0, 1, 5, 6, 9]


def test_more_than_the_damage_has_room_for_was_not_lost() -> None:
    assert corrected([0, 1, 905, 906, 70], [2]) == [0, 1, 905, 906, 70]


def test_records_take_the_queue_offsets_of_their_messages() -> None:
    assert corrected([0, 4, 908, 912, 16], width=4) == [0, 4, 8, 12, 16]


def test_the_last_records_follow_the_one_before_if_queue_entries_agree() -> None:
    (run,) = misnumbered(segments_of([0, 1, 2, 703, 9004]), room_of([]), from_zero=True)
    assert (run.low, run.high, run.after, run.starts) == (3, None, 3 * STEP, (3, 4))
    nearer = run.nearer()
    assert nearer is not None
    assert (nearer.low, nearer.after, nearer.segments, nearer.starts) == (704, 4 * STEP, run.segments[1:], (704,))
    assert nearer.nearer() is None


def test_negative_queue_offsets_of_the_last_records_leave_one_value_without_damage() -> None:
    (run,) = misnumbered(segments_of([0, 1, 2, -5, -9]), room_of([]), from_zero=True)
    assert (run.certain, run.starts) == (True, (3, 4))
    (run,) = misnumbered(segments_of([0, 1, 2, -5, -9]), room_of([(3 * STEP + 300, 3 * STEP + 900)]), from_zero=True)
    assert not run.certain
    (run,) = misnumbered(segments_of([0, 1, 2, 900]), room_of([]), from_zero=True)
    assert not run.certain


def test_the_first_records_precede_the_one_after_if_queue_entries_agree() -> None:
    (run,) = misnumbered(segments_of([9000, 701, *range(40, 80)]), room_of([]), from_zero=False)
    assert (run.low, run.high, run.before, run.starts) == (None, 40, 3 * STEP, (38, 39))
    nearer = run.nearer()
    assert nearer is not None
    assert (nearer.high, nearer.before, nearer.segments, nearer.starts) == (701, 2 * STEP, run.segments[:1], (700,))


def test_a_run_and_the_last_record_that_jump_alike() -> None:
    run, last = misnumbered(segments_of([0, 901, 902, 3, 4, 905]), room_of([]), from_zero=True)
    assert (run.segments, run.starts) == ((Segment(901, 903, 2 * STEP, 3 * STEP),), (1,))
    assert (last.low, last.high, last.starts) == (5, None, (5,))


def test_only_a_few_records_at_an_end_are_in_doubt() -> None:
    assert misnumbered(segments_of([*range(30), *range(500, 530)]), room_of([]), from_zero=True) == []


def test_a_queue_with_negative_queue_offsets_only_has_no_right_record() -> None:
    (run,) = misnumbered(segments_of([-40, -39, -38]), room_of([]), from_zero=False)
    assert (run.low, run.high, run.starts) == (None, None, None)


@given(
    st.lists(st.integers(1, 4), min_size=12, max_size=40),
    st.integers(1, 8),
    st.sampled_from([1, 2, 7, 50, 5000, 1 << 40, -1, -7, -50, -(1 << 40)]),
    st.data(),
)
def test_any_run_that_jumps_alike_is_corrected(widths: list[int], count: int, jump: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(1, len(widths) - count - 1))
    true = list(accumulate(widths, initial=0))[:-1]
    rows = [
        (start + jump * (first <= number < first + count), width) for number, (start, width) in enumerate(zip(true, widths, strict=True))
    ]
    segments: list[Segment] = []
    for number, (start, width) in enumerate(rows, 1):
        if segments and segments[-1].end == start:
            before = segments.pop()
            segments.append(Segment(before.start, start + width, before.first, number * STEP))
        else:
            segments.append(Segment(start, start + width, number * STEP, number * STEP))
    (run,) = (run for run in misnumbered(segments, room_of([]), from_zero=True) if run.closed)
    assert (run.segments[0].first, run.segments[-1].last) == ((first + 1) * STEP, (first + count) * STEP)
    assert run.starts == (true[first],)
