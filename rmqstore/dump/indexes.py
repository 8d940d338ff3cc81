"""Index files as objects: the header, the entries in the order they were written, and the slots on request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rmqstore.dump.fields import Fields, cells, damage
from rmqstore.dump.items import Value
from rmqstore.errors import UsageError
from rmqstore.formats import index, tiered_index
from rmqstore.store.mapped import MappedFile
from rmqstore.store.window import read_at

if TYPE_CHECKING:
    from rmqstore.reading.tieredindex import TieredIndex

_HEADER = Fields(index.HEADER)
_SLOT = Fields(index.SLOT)
_ITEM = Fields(index.ITEM)
_TIERED_HEADER = Fields(tiered_index.HEADER)
_TIERED_SLOT = Fields(tiered_index.SLOT)
_TIERED_ITEM = Fields(tiered_index.ITEM)
_TIERED_COMPACTED_ITEM = Fields(tiered_index.COMPACTED_ITEM)
_COMPACTED_SLOT = Fields(tiered_index.COMPACTED_SLOT)

Name = Callable[[MappedFile], str]


def index_file(file: MappedFile, name: Name, configured_slots: int | None, slots: bool, key_hash: int | None = None) -> Iterator[Value]:
    """Yield one file. `configured_slots`: maxHashSlotNum if given; otherwise it is determined from the entries.

    With `key_hash` only the entries of its slot are read, unless their chain is damaged. Raises UsageError.
    """
    if file.length < _HEADER.size:
        yield _too_short(file, name)
        return
    header = _HEADER.read(read_at(file, 0, _HEADER.size))
    count = max(header["index_count"], 1) - 1
    slot_count = configured_slots if configured_slots is not None else _slot_count(file)
    if slot_count is None and count == 0:
        yield {"type": "index_header", "file": name(file), **header, "slots": None}
        return
    if slot_count is None or index.item_position(1, slot_count) > file.length:
        raise UsageError(
            f"{file.path}: the number of hash slots cannot be determined from the file.",
            "Give it with --set maxHashSlotNum=N, as in broker.conf.",
        )
    yield {"type": "index_header", "file": name(file), **header, "slots": slot_count}
    if slots:
        for position, data in cells(file, _SLOT.size, index.slot_position(0), index.slot_position(slot_count)):
            number = (position - index.slot_position(0)) // _SLOT.size
            yield {"type": "index_slot", "slot": number, **_SLOT.read(data), "file": name(file), "position": position}
    begin = header["begin_timestamp"]
    for position, entry in _items(file, name, slot_count, count, key_hash):
        if isinstance(entry, dict):
            yield entry
            continue
        item = _ITEM.read(entry)
        yield {
            "type": "index_item",
            "item": (position - index.item_position(0, slot_count)) // _ITEM.size,
            "key_hash": item["key_hash"],
            "physical_offset": item["phy_offset"],
            "time_diff": item["time_diff"],
            "prev_index": item["prev_index"],
            "slot": item["key_hash"] % slot_count,
            "store_timestamp": begin + item["time_diff"] * 1000,
            "file": name(file),
            "position": position,
        }


def _items(file: MappedFile, name: Name, slots: int, count: int, key_hash: int | None) -> Iterator[tuple[int, bytes | Value]]:
    """Yield (position, bytes) of the entries, of those of one slot if its chain is whole; else its damage and all entries."""
    if key_hash is not None:
        from rmqstore.reading.indexchains import chain_of

        chain = chain_of(file, slots, key_hash)
        if chain.whole:
            numbers = (index.item_position(link.number, slots) for link in reversed(chain.links))
            yield from ((position, read_at(file, position, _ITEM.size)) for position in numbers)
            return
        position = index.item_position(chain.links[-1].number, slots) if chain.links else index.slot_position(key_hash % slots)
        length = _ITEM.size if chain.links else _SLOT.size
        text = f"the chain of slot {key_hash % slots} is damaged, so all entries are searched"
        yield position, damage(name(file), position, length, "chain", text)
    yield from cells(file, _ITEM.size, index.item_position(1, slots), index.item_position(count + 1, slots))


def _too_short(file: MappedFile, name: Name) -> Value:
    text = f"{file.length} bytes are too few for a header"
    return damage(name(file), 0, file.length, "truncated", text)


def _slot_count(file: MappedFile) -> int | None:
    """Return the number of hash slots of a file, by its length or its entries; None if neither determines it."""
    from rmqstore.scan.indexshape import geometry, guess_geometry
    from rmqstore.store.brokerconf import BrokerConfig

    shape = geometry(BrokerConfig(), file.length) or guess_geometry([file])
    return None if shape is None else shape[0]


def tiered_index_file(file: MappedFile, name: Name, slots: bool) -> Iterator[Value]:
    """Yield one local index file of the tiered store, of either generation, open or compacted."""
    if file.length < _TIERED_HEADER.size:
        yield _too_short(file, name)
        return
    from rmqstore.reading.tieredindex import tiered_index_of

    header = _TIERED_HEADER.read(read_at(file, 0, _TIERED_HEADER.size))
    found = tiered_index_of(file)
    if found is None:
        yield {"type": "tiered_index_header", "file": name(file), **header, "slots": None}
        return
    if found.generation is None:
        yield from _compacted(file, name, header, found, slots)
        return
    generation, slot_count = found.generation, found.slots
    yield {"type": "tiered_index_header", "file": name(file), **header, "slots": slot_count, "releases": generation.releases}
    if slots:
        first = tiered_index.slot_position(0)
        for position, data in cells(file, _TIERED_SLOT.size, first, tiered_index.slot_position(slot_count)):
            number = (position - first) // _TIERED_SLOT.size
            yield {"type": "tiered_index_slot", "slot": number, **_TIERED_SLOT.read(data), "file": name(file), "position": position}
    begin = generation.item_position(generation.first_item, slot_count)
    end = generation.item_position(generation.first_item + header["item_count"], slot_count)
    for position, data in cells(file, _TIERED_ITEM.size, begin, end):
        item = _TIERED_ITEM.read(data)
        yield {
            "type": "tiered_index_item",
            "item": (position - generation.item_position(0, slot_count)) // _TIERED_ITEM.size,
            **item,
            "store_timestamp": header["begin_timestamp"] + item["time_diff"] * generation.milliseconds_per_time_diff,
            "file": name(file),
            "position": position,
        }


def _compacted(file: MappedFile, name: Name, header: Value, found: TieredIndex, slots: bool) -> Iterator[Value]:
    yield {"type": "tiered_index_header", "file": name(file), **header, "slots": found.slots, "releases": "compacted"}
    first = _TIERED_HEADER.size
    begin, end = found.position_of(0), found.position_of(found.items)
    if slots:
        for position, data in cells(file, _COMPACTED_SLOT.size, first, begin):
            number = (position - first) // _COMPACTED_SLOT.size
            slot = _COMPACTED_SLOT.read(data)
            place = {"first": slot["position"], "length": slot["length"], "file": name(file), "position": position}
            yield {"type": "tiered_index_slot", "slot": number, **place}
    for number, (position, data) in enumerate(cells(file, _TIERED_COMPACTED_ITEM.size, begin, end)):
        yield {"type": "tiered_index_item", "item": number, **_TIERED_COMPACTED_ITEM.read(data), "file": name(file), "position": position}
