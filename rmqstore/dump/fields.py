"""Reading declared fields from files: fixed-size structures one by one, whole small files as objects."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqstore.formats.layout import fixed_layout, struct_format
from rmqstore.store.mapped import MappedFile
from rmqstore.store.window import data_extents, open_read_only, read_descriptor

if TYPE_CHECKING:
    from construct import Struct

_CHUNK_UNITS = 8192


class Fields:
    """A declared structure of static size as a fast reader of its fields."""

    def __init__(self, declaration: Struct) -> None:
        self.names = tuple(fixed_layout(declaration))
        self._struct = struct.Struct(struct_format(declaration))
        self.size = self._struct.size

    def read(self, data: bytes, position: int = 0) -> dict[str, Any]:
        """Return the field values at `position`."""
        return dict(zip(self.names, self._struct.unpack_from(data, position), strict=True))

    def build(self, values: dict[str, Any]) -> bytes:
        """Return the bytes of these values."""
        return self._struct.pack(*(values[name] for name in self.names))


def damage(file: str, position: int, length: int, reason: str, message: str) -> dict[str, Any]:
    """Return the object for `length` bytes of a file, other than one of a log, that cannot be shown as what they should be."""
    return {"type": "damage", "file": file, "position": position, "length": length, "reason": reason, "message": message}


class Cell(NamedTuple):
    """The bytes of one unit and its position in the file."""

    position: int
    data: bytes


def cells(file: MappedFile, size: int, start: int = 0, stop: int | None = None) -> Iterator[Cell]:
    """Yield the units of `size` bytes in [start, stop) of a file that are not all zero. Holes of sparse files are not read."""
    end = file.length if stop is None else min(stop, file.length)
    zero = bytes(size)
    with open_read_only(file.path) as descriptor:
        at = start
        for begin, extent_end in data_extents(file):
            at = max(at, start + max(0, begin - start) // size * size)
            while at + size <= min(end, extent_end + size):
                count = min(_CHUNK_UNITS, (end - at) // size)
                if count == 0 or at >= extent_end:
                    break
                data = read_descriptor(descriptor, file.path, at, count * size)
                if data.count(0) != len(data):
                    for offset in range(0, len(data), size):
                        unit = data[offset : offset + size]
                        if unit != zero:
                            yield Cell(at + offset, unit)
                at += count * size
