"""Ranges [start, end) of offsets, and tests for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def in_ranges(offsets: npt.NDArray[np.int64], ranges: Sequence[tuple[int, int]] | npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return a mask of `offsets` (int64, any order): those in one of `ranges`, which are ascending and apart from each other."""
    borders = np.asarray(ranges, np.int64).reshape(-1, 2)
    if not len(borders):
        return np.zeros(len(offsets), np.bool_)
    before = np.searchsorted(borders[:, 0], offsets, side="right") - 1
    inside: npt.NDArray[np.bool_] = (before >= 0) & (offsets < borders[before, 1])
    return inside
