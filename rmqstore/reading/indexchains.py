"""The chain of one key in the files of `index/`, which a broker follows to answer a query by key."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rmqstore.formats import index
from rmqstore.formats.javahash import index_key_hash
from rmqstore.formats.layout import struct_format
from rmqstore.scan.indexshape import geometry, guess_geometry
from rmqstore.store.mapped import MappedFile
from rmqstore.store.root import Store
from rmqstore.store.window import open_read_only, read_at, read_descriptor

_HEADER = struct.Struct(struct_format(index.HEADER))
_SLOT = struct.Struct(struct_format(index.SLOT))
_ITEM = struct.Struct(struct_format(index.ITEM))


class Link(NamedTuple):
    """One entry of a chain, by its number in the file; `time_diff` in seconds, `previous` is the number of the entry before it."""

    number: int
    key_hash: int
    physical_offset: int
    time_diff: int
    previous: int


class Chain(NamedTuple):
    """The entries that a slot leads to, the newest first; not `whole` if one of them has a wrong slot or a wrong link."""

    links: list[Link]
    whole: bool


class KeyEntries(NamedTuple):
    """The physical offsets that one file has for keys, and the range of the log [begin, end) that it covers.

    `covered` is None if the file cannot be read so: it is too short, its number of slots is unknown, a chain is damaged, or its header
    does not agree with its first and its last entry.
    """

    offsets: list[int]
    covered: tuple[int, int] | None


def offsets_of_key(store: Store, topic: str, key: str) -> Iterator[int]:
    """Yield the physical offsets that the index has for a key, from the newest entry to the oldest. Other keys can have the same hash.

    Files whose number of slots is unknown, and those too short for a header, are left out. Raises UnreadableError, StoreChangedError.
    """
    for entries in entries_of_key(store, [topic], key):
        yield from entries.offsets


def entries_of_key(store: Store, topics: Sequence[str], key: str) -> Iterator[KeyEntries]:
    """Yield the entries of a key in each of some topics, by file, the newest one first. Raises UnreadableError, StoreChangedError."""
    named = [file for file in store.index_files() if file.named_right and file.length >= index.HEADER_SIZE]
    files = [file.mapped for file in named]
    shapes = [geometry(store.config, file.length) for file in files]
    guessed = guess_geometry(files) if None in shapes else None
    for file, known in zip(reversed(files), reversed(shapes), strict=True):
        shape = known or guessed
        if shape is None or index.file_size(*shape) > file.length:
            yield KeyEntries([], None)
            continue
        hashes = {index_key_hash(topic, key) for topic in topics}
        chains = {wanted: chain_of(file, shape[0], wanted) for wanted in hashes}
        offsets = [link.physical_offset for wanted, chain in chains.items() for link in chain.links if link.key_hash == wanted]
        yield KeyEntries(offsets, _covered(file, shape[0]) if all(chain.whole for chain in chains.values()) else None)


def _covered(file: MappedFile, slots: int) -> tuple[int, int] | None:
    """Return the range of the log from the first entry of a file to the last one, None if the header says otherwise or has none."""
    _, _, begin, end, _, count = _HEADER.unpack(read_at(file, 0, _HEADER.size))
    last = index.item_position(count - 1, slots)
    if count < 2 or last + _ITEM.size > file.length:
        return None
    places = [_ITEM.unpack(read_at(file, position, _ITEM.size))[1] for position in (index.item_position(1, slots), last)]
    return (begin, end + 1) if places == [begin, end] else None


def chain_of(file: MappedFile, slots: int, key_hash: int) -> Chain:
    """Return the chain of the slot of a hash in a file with so many slots; it ends where it does not continue to an older entry.

    A few reads for each entry, whatever the size of the file. Raises UnreadableError, StoreChangedError.
    """
    links: list[Link] = []
    with open_read_only(file.path) as descriptor:

        def read(unit: struct.Struct, position: int) -> tuple[int, ...]:
            return unit.unpack(read_descriptor(descriptor, file.path, position, unit.size))

        count = read(_HEADER, 0)[-1]
        most = min(count, (file.length - index.item_position(0, slots)) // _ITEM.size)
        slot = key_hash % slots
        (number,) = read(_SLOT, index.slot_position(slot))
        below = most
        while 0 < number < below:
            link = Link(number, *read(_ITEM, index.item_position(number, slots)))
            links.append(link)
            below, number = number, link.previous
    return Chain(links, number == 0 and all(link.key_hash % slots == slot for link in links))


def uncovered(covered: Iterable[tuple[int, int]], begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of [begin, end) of the log that are outside of the given ranges."""
    for start, stop in sorted(covered):
        if start > begin:
            yield begin, min(start, end)
        begin = max(begin, stop)
    if begin < end:
        yield begin, end
