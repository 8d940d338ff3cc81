"""The chains of an index file, followed from item to item."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rmqstore.scan.kernels.index import LINK_DTYPE, SCRATCH_BYTES, follow_chains

SHOWN_LINKS = 64


class ChainFollower:
    """Follows the items of one index file in their order. 4 bytes of memory per slot."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._newest = np.zeros(slots + SCRATCH_BYTES // 4, np.int32)
        self._links = np.zeros(SHOWN_LINKS, LINK_DTYPE)
        self._addresses = (self._newest.ctypes.data, slots, self._links.ctypes.data, SHOWN_LINKS)
        self.wrong = 0  # items with a wrong link

    def take(self, base: int, first: int, count: int) -> None:
        """The next `count` items, which lie at address `base`; the first of them is item number `first`."""
        self.wrong = follow_chains(base, first, count, *self._addresses, self.wrong)

    @property
    def newest(self) -> npt.NDArray[np.int32]:
        """Number of the newest item of every slot, 0 for none."""
        return self._newest[: self._slots]

    @property
    def links(self) -> npt.NDArray[np.void]:
        """The first wrong links."""
        return self._links[: self.wrong]
