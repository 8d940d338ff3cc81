"""Compiled grouping: rows of one dense number together, groups in the order of their numbers, rows of a group in their original order.

Topics and queues have dense numbers, so rows are counted and put in place in two passes; a sort would compare them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from rmqstore.scan.kernels.raw import native32, native64, store64


def group_stable(keys: npt.NDArray[np.int32], groups: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the stable order of int32[n] numbers from 0 to below `groups`: (order int64[n], starts int64[groups + 1]).

    The rows of group g are `order[starts[g] : starts[g + 1]]`, ascending. `keys` may be a field of a structured array; nothing is
    copied. Time and memory grow with n + groups. Raises ValueError for a number outside of the range and for keys that are not int32[n].
    """
    if keys.dtype != np.dtype("i4") or keys.ndim != 1:
        raise ValueError(f"numbers to group are int32[n], not {keys.dtype}{list(keys.shape)}")
    order = np.empty(keys.size, np.int64)
    starts = np.zeros(groups + 1, np.int64)
    done = _group(keys.ctypes.data, keys.strides[0], keys.size, groups, order.ctypes.data, starts.ctypes.data)
    if done < keys.size:
        raise ValueError(f"row {done} has the number {keys[done]}, outside of 0 to {groups - 1}")
    return order, starts


@njit(nogil=True, cache=True, no_cfunc_wrapper=True)
def _group(keys: int, stride: int, count: int, groups: int, order: int, starts: int) -> int:
    """Fill `order` (int64[count]) and `starts` (int64[groups + 1], zeros before), all at addresses; keys are `stride` bytes apart.

    Returns `count`, or the first row whose number is out of range; then nothing was put in order.
    """
    for row in range(count):
        key = native32(keys, row * stride)
        if key < 0 or key >= groups:
            return row
        store64(starts, key * 8, native64(starts, key * 8) + 1)
    # From counts to ends; putting rows in place from the last one backwards turns ends into starts.
    total = 0
    for group in range(groups + 1):
        total += native64(starts, group * 8)
        store64(starts, group * 8, total)
    for back in range(count):
        row = count - 1 - back
        place = starts + native32(keys, row * stride) * 8
        position = native64(place, 0) - 1
        store64(place, 0, position)
        store64(order, position * 8, row)
    return count
