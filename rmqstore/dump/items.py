"""The output of a dump: objects, or runs of finished JSON lines."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from rmqstore.dump.message import json_line
from rmqstore.terminal import LineSink

Value = dict[str, Any]
_DAMAGE = "damage"
_WRITE_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Lines:
    """`count` JSON lines, none of them damage. `data` belongs to its maker and is valid only until the next item is requested."""

    data: memoryview
    count: int

    def values(self) -> Iterator[Value]:
        """Yield the lines as objects."""
        return map(json.loads, bytes(self.data).splitlines())

    def first(self, count: int) -> Lines:
        """Return the first `count` lines."""
        end = 0
        data = bytes(self.data)
        for _ in range(count):
            end = data.index(b"\n", end) + 1
        return Lines(self.data[:end], count)


Item = Value | Lines


def objects(items: Iterable[Item]) -> Iterator[Value]:
    """Yield every item as objects."""
    for item in items:
        if isinstance(item, Lines):
            yield from item.values()
        else:
            yield item


def limited(items: Iterable[Item], limit: int | None) -> Iterator[Item]:
    """Yield the first `limit` objects; damage before them is not counted."""
    if limit is None:
        yield from items
        return
    left = limit
    if left <= 0:
        return
    for item in items:
        if isinstance(item, Lines):
            taken = item if item.count <= left else item.first(left)
            left -= taken.count
            yield taken
        else:
            left -= item["type"] != _DAMAGE
            yield item
        if left <= 0:
            return


def last(items: Iterable[Item], count: int) -> tuple[list[Item], int]:
    """Return the last `count` objects with the damage between and after them, and how many objects there were up to `count`."""
    kept: deque[tuple[Item, int]] = deque()
    total = 0
    for item in items:
        if isinstance(item, Lines):
            counted = item.count
            kept.append((Lines(memoryview(bytes(item.data)), counted), counted))
        else:
            counted = int(item["type"] != _DAMAGE)
            kept.append((item, counted))
        total += counted
        while kept and total - kept[0][1] >= count:
            total -= kept.popleft()[1]
    result: list[Item] = []
    surplus = max(0, total - count)
    for item, _ in kept:
        if surplus and isinstance(item, Lines):
            result.extend(list(item.values())[surplus:])
            surplus = 0
        else:
            result.append(item)
    return result, min(total, count)


class Watched:
    """Items passed on and counted. `advance`, if set, is called every few hundred objects."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._items = items
        self.advance: Callable[[int], None] | None = None
        self.count = 0
        self.damages = 0
        self.damaged_bytes = 0

    def __iter__(self) -> Iterator[Item]:
        reported = 0
        for item in self._items:
            if isinstance(item, Lines):
                self.count += item.count
            else:
                self.count += 1
                if item["type"] == _DAMAGE:
                    self.damages += 1
                    self.damaged_bytes += item["length"]
            if self.advance is not None and self.count - reported >= 512:
                self.advance(self.count - reported)
                reported = self.count
            yield item


def write_json(items: Iterable[Item], stream: LineSink) -> None:
    """Write one line per object. Raises BrokenPipeError if the reader has closed the stream."""
    pending: list[bytes] = []
    size = 0
    try:
        for item in items:
            if isinstance(item, Lines):
                stream.write(b"".join(pending))
                pending, size = [], 0
                stream.write(item.data)
                continue
            pending.append(json_line(item))
            size += len(pending[-1])
            if size >= _WRITE_BYTES:
                stream.write(b"".join(pending))
                pending, size = [], 0
    finally:
        # Keep what was decoded before an error or an interruption.
        stream.write(b"".join(pending))
        stream.flush()
