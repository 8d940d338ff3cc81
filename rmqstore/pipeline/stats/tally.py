"""Messages and bytes by integer keys in bounded memory: a table that grows to a limit, and then keeps the heaviest keys."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rmqstore.pipeline.stats.kernels_tally import TALLY_DTYPE, add

MOST_KEYS = 1 << 21
_FIRST_ROWS = 256


class Tally:
    """A table of keys. `rest` are (keys, messages, bytes) of keys that were removed; one that occurs again is counted again."""

    def __init__(self, most: int = MOST_KEYS) -> None:
        self._most = most
        self._table = np.zeros(_FIRST_ROWS, TALLY_DTYPE)
        self._used = 0
        self.rest = (0, 0, 0)

    def add(self, rows: npt.NDArray[np.void], fresh: npt.NDArray[np.int64]) -> int:
        """Add rows of TALLY_DTYPE and return the number of new keys. `fresh`, as long as `rows`, gets the numbers of their rows."""
        done = known = 0
        count: int
        new: int
        while True:
            count, self._used, new = add(
                rows[done:].ctypes.data,
                len(rows) - done,
                self._table.ctypes.data,
                self._table.size - 1,
                self._used,
                min(self._most, self._table.size // 2),
                fresh[known:].ctypes.data,
            )
            fresh[known : known + new] += done
            known, done = known + new, done + count
            if done == len(rows):
                return known
            self._make_room()

    def rows(self) -> npt.NDArray[np.void]:
        """Return the rows in use, heaviest first, equal ones by key."""
        rows = self._table[self._table["messages"] > 0]
        return rows[np.lexsort((rows["key"], -rows["bytes"]))]

    def _make_room(self) -> None:
        rows = self.rows()
        if len(rows) >= self._most:
            rows, gone = rows[: self._most // 2], rows[self._most // 2 :]
            keys, messages, size = self.rest
            self.rest = keys + len(gone), messages + int(gone["messages"].sum()), size + int(gone["bytes"].sum())
            self._clear(self._table.size)
        else:
            self._clear(self._table.size * 2)
        self.add(rows, np.empty(len(rows), np.int64))

    def _clear(self, size: int) -> None:
        self._table = np.zeros(size, TALLY_DTYPE)
        self._used = 0
