"""Offsets, widths and types of a declared structure, so that compiled code takes them from the declaration and never repeats them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from construct import Construct, SizeofError

if TYPE_CHECKING:
    from construct import Struct

_TYPES = {"b": "i8", "B": "u8", "h": "i16", "H": "u16", "i": "i32", "I": "u32", "l": "i32", "L": "u32", "q": "i64", "Q": "u64"}
_STANDARD_CODES = {"l": "i", "L": "I"}


class Field(NamedTuple):
    """Place of one field, in bytes from the start of its structure."""

    offset: int
    width: int

    @property
    def end(self) -> int:
        return self.offset + self.width


def core(member: Construct[Any, Any]) -> Construct[Any, Any]:
    """Return the declaration below the wrappers that give names, docs, defaults and derived values."""
    while not hasattr(member, "fmtstr") and not hasattr(member, "subcons") and hasattr(member, "subcon"):
        member = member.subcon
    return member


def static_size(member: Construct[Any, Any]) -> int | None:
    """Return the width of a member in bytes, or None if it depends on the data."""
    try:
        return int(member.sizeof())
    except (SizeofError, KeyError, AttributeError):
        return None


def type_name(member: Construct[Any, Any]) -> str:
    """Return `i32`, `u16`, … for an integer member; `bytes` for anything else."""
    code = getattr(core(member), "fmtstr", None)
    return _TYPES[code[-1]] if code else "bytes"


def fixed_layout(struct: Struct) -> dict[str, Field]:
    """Return the field of every member of a structure with static sizes; raises ValueError for any other structure."""
    layout: dict[str, Field] = {}
    offset = 0
    for member in struct.subcons:
        width = static_size(member)
        if width is None:
            raise ValueError(f"the size of {member.name!r} depends on the data")
        if member.name:
            layout[member.name] = Field(offset, width)
        offset += width
    return layout


def struct_format(struct: Struct) -> str:
    """Return the structure as a format of the module `struct`, e.g. `>qiq`: big-endian, no padding. Raises ValueError if not static."""
    codes = []
    for member in struct.subcons:
        width = static_size(member)
        if width is None:
            raise ValueError(f"the size of {member.name!r} depends on the data")
        code = getattr(core(member), "fmtstr", None)
        codes.append(_STANDARD_CODES.get(code[-1], code[-1]) if code else f"{width}s")
    return ">" + "".join(codes)
