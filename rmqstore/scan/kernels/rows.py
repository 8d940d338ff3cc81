"""Rows of structured arrays in compiled code: one call reads or writes all the fields that a kernel needs.

The time of the compiler depends on statements, not on instructions. A row at an address costs it one statement, where an array of rows
costs one per field. Types, offsets and byte order come from the numpy type, and so from the declaration that the type may be made from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rmqstore.scan.kernels.declare import instruction


def fields_reader(dtype: np.dtype[np.void], *names: str) -> Any:
    """Return a function for kernels: address of a row → the named integer fields (without names: all) as int64; a tuple of several."""
    places = _places(dtype, names)
    kind = "int64" if len(places) == 1 else f"UniTuple(int64, {len(places)})"

    @instruction(f"{kind}(uintp)")
    def read(ir: Any, builder: Any, row: Any) -> Any:
        values = [_load(ir, builder, row, field, offset) for field, offset in places]
        return values[0] if len(values) == 1 else values

    return read


def fields_writer(dtype: np.dtype[np.void], *names: str) -> Any:
    """Return a function for kernels: (address of a row, int64 values of the named fields); without names, all fields in order."""
    places = _places(dtype, names)

    @instruction(f"void(uintp, {', '.join(['int64'] * len(places))})")
    def write(ir: Any, builder: Any, row: Any, *values: Any) -> None:
        for value, (field, offset) in zip(values, places, strict=True):
            bits = ir.IntType(field.itemsize * 8)
            pointer = builder.inttoptr(builder.add(row, row.type(offset)), bits.as_pointer())
            value = value if bits.width == 64 else builder.trunc(value, bits)
            builder.store(value if field.isnative else builder.bswap(value), pointer).align = 1

    return write


def row_copier(dtype: np.dtype[np.void]) -> Any:
    """Return a function for kernels: (address to write to, address of the row)."""

    @instruction("void(uintp, uintp)")
    def copy(ir: Any, builder: Any, target: Any, row: Any) -> None:
        whole = ir.IntType(dtype.itemsize * 8).as_pointer()
        value = builder.load(builder.inttoptr(row, whole))
        value.align = 1
        builder.store(value, builder.inttoptr(target, whole)).align = 1

    return copy


def field_offset(dtype: np.dtype[np.void], name: str) -> int:
    """Return where a field of a row begins, in bytes."""
    return _places(dtype, (name,))[0][1]


def _places(dtype: np.dtype[np.void], names: tuple[str, ...]) -> list[tuple[np.dtype[Any], int]]:
    fields: Mapping[str, Any] = dtype.fields or {}
    return [fields[name][:2] for name in names or dtype.names or ()]


def _load(ir: Any, builder: Any, row: Any, field: np.dtype[Any], offset: int) -> Any:
    bits = ir.IntType(field.itemsize * 8)
    value = builder.load(builder.inttoptr(builder.add(row, row.type(offset)), bits.as_pointer()))
    value.align = 1
    if not field.isnative:
        value = builder.bswap(value)
    if bits.width == 64:
        return value
    return (builder.sext if field.kind == "i" else builder.zext)(value, ir.IntType(64))
