"""Rows of structured arrays in compiled code: one call reads or writes all the fields that a kernel needs.

The time of the compiler depends on statements, not on instructions. A row at an address costs it one statement, where an array of rows
costs one per field. Types, offsets and byte order come from the numpy type, and so from the declaration that the type may be made from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import llvmlite.ir as ir
import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def fields_reader(dtype: np.dtype[np.void], *names: str) -> Any:
    """Return a function for kernels: address of a row → the named integer fields (without names: all) as int64; a tuple of several."""
    places = _places(dtype, names)
    kind = types.int64 if len(places) == 1 else types.UniTuple(types.int64, len(places))

    @intrinsic
    def read(typingctx: Any, row: Any) -> Any:
        signature = kind(types.uintp)

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            values = [_load(builder, arguments[0], field, offset) for field, offset in places]
            return values[0] if len(values) == 1 else context.make_tuple(builder, kind, values)

        return signature, codegen

    return read


def fields_writer(dtype: np.dtype[np.void], *names: str) -> Any:
    """Return a function for kernels: (address of a row, int64 values of the named fields); without names, all fields in order."""
    places = _places(dtype, names)

    @intrinsic
    def write(typingctx: Any, row: Any, *values: Any) -> Any:
        signature = types.void(types.uintp, types.StarArgTuple([types.int64] * len(places)))

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            for value, (field, offset) in zip(cgutils.unpack_tuple(builder, arguments[1]), places, strict=True):
                bits = ir.IntType(field.itemsize * 8)
                pointer = builder.inttoptr(builder.add(arguments[0], arguments[0].type(offset)), bits.as_pointer())
                value = value if bits.width == 64 else builder.trunc(value, bits)
                builder.store(value if field.isnative else builder.bswap(value), pointer).align = 1
            return context.get_dummy_value()

        return signature, codegen

    return write


def row_copier(dtype: np.dtype[np.void]) -> Any:
    """Return a function for kernels: (address to write to, address of the row)."""
    whole = ir.IntType(dtype.itemsize * 8)

    @intrinsic
    def copy(typingctx: Any, target: Any, row: Any) -> Any:
        signature = types.void(types.uintp, types.uintp)

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            target, row = (builder.inttoptr(address, whole.as_pointer()) for address in arguments)
            value = builder.load(row)
            value.align = 1
            builder.store(value, target).align = 1
            return context.get_dummy_value()

        return signature, codegen

    return copy


def field_offset(dtype: np.dtype[np.void], name: str) -> int:
    """Return where a field of a row begins, in bytes."""
    return _places(dtype, (name,))[0][1]


def _places(dtype: np.dtype[np.void], names: tuple[str, ...]) -> list[tuple[np.dtype[Any], int]]:
    fields: Mapping[str, Any] = dtype.fields or {}
    return [fields[name][:2] for name in names or dtype.names or ()]


def _load(builder: Any, row: Any, field: np.dtype[Any], offset: int) -> Any:
    bits = ir.IntType(field.itemsize * 8)
    value = builder.load(builder.inttoptr(builder.add(row, row.type(offset)), bits.as_pointer()))
    value.align = 1
    if not field.isnative:
        value = builder.bswap(value)
    if bits.width == 64:
        return value
    return (builder.sext if field.kind == "i" else builder.zext)(value, ir.IntType(64))
