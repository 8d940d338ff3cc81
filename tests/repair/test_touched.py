"""Two actions of a plan never touch the same bytes or file, in whatever order they come."""

from __future__ import annotations

from itertools import combinations, pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqstore.repair.plan.model import Action, ActionKind, Expected
from rmqstore.repair.plan.overlaps import Touched, conflict

WHOLE = [ActionKind.CREATE, ActionKind.REPLACE, ActionKind.QUARANTINE]


def in_place(position: int, length: int, path: str = "a") -> Action:
    return Action(ActionKind.ZERO, path, position, length, "why", Expected(1000))


def whole(kind: ActionKind, path: str = "a") -> Action:
    return Action(kind, path, 0, 100, "why", Expected(1000))


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 8)), max_size=8))
def test_ranges_clash_when_two_of_them_overlap(ranges: list[tuple[int, int]]) -> None:
    overlaps = any(a < d + e and d < a + b for (a, b), (d, e) in combinations(ranges, 2))
    assert (conflict(in_place(*one) for one in ranges) is not None) == overlaps


@pytest.mark.parametrize("kind", WHOLE)
def test_a_whole_file_stands_alone(kind: ActionKind) -> None:
    for order in permutations([in_place(10, 5), in_place(500, 5), whole(kind)]):
        assert conflict(order) is not None
    assert conflict([whole(kind), whole(ActionKind.QUARANTINE)]) is not None
    assert conflict([whole(kind), in_place(10, 5, "b"), whole(kind, "c")]) is None


def test_the_clash_is_told() -> None:
    touched = Touched()
    assert touched.add(in_place(10, 5)) is None
    assert touched.add(in_place(14, 1)) == "zero and zero of a"
    assert touched.add(in_place(15, 1)) is None


def test_the_cost_grows_with_the_number_of_actions() -> None:
    """Each action is compared with two others at most."""
    compared = 0

    class Counting(Action):
        @property
        def in_place(self) -> bool:
            nonlocal compared
            compared += 1
            return True

    actions = [Counting(ActionKind.ZERO, "a", position, 5, "why", Expected(100_000)) for position in range(0, 50_000, 10)]
    for one, two in pairwise(range(0, 5_000, 1_000)):
        compared = 0
        assert conflict(actions[one:two]) is None
        assert compared <= 4 * (two - one)
