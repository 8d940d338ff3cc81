"""CRC-32 for compiled kernels: the routine of the isal package, called by its machine address.

isal picks a routine for the processor it runs on, but not its fastest one (256-bit carry-less multiplication, twice the speed) on every
processor that has the instructions, so that one is tried first. If the package does not export the symbol, the zlib that Python is
linked with serves instead; both compute the same polynomial and take (seed, address, length).
"""

from __future__ import annotations

import ctypes
import zlib
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from numba import njit, types

from rmqstore.scan.kernels.raw import INTERNAL

_SYMBOL = "rmqstore_crc32"


def _bind() -> Any:
    """Name the C routine for the linker of compiled (and cached) code, and keep its library loaded."""
    features = llvm.get_host_cpu_features()
    wide = [("isal.isal_zlib", "crc32_gzip_refl_avx2")] if features.get("avx2") and features.get("vpclmulqdq") else []
    for module, symbol in (*wide, ("isal.isal_zlib", "crc32_gzip_refl"), ("zlib", "crc32_z"), ("zlib", "crc32")):
        try:
            path = __import__(module, fromlist=["__file__"]).__file__ if module != "zlib" else getattr(zlib, "__file__", None)
            library = ctypes.CDLL(path)
            address = ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value
        except (ImportError, OSError, AttributeError):
            continue
        llvm.add_symbol(_SYMBOL, address)
        return library
    raise ImportError("no CRC-32 routine found: the isal package or a shared zlib is needed")


_LIBRARY = _bind()
_crc32 = types.ExternalFunction(_SYMBOL, types.uint32(types.uint64, types.uintp, types.uint64))


@njit(**INTERNAL)
def crc32(base: int, start: int, length: int) -> int:
    """Return the CRC-32 (zlib polynomial, uint32) of `length` bytes at base + start."""
    return _crc32(np.uint64(0), base + types.uintp(start), np.uint64(length))
