"""The native SIGBUS handler: replaces the page that was touched by a page of zeros and counts it."""

from __future__ import annotations

from typing import Any

import llvmlite.binding as binding
import llvmlite.ir as ir
import numpy as np
from numba import cfunc, types
from numba.extending import intrinsic

from rmqstore.scan.kernels.raw import le64, store64

_mmap = types.ExternalFunction("mmap", types.uintp(types.uintp, types.uintp, types.int32, types.int32, types.int32, types.int64))
# Also for writes: a file that is made on a full disk loses its pages when they are first written to.
_PROT_READ_WRITE = np.int32(1 | 2)
_PRIVATE_FIXED_ANONYMOUS = np.int32(0x02 | 0x10 | 0x20)
_ADDRESS_OFFSET = 16  # si_addr in siginfo_t of 64-bit Linux
_COUNTER = "rmqstore_replaced_pages"


@intrinsic
def _counter(typingctx: Any) -> Any:
    """Return the address of the counter. Compiled code knows it by a name only, so it can be kept for the next process."""
    signature = types.uintp()

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        counter = ir.GlobalVariable(builder.module, ir.IntType(64), _COUNTER)
        return builder.ptrtoint(counter, context.get_value_type(types.uintp))

    return signature, codegen


def make_handler(counter: int, page_size: int) -> Any:
    """Return a C function `void (int, siginfo_t *, void *)`; `counter` is the address of an int64 that counts replaced pages.

    One process has one handler: a second one would count at the first one's address.
    """
    binding.add_symbol(_COUNTER, counter)
    page_mask = np.uint64(~(page_size - 1) & 0xFFFFFFFFFFFFFFFF)
    page = np.uint64(page_size)

    @cfunc(types.void(types.int32, types.uintp, types.uintp), cache=True)
    def handler(number, info, context):  # type: ignore[no-untyped-def]
        address = le64(info, _ADDRESS_OFFSET) & page_mask
        _mmap(types.uintp(address), types.uintp(page), _PROT_READ_WRITE, _PRIVATE_FIXED_ANONYMOUS, np.int32(-1), 0)
        counter = _counter()
        store64(counter, 0, le64(counter, 0) + np.uint64(1))

    return handler
