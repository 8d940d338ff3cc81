"""The chains of an index file, followed from entry to entry."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rmqstore.scan.kernels.index import LINK_DTYPE, SCRATCH_BYTES, follow_chains

SHOWN_LINKS = 64


class ChainFollower:
    """Follows the entries of one index file in order. 4 bytes of memory per slot."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._newest = np.zeros(slots + SCRATCH_BYTES // 4, np.int32)
        self._links = np.zeros(SHOWN_LINKS, LINK_DTYPE)
        self._addresses = (self._newest.ctypes.data, slots, self._links.ctypes.data, SHOWN_LINKS)
        self.wrong = 0  # entries with a wrong link

    def take(self, base: int, first: int, count: int) -> None:
        """Follow the next `count` entries at address `base`; the first of them is entry number `first`."""
        self.wrong = follow_chains(base, first, count, *self._addresses, self.wrong)

    @property
    def newest(self) -> npt.NDArray[np.int32]:
        """Return the number of the newest entry of every slot, 0 for none."""
        return self._newest[: self._slots]

    @property
    def links(self) -> npt.NDArray[np.void]:
        """Return the first wrong links."""
        return self._links[: self.wrong]
