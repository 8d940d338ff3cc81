"""The commit log and ranges of queue offsets as characters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqstore.render.strip import STATES, span, strip

RANGES = st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(1, 1 << 30), st.sampled_from(list(STATES))), min_size=1, max_size=8)


def test_a_strip() -> None:
    ranges = [(0, 100, "valid"), (50, 51, "damaged"), (100, 150, "discarded"), (150, 200, "empty")]
    assert strip(ranges, 20) == "|=====x====!!!!!_____| 0 to 200 (x damaged, ! discarded, = valid, _ empty)"
    assert strip([]) == strip([(5, 5, "damaged")]) == ""


def test_what_is_missing_is_blank() -> None:
    assert strip([(0, 10, "valid"), (20, 30, "valid")], 6) == "|==  ==| 0 to 30 (= valid)"


@given(RANGES)
def test_every_state_has_a_character_unless_a_worse_one_hides_it(found: list[tuple[int, int, str]]) -> None:
    shown = strip([(begin, begin + length, state) for begin, length, state in found], 40)
    cells = shown.split("|")[1]
    worst = min((state for _, _, state in found), key=list(STATES).index)
    assert len(cells) == 40
    assert STATES[worst] in cells
    assert set(cells) <= {" ", *(STATES[state] for _, _, state in found)}


@pytest.mark.parametrize(
    ("begin", "end", "longest", "bar"),
    [(0, 10, 10, "===="), (5, 10, 10, "..=="), (0, 1, 1000, "="), (999, 1000, 1000, "...="), (3, 3, 10, ""), (0, 0, 0, "")],
)
def test_a_span(begin: int, end: int, longest: int, bar: str) -> None:
    assert span(begin, end, longest, 4) == bar
