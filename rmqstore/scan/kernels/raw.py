"""Raw loads for compiled kernels: big-endian integers, byte search and Java hashes at machine addresses.

Kernels work on addresses, not on arrays: bounds are checked once per record by the caller, and a load compiles to one instruction.
No function here checks bounds: the bytes from `address` to the end of the load must be readable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rmqstore.scan.kernels.declare import inlined, instruction, kernel, part
from rmqstore.scan.machinecode import CRC_SYMBOL

LOW_BITS = np.uint64(0x0101010101010101)
HIGH_BITS = np.uint64(0x8080808080808080)
BYTE = np.uint64(0xFF)


def _load(bits: int, *, signed: bool, swap: bool) -> Any:
    """Return an instruction that loads `bits` bits at base + offset as int64, byte-swapped for big-endian values.

    Every load widens to int64: mixed widths would make the compiler's type inference, which is most of its time, resolve a cast at
    every use.
    """

    @instruction("int64(uintp, int64)")
    def load(ir: Any, builder: Any, base: Any, offset: Any) -> Any:
        value = _load_at(builder, base, offset, ir.IntType(bits))
        if swap:
            value = builder.bswap(value)
        if bits == 64:
            return value
        return builder.sext(value, ir.IntType(64)) if signed else builder.zext(value, ir.IntType(64))

    return load


def _load_at(builder: Any, base: Any, offset: Any, kind: Any) -> Any:
    """Return the value of an LLVM type at base + offset."""
    value = builder.load(builder.inttoptr(builder.add(base, offset), kind.as_pointer()))
    value.align = 1
    return value


@instruction("uint64(uintp, int64)")
def le64(ir: Any, builder: Any, base: Any, offset: Any) -> Any:
    """Return the eight bytes at base + offset as one uint64, the first byte lowest."""
    return _load_at(builder, base, offset, ir.IntType(64))


u8 = _load(8, signed=False, swap=False)
be16 = _load(16, signed=True, swap=True)
be32 = _load(32, signed=True, swap=True)
be32u = _load(32, signed=False, swap=True)
be64 = _load(64, signed=True, swap=True)
native32 = _load(32, signed=True, swap=False)
native64 = _load(64, signed=True, swap=False)


def _store(bits: int, kind: str) -> Any:
    """Return an instruction that writes `bits` bits (native order) at base + offset."""

    @instruction(f"void(uintp, int64, {kind})")
    def store(ir: Any, builder: Any, base: Any, offset: Any, value: Any) -> None:
        builder.store(value, builder.inttoptr(builder.add(base, offset), ir.IntType(bits).as_pointer())).align = 1

    return store


store8 = _store(8, "uint8")
store32 = _store(32, "int32")
store64 = _store(64, "uint64")


@instruction("int64(uint64)")
def trailing_zeros(ir: Any, builder: Any, value: Any) -> Any:
    """Return the number of trailing zero bits of an uint64 that is not zero."""
    return builder.cttz(value, ir.Constant(ir.IntType(1), 0))


def _external(ir: Any, builder: Any, kind: Any, name: str) -> Any:
    """Return a function that the compiled code does not contain."""
    return builder.module.globals.get(name) or ir.Function(builder.module, kind, name)


@instruction("int64(uintp, int64, int64)")
def crc32(ir: Any, builder: Any, base: Any, start: Any, length: Any) -> Any:
    """Return the CRC-32 (zlib polynomial, 0 ... 2^32-1) of `length` bytes at base + start."""
    word = ir.IntType(64)
    routine = _external(ir, builder, ir.FunctionType(ir.IntType(32), [word, word, word]), CRC_SYMBOL)
    return builder.zext(builder.call(routine, [ir.Constant(word, 0), builder.add(base, start), length]), word)


def _prefetch(locality: int) -> Callable[..., None]:
    def generate(ir: Any, builder: Any, base: Any, offset: Any) -> None:
        byte_pointer = ir.IntType(8).as_pointer()
        number = ir.IntType(32)
        function = _external(ir, builder, ir.FunctionType(ir.VoidType(), [byte_pointer, number, number, number]), "llvm.prefetch.p0")
        pointer = builder.inttoptr(builder.add(base, offset), byte_pointer)
        builder.call(function, [pointer, ir.Constant(number, 0), ir.Constant(number, locality), ir.Constant(number, 1)])

    return generate


prefetch = instruction("void(uintp, int64)")(_prefetch(1))
"""Prefetch the cache line at base + offset, without claiming the innermost cache for it; any address is allowed."""

prefetch_once = instruction("void(uintp, int64)")(_prefetch(0))
"""Prefetch a line, as `prefetch`, that is needed soon and then not again: into the innermost cache only."""


def _splat(ir: Any, builder: Any, value: Any, lanes: int) -> Any:
    """Return a vector whose `lanes` bytes are all `value`."""
    vector = ir.VectorType(ir.IntType(8), lanes)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes))


def _load_bytes(ir: Any, builder: Any, base: Any, offset: Any, lanes: int) -> Any:
    """Return the `lanes` bytes at base + offset as a vector."""
    return _load_at(builder, base, offset, ir.VectorType(ir.IntType(8), lanes))


def _last_lanes(ir: Any, builder: Any, data: Any, count: Any, lanes: int) -> Any:
    """Return `data` with zeros in all but its last `count` (an i8) lanes."""
    vector = ir.VectorType(ir.IntType(8), lanes)
    from_end = ir.Constant(vector, [lanes - 1 - lane for lane in range(lanes)])
    kept = builder.icmp_unsigned("<", from_end, _splat(ir, builder, count, lanes))
    return builder.select(kept, data, ir.Constant(vector, [0] * lanes))


@instruction("int64(uintp, int64, uint8)")
def equal_mask64(ir: Any, builder: Any, base: Any, offset: Any, byte: Any) -> Any:
    """Return an int64 whose bit i is set when byte i of the 64 bytes at base + offset equals `byte`."""
    data = _load_bytes(ir, builder, base, offset, 64)
    return builder.bitcast(builder.icmp_unsigned("==", data, _splat(ir, builder, byte, 64)), ir.IntType(64))


@instruction("int64(uintp, int64, uintp, int64)")
def equal64(ir: Any, builder: Any, base: Any, offset: Any, other: Any, other_offset: Any) -> Any:
    """Return an int64 whose bit i is set when byte i of the 64 bytes at base + offset equals byte i of those at other + other_offset."""
    one, two = _load_bytes(ir, builder, base, offset, 64), _load_bytes(ir, builder, other, other_offset, 64)
    return builder.bitcast(builder.icmp_unsigned("==", one, two), ir.IntType(64))


@instruction("UniTuple(int64, 4)(uintp, int64, int64)")
def tail32(ir: Any, builder: Any, base: Any, end: Any, length: Any) -> Any:
    """Return the last 32 of `length` bytes that end at base + end, as four int64 in native order; zeros before a shorter text.

    The 32 bytes before `end` must be readable.
    """
    word = ir.IntType(64)
    most = ir.Constant(word, 32)
    count = builder.select(builder.icmp_signed("<", length, most), length, most)
    data = _load_bytes(ir, builder, base, builder.sub(end, most), 32)
    words = builder.bitcast(_last_lanes(ir, builder, data, builder.trunc(count, ir.IntType(8)), 32), ir.VectorType(word, 4))
    return [builder.extract_element(words, ir.Constant(ir.IntType(32), i)) for i in range(4)]


@instruction("UniTuple(int64, 2)(uintp, int64, int64)")
def hash32(ir: Any, builder: Any, base: Any, end: Any, count: Any) -> Any:
    """Return (Java hash of the `count` (0 ... 32) ASCII bytes that end at base + end, not 0 when one of them is no ASCII).

    The 32 bytes before `end` must be readable. Neighbours are joined to pairs, pairs to fours, all at once.
    """
    eights, half, word = ir.IntType(8), ir.IntType(32), ir.IntType(64)
    data = _load_bytes(ir, builder, base, builder.sub(end, ir.Constant(word, 32)), 32)
    data = _last_lanes(ir, builder, data, builder.trunc(count, eights), 32)
    wide = builder.bitcast(builder.icmp_signed("<", data, ir.Constant(data.type, [0] * 32)), half)
    joined = data
    for bits, power in ((8, 31), (16, 31**2)):
        lanes = 256 // (2 * bits)
        vector = ir.VectorType(ir.IntType(2 * bits), lanes)
        joined = builder.bitcast(joined, vector)
        first = builder.and_(joined, ir.Constant(vector, [(1 << bits) - 1] * lanes))
        second = builder.lshr(joined, ir.Constant(vector, [bits] * lanes))
        joined = builder.add(builder.mul(first, ir.Constant(vector, [power] * lanes)), second)
    fours = builder.mul(joined, ir.Constant(joined.type, [31 ** (28 - 4 * lane) % 2**32 for lane in range(8)]))
    total = builder.call(_external(ir, builder, ir.FunctionType(half, [fours.type]), "llvm.vector.reduce.add.v8i32"), [fours])
    return [builder.zext(total, word), builder.zext(wide, word)]


# 31 to the power of a count of characters, as far as it matters.
_POWERS_OF_31 = np.array([31**n % 2**32 for n in range(33)], np.int64)


@inlined
def find_byte(base: int, start: int, end: int, pattern: int) -> int:
    """Return the first offset in [start, end) whose byte is the one replicated eight times in `pattern` (uint64), else `end`."""
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


@inlined
def copy_bytes(base: int, start: int, end: int, out: int, at: int) -> int:
    """Copy the bytes [start, end) at `base` to out + at, and return where they end there."""
    while start + 8 <= end:
        store64(out, at, le64(base, start))
        start += 8
        at += 8
    while start < end:
        store8(out, at, u8(base, start))
        start += 1
        at += 1
    return at


@kernel
def first_nonzero(base: int, start: int, end: int) -> int:
    """Return the first offset in [start, end) whose byte is not zero, else `end`."""
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


@part
def _hash_wide(state: int, base: int, start: int, end: int) -> tuple[int, bool]:
    """Return the Java string hash of UTF-8 that is not plain ASCII: one step per UTF-16 unit; (hash, well-formed)."""
    h = state
    position = start
    while position < end:
        point = u8(base, position)
        more = 0
        if point >= 0x80:
            if point < 0xC2 or point > 0xF4:
                return 0, False
            more = 1
            if point >= 0xE0:
                more = 2
            if point >= 0xF0:
                more = 3
            if position + more >= end:
                return 0, False
            point &= 0x3F >> more
        for step in range(more):
            follow = u8(base, position + step + 1)
            if follow & 0xC0 != 0x80:
                return 0, False
            point = (point << 6) | (follow & 0x3F)
        # Neither longer than needed, nor a surrogate, nor above U+10FFFF.
        if (more == 2 and (point < 0x800 or (point >> 11) == 0x1B)) or (more == 3 and (point < 0x10000 or point > 0x10FFFF)):
            return 0, False
        if more == 3:
            h = h * 31 + (0xD7C0 + (point >> 10))
            point = 0xDC00 | (point & 0x3FF)
        h = h * 31 + point
        position += more + 1
    return h & 0xFFFFFFFF, True


@part
def java_hash_utf8(state: int, base: int, start: int, end: int) -> tuple[int, bool]:
    """Return Java `String.hashCode` of the UTF-8 bytes [start, end), continued from `state`; the 32 bytes before `start` must be readable.

    Returns (hash as 0 … 2^32-1, well-formed). For malformed UTF-8 the hash is 0 and the caller decodes by Java's own rules. Products
    wrap around at 64 bits, which leaves the low 32 bits right.
    """
    if end <= start:
        return state & 0xFFFFFFFF, True
    # The first block takes the rest of whole ones: most texts are this block alone, without a branch that depends on their length.
    first = ((end - start - 1) & 31) + 1
    position = start + first
    hashed, wide = hash32(base, position, first)
    h = state * _POWERS_OF_31[first] + hashed
    while position < end:
        position += 32
        hashed, beyond_ascii = hash32(base, position, np.int64(32))
        wide |= beyond_ascii
        h = h * _POWERS_OF_31[32] + hashed
    if wide != 0:
        return _hash_wide(state, base, start, end)
    return h & 0xFFFFFFFF, True
