"""What becomes of queue offsets that do not follow on, in both modes: gaps, restarts, repeats, pre-blanks, damaged numbers.

Files have five units. A unit is shown as the number of the record it points to, `-` is a pre-blank, `.` an empty unit.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqstore.prediction.changes import Changes
from rmqstore.prediction.queues.consumequeue import ConsumeQueue
from rmqstore.rebuild import Gap, LeftOut, Mode, Restart, unitfiles
from tests.rebuild.columns import RECORD_LENGTH, UNITS_PER_FILE, build, of_offsets, record_numbers, spread, units

USEFUL = {
    "nothing odd": ([0, 1, 2], "0 1 2 . ."),
    "a full file": ([0, 1, 2, 3, 4], "0 1 2 3 4"),
    "one more": ([0, 1, 2, 3, 4, 5], "0 1 2 3 4 5 . . . ."),
    "a start inside of a file": ([7, 8], "- - 0 1 ."),
    "a start at the border of a file": ([5, 6], "0 1 . . ."),
    "a gap holds the unit before it": ([0, 1, 3, 4], "0 1 1 2 3"),
    "a gap over a border": ([3, 6, 7], "- - - 0 0 0 1 2 . ."),
    "a restart": ([5, 6, 7, 0, 1], "3 4 . . ."),
    "a restart in a long queue": ([0, 1, 2, 3, 4, 5, 6, 0, 1], "7 8 . . ."),
    "the last of two restarts": ([0, 1, 2, 0, 1, 2, 0, 1], "6 7 . . ."),
    "a restart at 0 as the last record": ([0, 1, 2, 0], "3 . . . ."),
    "a tail that is written again": ([0, 1, 2, 3, 2, 3, 4], "0 1 4 5 6"),
    "a tail over a border": ([0, 1, 2, 3, 4, 5, 6, 4, 5], "0 1 2 3 7 8 . . . ."),
    "a tail from a border on": ([0, 1, 2, 3, 4, 5, 6, 5, 6], "0 1 2 3 4 7 8 . . ."),
    "an offset given twice": ([0, 1, 1, 2], "0 1 3 . ."),
    "an offset that is too large": ([0, 1, 900, 2], "0 1 3 . ."),
    "an offset that takes the place of another": ([0, 1, 900, 3], "0 1 1 3 ."),
    "an offset that is too small": ([0, 1, 2, 3, 1, 5], "0 1 2 3 3 5 . . . ."),
    "an offset below zero": ([0, -1, 1], "0 2 . . ."),
    "a first offset that is too large": ([10**9, 0, 1], "1 2 . . ."),
    "a jump that goes on": ([0, 1, *range(10**6, 10**6 + 65)], " ".join(map(str, range(2, 67)))),
    "a jump that outweighs the rest": ([0, 1, 10**6, 10**6 + 1, 10**6 + 2], "2 3 4 . ."),
    "a jump of fewer than before": ([0, 1, 2, 10**6, 10**6 + 1], "0 1 2 . ."),
    "a jump of fewer than before, after a gap": ([0, 1, 3, 4, 10**6, 10**6 + 1], "0 1 1 2 3"),
    "several that are too large alike": ([0, 1, 902, 903, 904, 5], "0 1 1 1 1 5 . . . ."),
    "several that are far too large": ([0, 1, 10**12, 10**12 + 1, 4, 5], "0 1 1 1 4 5 . . . ."),
    "several that are too small alike": ([0, 1, 2, 3, 1, 2, 6], "0 1 2 3 3 3 6 . . ."),
    "several that begin with 0": ([0, 1, 2, 3, 0, 1, 6], "0 1 2 3 3 3 6 . . ."),
    "several that are wrong each by itself": ([0, 1, 902, 7, 10**9, 5, 6], "0 1 1 1 1 5 6 . . ."),
    "a restart after a few": ([0, 1, 2, 902, 0, 1, 2, 3], "4 5 6 7 ."),
    "a jump that does not": ([0, 1, 10**6], "0 1 . . ."),
}


@pytest.mark.parametrize("name", USEFUL)
def test_useful(name: str) -> None:
    offsets, expected = USEFUL[name]
    assert " ".join(record_numbers(offsets, Mode.USEFUL, apart=1000)) == expected


def test_a_queue_of_a_log_from_its_beginning_has_lost_its_first_messages() -> None:
    rows = [{"queue_offset": 2, "physical_offset": 300, "position": 300}]
    result, sink = build(rows, log_start=0)
    assert units(result.queues[0], sink)[:4] == [(300, RECORD_LENGTH, 0)] * 3 + [(0, 0, 0)]
    assert result.queues[0].gaps == (Gap(0, 2, 300),)
    assert result.queues[0].first_offset == 2


def test_more_than_can_be_lost_was_never_there() -> None:
    result, sink = build([{"queue_offset": 4, "physical_offset": 300, "position": 300}], log_start=0)
    assert [size for _, size, _ in units(result.queues[0], sink)] == [0x7FFF_FFFF] * 4 + [RECORD_LENGTH]
    assert result.queues[0].gaps == ()


def test_what_is_reported() -> None:
    offsets = [3, 4, 3, 4, 5, 5, 6, -7]
    (queue,) = build(of_offsets(offsets))[0].queues
    assert (queue.first_offset, queue.end_offset, queue.max_physic_offset) == (3, 7, 700)
    assert queue.restarts == (Restart(3, 5, 200),)
    assert queue.repeated == (LeftOut(5, 500),)
    assert queue.misnumbered == (LeftOut(-7, 700),)


def test_a_restart_forgets_the_gaps_behind_it() -> None:
    (queue,) = build(spread(of_offsets([0, 3, 4, 7, 8, 4, 5]), 1000))[0].queues
    assert queue.gaps == (Gap(1, 3, 1000),)
    assert queue.restarts == (Restart(4, 9, 5000),)


FAITHFUL = {
    "a gap shifts what follows": ([0, 1, 5, 6], "0 1 2 3 ."),
    "a second gap adds to the first": ([0, 2, 3, 6], "0 1 2 3 ."),
    "a smaller jump ahead of the place": ([0, 4, 3], "0 1 2 . ."),
    "0 is always appended": ([0, 1, 2, 0, 1, 2, 3, 4, 5], "0 1 2 3 7 8 . . . ."),
    "a taken place is dropped": ([0, 1, 2, 1, 3], "0 1 2 4 ."),
    "a dropped message at a full file makes the next one": ([0, 1, 2, 3, 4, 1], "0 1 2 3 4 . . . . ."),
    "a start inside of a file": ([7, 8], "- - 0 1 ."),
}


@pytest.mark.parametrize("name", FAITHFUL)
def test_faithful(name: str) -> None:
    offsets, expected = FAITHFUL[name]
    assert " ".join(record_numbers(offsets, Mode.FAITHFUL)) == expected


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, int]]:
    """Records of one queue: mostly in order, with repeats, gaps, restarts, damaged numbers and known places of the log between."""
    rows = []
    position, offset = draw(st.integers(0, 5)) * RECORD_LENGTH, draw(st.integers(0, 12))
    for _ in range(draw(st.integers(1, 30))):
        match draw(st.sampled_from(["next"] * 8 + ["again", "gap", "zero", "back", "far"])):
            case "again":
                position = max(0, position - 2 * RECORD_LENGTH)
            case "gap":
                offset += draw(st.integers(1, 12))
                position += draw(st.integers(0, 20)) * RECORD_LENGTH
            case "zero":
                offset = 0
            case "back":
                offset = max(0, offset - draw(st.integers(1, 12)))
            case "far":
                offset += 10**6
        rows.append({"queue_offset": offset, "physical_offset": position, "position": position})
        position, offset = position + RECORD_LENGTH, offset + 1
    return rows


@given(histories())
def test_faithful_is_the_queue_of_the_simulated_start(rows: list[dict[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        broker = ConsumeQueue("TopicA", 0, Path(directory), UNITS_PER_FILE * 20, None, Changes(), know_ends=True)
        for number, row in enumerate(rows):
            broker.put(row["physical_offset"], RECORD_LENGTH, number, row["queue_offset"])
    result, sink = build(rows, Mode.FAITHFUL)
    (queue,) = result.queues
    expected = {file.path.name: file.read(0, file.length) for file in broker.files.files}
    assert {path.rpartition("/")[2]: sink.files[path].tobytes() for path in queue.files} == expected
    assert queue.max_physic_offset == broker.max_physic_offset
    assert queue.end_offset == broker.max_offset


@given(histories(), st.sampled_from([0, 1]))
def test_useful_queues_are_sound(rows: list[dict[str, int]], log_start: int) -> None:
    """No holes, ascending units, every record that was not left out at its own offset, nothing behind the end."""
    spread(rows, 10 * RECORD_LENGTH)
    result, sink = build(rows, log_start=log_start)
    (queue,) = result.queues
    found = units(queue, sink)
    first = int(queue.files[0].rpartition("/")[2]) // 20
    left_out = {each.physical_offset for each in (*queue.repeated, *queue.misnumbered)}
    restarted = max((restart.physical_offset for restart in queue.restarts), default=-1)
    kept = [row for row in rows if row["physical_offset"] >= restarted and row["physical_offset"] not in left_out]
    for row in kept:
        assert found[row["queue_offset"] - first][0] == row["physical_offset"]
    live = found[: queue.end_offset - first]
    places = [position for position, size, _ in live if size == RECORD_LENGTH]
    assert places == sorted(places)
    assert all(size for _, size, _ in live)
    assert found[len(live) :] == [(0, 0, 0)] * (len(found) - len(live))
    lost = sum(gap.end - gap.start for gap in queue.gaps if gap.start >= queue.first_offset)
    assert len(set(places)) == queue.end_offset - queue.first_offset - lost


@given(histories())
def test_files_are_the_same_however_little_waits_in_memory(rows: list[dict[str, int]]) -> None:
    rows = [{**row, "queue": queue} for row in rows for queue in range(3)]
    for mode in Mode:
        expected, expected_sink = build(rows, mode)
        for waiting in (1, 2):
            with patch.multiple(unitfiles, _LEAST_BUFFER=20 * waiting, _MOST_BUFFER=20 * waiting):
                found, sink = build(rows, mode)
            assert found == expected
            for queue in found.queues:
                assert units(queue, sink) == units(queue, expected_sink)
