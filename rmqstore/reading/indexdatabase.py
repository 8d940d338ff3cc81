"""The index of messages in RocksDB (`indexRocksDBEnable`, from 5.4.0 on): the places of the messages that have a key."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rmqstore.errors import UnreadableError
from rmqstore.formats.properties import KEYS, TAGS, UNIQ_KEY
from rmqstore.reading.messagedatabase import message_database
from rmqstore.store.rocksdb.library import linked
from rmqstore.store.rocksdb.streams import RECOVERY, exactly, output_of
from rmqstore.store.root import Store

MOST_TOPICS = 500
"""Topics of a lookup; their names are words of a command line."""
HOUR = 3_600_000
FAMILY = "default"
_CHILD = "rmqstore.store.rocksdb.indexed"
_LONG = struct.Struct(">q")


@dataclass(frozen=True, slots=True)
class IndexAnswer:
    """The entries with a key, and what the index is of: messages from physical offset `first` to the one at `last`.

    `first` is None if it is only known that messages stored from `first_time` (ms) on are in it.
    """

    offsets: tuple[int, ...]
    first: int | None
    first_time: int
    last: int


def look_up(store: Store, topics: Sequence[str], key: str) -> IndexAnswer | None:
    """Return the answer of the index, None without one, and where it cannot be read or a broker has it open.

    Raises UnreadableError if the library fails, OSError.
    """
    database = message_database(store, limit=0)
    if database is None or len(topics) > MOST_TOPICS:
        return None
    prefixes = [f"@{topic}@{kind}@{key}@".encode("utf-8", "surrogateescape").hex() for topic in topics for kind in ("K", "U")]
    offsets: list[int] = []
    with linked(database) as links, output_of(database, _CHILD, links, RECOVERY, *prefixes) as stream:
        last, hour, first = (_LONG.unpack(exactly(stream, _LONG.size))[0] for _ in range(3))
        while (offset := _LONG.unpack(exactly(stream, _LONG.size))[0]) >= 0:
            offsets.append(offset)
    if last < 0 or hour < 0:
        return None
    return IndexAnswer(tuple(sorted(set(offsets))), None if first < 0 else first, hour + HOUR, last)


def last_indexed(store: Store) -> int | None:
    """Return the physical offset of the last message of the index, None without one and where it cannot be read. Raises OSError."""
    try:
        answer = look_up(store, (), "")
    except UnreadableError:
        return None
    return None if answer is None else answer.last


def index_pairs(topic: str, properties: Mapping[str, str], physical_offset: int, store_timestamp: int) -> list[tuple[bytes, bytes]]:
    """Return the entries of a message, none if it has no unique key, or a damaged time: for that, for each key, and for the tag.

    The source is the sheet of the newer releases, §5.2. Brokers leave out messages that were rolled back.
    """
    unique = properties.get(UNIQ_KEY)
    if not unique or store_timestamp < 0:
        return []
    texts = {f"@{topic}@U@{unique}@"}
    texts |= {f"@{topic}@K@{key}@{unique}@" for key in properties.get(KEYS, "").split(" ") if key}
    if properties.get(TAGS):
        texts.add(f"@{topic}@T@{properties[TAGS]}@{unique}@")
    head, place, value = map(_LONG.pack, (store_timestamp // HOUR * HOUR, physical_offset, store_timestamp))
    return [(head + text.encode("utf-8", "surrogateescape") + place, value) for text in texts]


def offset_of(key: bytes) -> int | None:
    """Return the physical offset in the key of an entry, None for a key of another form."""
    if len(key) <= 2 * _LONG.size or key[_LONG.size : _LONG.size + 1] != b"@":
        return None
    offset: int = _LONG.unpack_from(key, len(key) - _LONG.size)[0]
    return offset
