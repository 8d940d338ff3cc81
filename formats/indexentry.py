"""The entries of the index in RocksDB (`indexRocksDBEnable`, from 5.4.0 on; sheet of the newer releases §5.2)."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from rmqstore.formats.properties import KEYS, TAGS, UNIQ_KEY

FAMILY = "default"
"""The column family of rocksdbstore that has them."""
HOUR = 3_600_000
"""Milliseconds."""
KEY_SEPARATOR = " "
_LONG = struct.Struct(">q")


def index_pairs(topic: str, properties: Mapping[str, str], physical_offset: int, store_timestamp: int) -> list[tuple[bytes, bytes]]:
    """Return the entries of a message, none if it has no unique key, or a damaged time: for that, for each key, and for the tag.

    Brokers leave out messages that were rolled back.
    """
    unique = properties.get(UNIQ_KEY)
    if not unique or store_timestamp < 0:
        return []
    texts = {f"@{topic}@U@{unique}@"}
    texts |= {f"@{topic}@K@{key}@{unique}@" for key in properties.get(KEYS, "").split(KEY_SEPARATOR) if key}
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
