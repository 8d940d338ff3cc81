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

# Options of functions that only other kernels call: no wrapper for Python, always inlined by LLVM.
INTERNAL: dict[str, bool] = {"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

U32_31 = np.uint32(31)
LOW_BITS = np.uint64(0x0101010101010101)
HIGH_BITS = np.uint64(0x8080808080808080)
BYTE = np.uint64(0xFF)

_POWERS = [np.uint32(pow(31, exponent, 1 << 32)) for exponent in range(9)]
_P1, _P2, _P3, _P4, _P5, _P6, _P7, _P8 = _POWERS[1:]


def _load(bits: int, result: Any, swap: bool) -> Any:
    """An intrinsic that loads `bits` bits at base + offset, byte-swapped for big-endian values."""

    @intrinsic
    def load(typingctx: Any, base: Any, offset: Any) -> Any:
        signature = result(types.uintp, types.int64)

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(builder.add(arguments[0], arguments[1]), ir.IntType(bits).as_pointer())
            value = builder.load(pointer)
            value.align = 1
            return builder.bswap(value) if swap else value

        return signature, codegen

    return load


u8 = _load(8, types.uint8, swap=False)
be16 = _load(16, types.int16, swap=True)
be32 = _load(32, types.int32, swap=True)
be32u = _load(32, types.uint32, swap=True)
be64 = _load(64, types.int64, swap=True)
le64 = _load(64, types.uint64, swap=False)
native32 = _load(32, types.int32, swap=False)
native64 = _load(64, types.int64, swap=False)


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
    """Bit i is set when byte i of the 32 bytes at base + offset equals `byte` (uint8)."""
    signature = types.uint32(types.uintp, types.int64, types.uint8)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(ir.IntType(8), 32)
        pointer = builder.inttoptr(builder.add(arguments[0], arguments[1]), vector.as_pointer())
        data = builder.load(pointer)
        data.align = 1
        first = builder.insert_element(ir.Constant(vector, ir.Undefined), arguments[2], ir.Constant(ir.IntType(32), 0))
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), 32), [0] * 32)
        pattern = builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), lanes)
        return builder.bitcast(builder.icmp_unsigned("==", data, pattern), ir.IntType(32))

    return signature, codegen


@njit(**INTERNAL)
def find_byte(base: int, start: int, end: int, pattern: int) -> int:
    """First offset in [start, end) whose byte equals the byte replicated eight times in `pattern` (uint64), else `end`."""
    position = start
    while position + 8 <= end:
        word = le64(base, position) ^ pattern
        hit = (word - LOW_BITS) & ~word & HIGH_BITS
        if hit != np.uint64(0):
            return position + (trailing_zeros(hit) >> 3)
        position += 8
    while position < end:
        if np.uint64(u8(base, position)) == (pattern & BYTE):
            return position
        position += 1
    return end


@njit(**INTERNAL)
def is_zero(base: int, start: int, end: int) -> bool:
    """Whether every byte of [start, end) is zero."""
    return first_nonzero(base, start, end) == end


@njit(cache=True, nogil=True)
def first_nonzero(base: int, start: int, end: int) -> int:
    """First offset in [start, end) whose byte is not zero, else `end`."""
    position = start
    while position + 64 <= end:
        word = le64(base, position) | le64(base, position + 8) | le64(base, position + 16) | le64(base, position + 24)
        word |= le64(base, position + 32) | le64(base, position + 40) | le64(base, position + 48) | le64(base, position + 56)
        if word != np.uint64(0):
            break
        position += 64
    while position < end and u8(base, position) == np.uint8(0):
        position += 1
    return position


@njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _hash_wide(state: int, base: int, start: int, end: int) -> tuple[int, bool]:
    """Continues a Java string hash over UTF-8 that is not plain ASCII: one step per UTF-16 unit; (hash, well-formed)."""
    h = np.uint32(state)
    position = start
    while position < end:
        lead = np.uint32(u8(base, position))
        if lead < np.uint32(0x80):
            h = h * U32_31 + lead
            position += 1
            continue
        if np.uint32(0xC2) <= lead < np.uint32(0xE0):
            more = 1
            point = lead & np.uint32(0x1F)
        elif np.uint32(0xE0) <= lead < np.uint32(0xF0):
            more = 2
            point = lead & np.uint32(0x0F)
        elif np.uint32(0xF0) <= lead < np.uint32(0xF5):
            more = 3
            point = lead & np.uint32(0x07)
        else:
            return np.uint32(h), False
        if position + more >= end:
            return np.uint32(h), False
        for step in range(1, more + 1):
            follow = np.uint32(u8(base, position + step))
            if (follow & np.uint32(0xC0)) != np.uint32(0x80):
                return np.uint32(h), False
            point = (point << np.uint32(6)) | (follow & np.uint32(0x3F))
        if more == 2 and (point < np.uint32(0x800) or np.uint32(0xD800) <= point <= np.uint32(0xDFFF)):
            return np.uint32(h), False
        if more == 3:
            if point < np.uint32(0x10000) or point > np.uint32(0x10FFFF):
                return np.uint32(h), False
            point -= np.uint32(0x10000)
            h = h * U32_31 + (np.uint32(0xD800) | (point >> np.uint32(10)))
            h = h * U32_31 + (np.uint32(0xDC00) | (point & np.uint32(0x3FF)))
        else:
            h = h * U32_31 + point
        position += more + 1
    return np.uint32(h), True


@njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)
def java_hash_utf8(state: int, base: int, start: int, end: int) -> tuple[int, bool]:
    """Java `String.hashCode` of the UTF-8 bytes [start, end), continued from `state` (uint32).

    Returns (hash as uint32, well-formed). For malformed UTF-8 the hash is meaningless and the caller decodes by Java's own rules.
    """
    h = np.uint32(state)
    position = start
    while position + 8 <= end:
        word = le64(base, position)
        if word & HIGH_BITS:
            return _hash_wide(h, base, position, end)
        h = (
            h * _P8
            + np.uint32(word & BYTE) * _P7
            + np.uint32((word >> np.uint64(8)) & BYTE) * _P6
            + np.uint32((word >> np.uint64(16)) & BYTE) * _P5
            + np.uint32((word >> np.uint64(24)) & BYTE) * _P4
            + np.uint32((word >> np.uint64(32)) & BYTE) * _P3
            + np.uint32((word >> np.uint64(40)) & BYTE) * _P2
            + np.uint32((word >> np.uint64(48)) & BYTE) * _P1
            + np.uint32(word >> np.uint64(56))
        )
        position += 8
    while position < end:
        byte = np.uint32(u8(base, position))
        if byte >= np.uint32(0x80):
            return _hash_wide(h, base, position, end)
        h = h * _P1 + byte
        position += 1
    return np.uint32(h), True
