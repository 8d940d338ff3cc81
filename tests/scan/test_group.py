"""Grouping against numpy's stable sort."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqstore.scan.columns import RECORD_DTYPE
from rmqstore.scan.kernels.group import group_stable

Numbers = npt.NDArray[np.int32]


def check(keys: Numbers, groups: int) -> None:
    order, starts = group_stable(keys, groups)
    assert order.tolist() == np.argsort(keys, kind="stable").tolist()
    assert np.diff(starts).tolist() == np.bincount(keys, minlength=groups).tolist()
    assert starts[0] == 0
    assert (order.dtype, starts.dtype, starts.size) == (np.int64, np.int64, groups + 1)


@given(st.data(), st.integers(1, 20), st.integers(0, 5))
@settings(max_examples=200, deadline=None)
def test_the_order_is_that_of_a_stable_sort(data: st.DataObject, used: int, unused: int) -> None:
    keys = np.array(data.draw(st.lists(st.integers(0, used - 1), max_size=200)), np.int32)
    check(keys, used + unused)


@pytest.mark.parametrize("groups", [1, 64, 100_000])
def test_many_rows(groups: int) -> None:
    check(np.random.default_rng(groups).integers(0, groups, 50_000, np.int32), groups)


def test_a_field_of_records_is_grouped_where_it_lies() -> None:
    records = np.zeros(1000, RECORD_DTYPE)
    records["queue"] = np.random.default_rng(1).integers(0, 7, 1000)
    check(records["queue"], 7)
    check(records["queue"][::-3], 7)


def test_nothing_to_group() -> None:
    check(np.zeros(0, np.int32), 0)
    check(np.zeros(0, np.int32), 3)


@pytest.mark.parametrize("bad", [-1, 3, 2**31 - 1, -(2**31)])
def test_a_number_out_of_range_is_refused(bad: int) -> None:
    with pytest.raises(ValueError, match="row 2 has the number"):
        group_stable(np.array([0, 2, bad, 1], np.int32), 3)


@pytest.mark.parametrize("keys", [np.zeros(3, np.int64), np.zeros(3, ">i4"), np.zeros((2, 2), np.int32)])
def test_other_types_are_refused(keys: npt.NDArray[np.int64]) -> None:
    with pytest.raises(ValueError, match="int32"):
        group_stable(keys, 3)
