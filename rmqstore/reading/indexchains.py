"""The chain of one key in the files of `index/`, which a broker follows to answer a query by key."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from rmqstore.formats import index
from rmqstore.formats.javahash import index_key_hash
from rmqstore.formats.layout import struct_format
from rmqstore.scan.indexshape import geometry, guess_geometry
from rmqstore.store.mapped import MappedFile
from rmqstore.store.root import Store
from rmqstore.store.window import open_read_only, read_descriptor

_HEADER = struct.Struct(struct_format(index.HEADER))
_SLOT = struct.Struct(struct_format(index.SLOT))
_ITEM = struct.Struct(struct_format(index.ITEM))


def offsets_of_key(store: Store, topic: str, key: str) -> Iterator[int]:
    """Yield the physical offsets that the index has for a key, from the newest entry to the oldest. Other keys can have the same hash.

    Files whose number of slots is unknown, and those too short for a header, are left out. Raises UnreadableError, StoreChangedError.
    """
    named = [file for file in store.index_files() if file.named_right and file.length >= index.HEADER_SIZE]
    files = [file.mapped for file in named]
    shapes = [geometry(store.config, file.length) for file in files]
    guessed = guess_geometry(files) if None in shapes else None
    for file, known in zip(reversed(files), reversed(shapes), strict=True):
        shape = known or guessed
        if shape is not None and index.file_size(*shape) <= file.length:
            yield from _chain(file, shape[0], index_key_hash(topic, key))


def _chain(file: MappedFile, slots: int, wanted: int) -> Iterator[int]:
    """Yield the offsets of one file; a chain only continues to older entries, so a damaged one ends."""
    with open_read_only(file.path) as descriptor:

        def read(unit: struct.Struct, position: int) -> tuple[int, ...]:
            return unit.unpack(read_descriptor(descriptor, file.path, position, unit.size))

        count = read(_HEADER, 0)[-1]
        most = min(count, (file.length - index.item_position(0, slots)) // _ITEM.size)
        (number,) = read(_SLOT, index.slot_position(wanted % slots))
        while 0 < number < most:
            key_hash, offset, _, previous = read(_ITEM, index.item_position(number, slots))
            if key_hash == wanted:
                yield offset
            number = previous if previous < number else 0
