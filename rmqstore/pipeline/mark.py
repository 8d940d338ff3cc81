"""The mark of a store: some bytes of its log by which another process, maybe on another machine, recognizes it.

Paths say nothing about that: workers may have another store, an older snapshot or nothing at the same place. What a broker appends
after the mark was made does not change it, and neither do files that it deletes because they are old.
"""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass
from hashlib import blake2b

from rmqstore.errors import RefusedError, RmqstoreError
from rmqstore.store.mapped import MappedFile
from rmqstore.store.root import Store
from rmqstore.store.window import read_at

_SPAN = 256
"""Bytes of a place: the fixed part of a record with its CRC, times and offsets, and the beginning of its body."""
_BLOCK = 64 << 10
_MOMENT = 0.005
"""Seconds; a record is copied into the log in microseconds."""


@dataclass(frozen=True, slots=True)
class Place:
    """Bytes of the log from the physical offset `offset` on, in a file of `length` bytes; their number and digest."""

    offset: int
    length: int
    size: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Mark:
    """The first bytes of the first and of the last file of a log, and the last ones that were written. Without a log there are none."""

    path: str
    places: tuple[Place, ...]

    @classmethod
    def of(cls, store: Store) -> Mark:
        """Return the mark of a store. Raises UnreadableError, StoreChangedError."""
        files = store.message_log.files
        if not files:
            return cls(str(store.root), ())
        last = next((file for file in reversed(files) if any(_bytes(file, 0))), files[0])
        return cls(str(store.root), (_place(files[0], 0), _place(last, 0), _last_place(last)))

    def require(self, store: Store) -> None:
        """Raise RefusedError if a store is another one, or an older state of it."""
        found = store.message_log
        for place in self.places:
            file = found.find(place.offset)
            if file is None and found.files and place.offset < found.min_offset:
                continue  # deleted since, as brokers do
            if file is None:
                self._refuse(f"its log has no offset {place.offset}")
            elif file.length != place.length:
                self._refuse(f"{store.relative(file.path)} has {file.length} bytes there and {place.length} here")
            elif _digest(read_at(file, place.offset - file.start, place.size)) != place.digest:
                self._refuse(f"the bytes from offset {place.offset} of the log on differ")

    def _refuse(self, why: str) -> None:
        raise RefusedError(f"Host {socket.gethostname()} has another store, or an older copy of it, at {self.path}: {why}.", SHARE)

    def refuse_for(self, error: RmqstoreError) -> RefusedError:
        """Return the error for a process that cannot open the store at all."""
        text = f"Host {socket.gethostname()} cannot open {self.path}: {error.message[:1].lower()}{error.message[1:]}"
        return RefusedError(text, SHARE)


SHARE = "Mount the store under this path on every host that runs executors, for example from a snapshot or a network file system."


def _bytes(file: MappedFile, position: int) -> bytes:
    return read_at(file, position, min(_SPAN, file.length - position))


def _place(file: MappedFile, position: int, end: int | None = None) -> Place:
    data = _bytes(file, position)[: None if end is None else end - position]
    return Place(file.start + position, file.length, len(data), _digest(data))


def _last_place(file: MappedFile) -> Place:
    """Return the last bytes that were written; a broker that is just writing them has done so a moment later."""
    while True:
        end = _written(file)
        place = _place(file, max(0, end - _SPAN), end)
        time.sleep(_MOMENT)
        if _place(file, max(0, end - _SPAN), end) == place:
            return place


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


def _written(file: MappedFile) -> int:
    """Return where a file ends with zeros, found by halving: a run of zeros inside of the data makes the mark an earlier one."""
    low, high = 0, -(-file.length // _BLOCK)  # block `low` has bytes that are not zero
    while high - low > 1:
        middle = (low + high) // 2
        if any(read_at(file, middle * _BLOCK, min(_BLOCK, file.length - middle * _BLOCK))):
            low = middle
        else:
            high = middle
    block = read_at(file, low * _BLOCK, min(_BLOCK, file.length - low * _BLOCK))
    return low * _BLOCK + len(block.rstrip(b"\0"))
