"""Raw loads for compiled kernels: big-endian integers, byte search and Java hashes at machine addresses.

Kernels work on addresses, not on arrays: bounds are checked once per record by the caller, and a load compiles to one instruction.
Every function here trusts its caller: the bytes from `address` to the end of the load must be readable.
"""

from __future__ import annotations

from typing import Any

import llvmlite.ir as ir
import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from rmqstore.scan.cache import use_kernel_cache

use_kernel_cache()

# Options of functions that only other kernels call: no wrapper for Python, always inlined by LLVM.
INTERNAL: dict[str, bool] = {"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

LOW_BITS = np.uint64(0x0101010101010101)
HIGH_BITS = np.uint64(0x8080808080808080)
BYTE = np.uint64(0xFF)


def _load(bits: int, *, signed: bool, swap: bool) -> Any:
    """An intrinsic that loads `bits` bits at base + offset as int64, byte-swapped for big-endian values.

    Every load widens to int64: mixed widths would make the compiler's type inference, which is most of its time, resolve a cast at
    every use.
    """

    @intrinsic
    def load(typingctx: Any, base: Any, offset: Any) -> Any:
        signature = types.int64(types.uintp, types.int64)

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(builder.add(arguments[0], arguments[1]), ir.IntType(bits).as_pointer())
            value = builder.load(pointer)
            value.align = 1
            if swap:
                value = builder.bswap(value)
            if bits == 64:
                return value
            return builder.sext(value, ir.IntType(64)) if signed else builder.zext(value, ir.IntType(64))

        return signature, codegen

    return load


@intrinsic
def le64(typingctx: Any, base: Any, offset: Any) -> Any:
    """The eight bytes at base + offset as one uint64, the first byte lowest."""
    signature = types.uint64(types.uintp, types.int64)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(builder.add(arguments[0], arguments[1]), ir.IntType(64).as_pointer())
        value = builder.load(pointer)
        value.align = 1
        return value

    return signature, codegen


u8 = _load(8, signed=False, swap=False)
be16 = _load(16, signed=True, swap=True)
be32 = _load(32, signed=True, swap=True)
be32u = _load(32, signed=False, swap=True)
be64 = _load(64, signed=True, swap=True)
native32 = _load(32, signed=True, swap=False)
native64 = _load(64, signed=True, swap=False)


def _store(bits: int, kind: Any) -> Any:
    """An intrinsic that writes `bits` bits (native order) at base + offset."""

    @intrinsic
    def store(typingctx: Any, base: Any, offset: Any, value: Any) -> Any:
        signature = types.void(types.uintp, types.int64, kind)

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(builder.add(arguments[0], arguments[1]), ir.IntType(bits).as_pointer())
            builder.store(arguments[2], pointer).align = 1
            return context.get_dummy_value()

        return signature, codegen

    return store


store8 = _store(8, types.uint8)
store32 = _store(32, types.int32)
store64 = _store(64, types.uint64)


@intrinsic
def trailing_zeros(typingctx: Any, value: Any) -> Any:
    """Number of trailing zero bits of an uint64 that is not zero."""
    signature = types.int64(types.uint64)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return signature, codegen


@intrinsic
def prefetch(typingctx: Any, base: Any, offset: Any) -> Any:
    """Asks for the cache line at base + offset; any address is allowed."""
    signature = types.void(types.uintp, types.int64)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte_pointer = ir.IntType(8).as_pointer()
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte_pointer, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        pointer = builder.inttoptr(builder.add(arguments[0], arguments[1]), byte_pointer)
        builder.call(function, [pointer, ir.Constant(number, 0), ir.Constant(number, 3), ir.Constant(number, 1)])
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def equal_mask32(typingctx: Any, base: Any, offset: Any, byte: Any) -> Any:
    """int64 whose bit i is set when byte i of the 32 bytes at base + offset equals `byte`."""
    signature = types.int64(types.uintp, types.int64, types.uint8)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(ir.IntType(8), 32)
        pointer = builder.inttoptr(builder.add(arguments[0], arguments[1]), vector.as_pointer())
        data = builder.load(pointer)
        data.align = 1
        first = builder.insert_element(ir.Constant(vector, ir.Undefined), arguments[2], ir.Constant(ir.IntType(32), 0))
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), 32), [0] * 32)
        pattern = builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), lanes)
        return builder.zext(builder.bitcast(builder.icmp_unsigned("==", data, pattern), ir.IntType(32)), ir.IntType(64))

    return signature, codegen


@njit(**INTERNAL)
def find_byte(base: int, start: int, end: int, pattern: int) -> int:
    """First offset in [start, end) whose byte equals the byte replicated eight times in `pattern` (uint64), else `end`."""
    position = start
    low = np.int64(pattern & BYTE)
    while position + 8 <= end:
        word = le64(base, position) ^ pattern
        hit = (word - LOW_BITS) & ~word & HIGH_BITS
        if hit:
            return position + (trailing_zeros(hit) >> 3)
        position += 8
    while position < end:
        if u8(base, position) == low:
            return position
        position += 1
    return end


@njit(cache=True, nogil=True)
def first_nonzero(base: int, start: int, end: int) -> int:
    """First offset in [start, end) whose byte is not zero, else `end`."""
    position = start
    while position + 64 <= end:
        word = native64(base, position) | native64(base, position + 8) | native64(base, position + 16) | native64(base, position + 24)
        word |= (
            native64(base, position + 32) | native64(base, position + 40) | native64(base, position + 48) | native64(base, position + 56)
        )
        if word != 0:
            break
        position += 64
    while position < end and u8(base, position) == 0:
        position += 1
    return position


@njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _hash_wide(state: int, base: int, start: int, end: int) -> tuple[int, bool]:
    """Continues a Java string hash over UTF-8 that is not plain ASCII: one step per UTF-16 unit; (hash, well-formed)."""
    h = state
    position = start
    while position < end:
        lead = u8(base, position)
        if lead < 0x80:
            h = h * 31 + lead
            position += 1
            continue
        if 0xC2 <= lead < 0xE0:
            more = 1
            point = lead & 0x1F
        elif 0xE0 <= lead < 0xF0:
            more = 2
            point = lead & 0x0F
        elif 0xF0 <= lead < 0xF5:
            more = 3
            point = lead & 0x07
        else:
            return 0, False
        if position + more >= end:
            return 0, False
        for step in range(1, more + 1):
            follow = u8(base, position + step)
            if follow & 0xC0 != 0x80:
                return 0, False
            point = (point << 6) | (follow & 0x3F)
        if more == 2 and (point < 0x800 or 0xD800 <= point <= 0xDFFF):
            return 0, False
        if more == 3:
            if point < 0x10000 or point > 0x10FFFF:
                return 0, False
            point -= 0x10000
            h = h * 31 + (0xD800 | (point >> 10))
            h = h * 31 + (0xDC00 | (point & 0x3FF))
        else:
            h = h * 31 + point
        position += more + 1
    return h & 0xFFFFFFFF, True


@njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)
def java_hash_utf8(state: int, base: int, start: int, end: int) -> tuple[int, bool]:
    """Java `String.hashCode` of the UTF-8 bytes [start, end), continued from `state` (0 … 2^32-1).

    Returns (hash as 0 … 2^32-1, well-formed). For malformed UTF-8 the hash is 0 and the caller decodes by Java's own rules. Products
    wrap around at 64 bits, which leaves the low 32 bits right.
    """
    h = state
    position = start
    while position + 4 <= end:
        a = u8(base, position)
        b = u8(base, position + 1)
        c = u8(base, position + 2)
        d = u8(base, position + 3)
        if (a | b | c | d) & 0x80:
            return _hash_wide(h, base, position, end)
        h = h * 923521 + a * 29791 + b * 961 + c * 31 + d
        position += 4
    while position < end:
        a = u8(base, position)
        if a & 0x80:
            return _hash_wide(h, base, position, end)
        h = h * 31 + a
        position += 1
    return h & 0xFFFFFFFF, True
