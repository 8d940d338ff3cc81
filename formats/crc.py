"""The checksums of the store, by name: all are CRC-32 with the polynomial of zlib and the top bit cleared.

Source: `UtilAll.crc32` (all releases); fact sheet commitlog §2.1 field 3, §2.7, §8.3.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

_JAVA_INT_MASK = 0x7FFF_FFFF


@dataclass(frozen=True, slots=True)
class NamedCrc:
    """A checksum: what it covers, which polynomial of crcmod's table computes it, and the mask that is applied to the result."""

    name: str
    covers: str
    crcmod_name: str = "crc-32"
    mask: int = _JAVA_INT_MASK

    def __call__(self, data: bytes | bytearray | memoryview) -> int:
        """Return the checksum of `data`, 0 … 2³¹−1; 0 for no bytes."""
        return _crc_function(self.crcmod_name)(data) & self.mask


@functools.cache
def _crc_function(crcmod_name: str) -> Callable[[bytes | bytearray | memoryview], int]:
    # crcmod builds a table per polynomial, hence at first use and not at import.
    import crcmod.predefined

    function: Callable[[bytes | bytearray | memoryview], int] = crcmod.predefined.mkPredefinedCrcFun(crcmod_name)
    return function


body_crc = NamedCrc("body_crc", "the body of a record as it is stored, compressed or not")
property_crc = NamedCrc("property_crc", "a whole record without its last 20 bytes")
epoch_crc = NamedCrc("epoch_crc", "the entry lines of the epoch file with their line ends")

NAMED_CRCS: dict[str, NamedCrc] = {crc.name: crc for crc in (body_crc, property_crc, epoch_crc)}
