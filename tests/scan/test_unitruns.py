"""Runs of units by what they can be, against the kinds of units that were put there."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqstore.formats.consumequeue import PRE_BLANK, UNIT, ZERO_UNIT
from rmqstore.scan.unitruns import UNIT_ROWS, UnitKind, UnitRun, unit_runs


def unit(position: int, size: int = 100, tags: int = 5) -> bytes:
    return bytes(UNIT.build({"physical_offset": position, "size": size, "tags_code": tags}))


LOG_START, LOG_END = 1000, 5000
KINDS = {
    ZERO_UNIT: UnitKind.ZERO,
    PRE_BLANK: UnitKind.PRE_BLANK,
    unit(0): UnitKind.EXPIRED,
    unit(LOG_START - 1): UnitKind.EXPIRED,
    unit(LOG_START): UnitKind.POINTS,
    unit(LOG_END - 1): UnitKind.POINTS,
    unit(LOG_END): UnitKind.BEYOND,
    unit(2**63 - 1): UnitKind.BEYOND,
    unit(-1): UnitKind.INVALID,
    unit(LOG_START, 0): UnitKind.INVALID,
    unit(LOG_START, -1): UnitKind.INVALID,
    unit(0, 0, 1): UnitKind.INVALID,
    unit(0, 2**31 - 1, 1): UnitKind.EXPIRED,
}


@given(st.lists(st.tuples(st.sampled_from(list(KINDS)), st.integers(1, 5))), st.integers(0, 100))
@settings(max_examples=100, deadline=None)
def test_runs_of_units(pieces: list[tuple[bytes, int]], first: int) -> None:
    units = [piece for piece, count in pieces for _ in range(count)]
    expected: list[UnitRun] = []
    at = first
    for kind, some in itertools.groupby(units, KINDS.__getitem__):
        run = list(some)
        expected.append(UnitRun(kind, at, at + len(run), int(UNIT.parse(run[0]).physical_offset)))
        at += len(run)

    assert list(unit_runs(np.frombuffer(b"".join(units), UNIT_ROWS), first, LOG_START, LOG_END)) == expected
