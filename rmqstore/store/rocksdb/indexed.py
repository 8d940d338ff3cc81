"""A process that looks keys of messages up in the index of a database, so that a crash of the library ends this process alone.

`python -m rmqstore.store.rocksdb.indexed DIRECTORY MODE PREFIX…`: a prefix, in hexadecimal, is what follows the hour in the keys of the
entries. Writes to standard output, all numbers of 8 bytes, big-endian: the physical offset of the last message that is indexed, −1 for
none; the first hour (ms) of which there are entries, −1 for none; the smallest physical offset of an entry of that hour, −1 if it has too
many; for each entry with one of the prefixes its physical offset; −1 at the end. Sheet of the newer releases §5.2.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator, Sequence

from rocksdict import Rdict, ReadOptions

from rmqstore.formats.rocksdb import LAST_OFFSET_KEY
from rmqstore.store.rocksdb.child import open_families, restrict

ENTRIES = "default"
HOUR = 3_600_000
"""Milliseconds."""
_LATEST = 1 << 60
"""Hours are before it; the names of other keys are letters, which as a number are larger."""
_MOST_FIRST = 200_000
_LONG = struct.Struct(">q")


def main() -> None:
    """Print what the index has."""
    directory, mode, *prefixes = sys.argv[1:]
    restrict()
    _, families = open_families(directory, mode)
    family = families[ENTRIES]
    last = family.get(LAST_OFFSET_KEY)
    out = sys.stdout.buffer
    out.write(last if last is not None and len(last) == _LONG.size else _LONG.pack(-1))
    hours = list(_hours(family))
    out.write(_LONG.pack(hours[0] if hours else -1))
    out.write(_LONG.pack(_first_offset(family, hours[0]) if hours else -1))
    for offset in _offsets(family, hours, [bytes.fromhex(prefix) for prefix in prefixes]):
        out.write(_LONG.pack(offset))
    out.write(_LONG.pack(-1))


def _hours(family: Rdict) -> Iterator[int]:
    """Yield the hours that have entries."""
    cursor = family.iter(ReadOptions())
    cursor.seek_to_first()
    while cursor.valid():
        hour = _LONG.unpack_from(cursor.key().ljust(_LONG.size, b"\xff"))[0]
        if not 0 <= hour < _LATEST:
            break
        yield hour
        cursor.seek(_LONG.pack(hour + 1))
    cursor.status()


def _first_offset(family: Rdict, hour: int) -> int:
    """Return the smallest physical offset of an hour, −1 if it has too many entries."""
    first = -1
    for count, key in enumerate(_keys(family, _LONG.pack(hour))):
        if count >= _MOST_FIRST:
            return -1
        offset = _LONG.unpack(key[-_LONG.size :])[0]
        first = offset if first < 0 else min(first, offset)
    return first


def _offsets(family: Rdict, hours: Sequence[int], prefixes: Sequence[bytes]) -> Iterator[int]:
    for hour in hours:
        for prefix in prefixes:
            for key in _keys(family, _LONG.pack(hour) + prefix):
                yield _LONG.unpack(key[-_LONG.size :])[0]


def _keys(family: Rdict, prefix: bytes) -> Iterator[bytes]:
    cursor = family.iter(ReadOptions())
    cursor.seek(prefix)
    while cursor.valid() and cursor.key().startswith(prefix):
        if len(cursor.key()) >= len(prefix) + _LONG.size:
            yield cursor.key()
        cursor.next()
    cursor.status()


if __name__ == "__main__":
    main()
