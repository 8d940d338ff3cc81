"""The CRC-32 routine that compiled code calls: that of the isal package, by its machine address.

isal picks a routine for the processor it runs on, but not its fastest one (256-bit carry-less multiplication, twice the speed) on every
processor that has the instructions, so that one is tried first. If the package does not export the symbol, the zlib that Python is
linked with serves instead; both compute the same polynomial and take (seed, address, length).
"""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Mapping
from functools import cache
from typing import Any


def crc_address(features: Mapping[str, bool]) -> int:
    """Return the address of the routine for a processor with these features. Raises ImportError."""
    wide = [("isal.isal_zlib", "crc32_gzip_refl_avx2")] if features.get("avx2") and features.get("vpclmulqdq") else []
    for module, symbol in (*wide, ("isal.isal_zlib", "crc32_gzip_refl"), ("zlib", "crc32_z"), ("zlib", "crc32")):
        try:
            routine = getattr(_library(module), symbol)
        except (ImportError, OSError, AttributeError):
            continue
        return ctypes.cast(routine, ctypes.c_void_p).value or 0
    raise ImportError("no CRC-32 routine found: the isal package or a shared zlib is needed")


@cache
def _library(module: str) -> Any:
    """Return the shared library of a module, which stays loaded."""
    path = __import__(module, fromlist=["__file__"]).__file__ if module != "zlib" else getattr(zlib, "__file__", None)
    return ctypes.CDLL(path)
