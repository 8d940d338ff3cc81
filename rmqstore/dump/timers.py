"""The timer's files as objects: wheel slots in use, units of the timer log, the timercheck."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rmqstore.dump.fields import Fields, cells
from rmqstore.dump.items import Value
from rmqstore.formats import timer
from rmqstore.store.mapped import MappedFile
from rmqstore.store.window import open_read_only, read_descriptor

_SLOT = Fields(timer.WHEEL_SLOT)
_UNIT = Fields(timer.LOG_UNIT)
_BLANK_MAGIC = timer.LOG_BLANK_MAGIC - (1 << 32)
_CHUNK_UNITS = 4096

Name = Callable[[MappedFile], str]


def timer_wheel(file: MappedFile, name: Name) -> Iterator[Value]:
    """Yield the slots that were ever used; old ones stay until they are used again."""
    for position, data in cells(file, _SLOT.size, 0, file.length - file.length % _SLOT.size):
        yield {"type": "timer_slot", "slot": position // _SLOT.size, **_SLOT.read(data), "file": name(file), "position": position}


def timer_log(files: Sequence[MappedFile], name: Name) -> Iterator[Value]:
    """Yield the units in the order they were written, and the BLANK that ends a file."""
    for file in files:
        yield from _log_file(file, name)


def _log_file(file: MappedFile, name: Name) -> Iterator[Value]:
    at = 0
    with open_read_only(file.path) as descriptor:
        while at + timer.LOG_BLANK_SIZE <= file.length:
            data = read_descriptor(descriptor, file.path, at, min(_CHUNK_UNITS * _UNIT.size, file.length - at))
            for start in range(0, len(data) - timer.LOG_BLANK_SIZE + 1, _UNIT.size):
                position = at + start
                head = data[start : start + timer.LOG_BLANK_SIZE]
                magic = int.from_bytes(head[12:16], "big", signed=True)
                place = {"file": name(file), "position": position}
                log_position = file.start + position
                if magic == _BLANK_MAGIC:
                    size = int.from_bytes(head[:4], "big", signed=True)
                    yield {"type": "timer_blank", "log_position": log_position, "size": size, "magic": timer.LOG_BLANK_MAGIC, **place}
                    return
                unit = data[start : start + _UNIT.size]
                if not any(unit):
                    return
                if len(unit) < _UNIT.size or int.from_bytes(head[:4], "big", signed=True) != _UNIT.size:
                    text = f"the size is {int.from_bytes(head[:4], 'big', signed=True)}, a unit has {_UNIT.size} bytes"
                    yield {"type": "damage", **place, "length": len(unit), "reason": "size_mismatch", "message": text}
                    continue
                yield {"type": "timer_unit", "log_position": log_position, **_UNIT.read(unit), **place}
            at += len(data) - len(data) % _UNIT.size or _UNIT.size
