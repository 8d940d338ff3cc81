"""The messages of one queue as columns: what its units are made from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[np.int64]


class Messages(NamedTuple):
    """Columns of equal length in log order; `size` in bytes, `store_timestamp` in ms since epoch."""

    physical_offset: Column
    size: Column
    tags_code: Column
    queue_offset: Column
    store_timestamp: Column

    @classmethod
    def of(cls, records: npt.NDArray[np.void], rows: npt.NDArray[np.intp]) -> Self:
        """The columns of `rows` of records (RECORD_DTYPE), in that order."""
        return cls(*(records[name][rows].astype(np.int64, copy=False) for name in cls._fields))

    def part(self, begin: int, end: int) -> Self:
        """Messages `begin` to below `end`, as views."""
        return type(self)(*(column[begin:end] for column in self))

    def rows(self) -> Iterator[tuple[int, ...]]:
        """The messages one by one, in the order of the columns."""
        return zip(*(column.tolist() for column in self), strict=True)
