"""Chains, slots and items of index files against a model that puts keys as the brokers do (fact sheet queues §6.4)."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pytest

from rmqstore.formats.index import ITEM
from rmqstore.scan.columns import KEY_DTYPE, RECORD_DTYPE
from rmqstore.scan.kernels.index import (
    ITEMS_END,
    KEYS_END,
    LINK_DTYPE,
    MATCHED_DTYPE,
    ODDITIES_FULL,
    ODDITY_DTYPE,
    SCRATCH_BYTES,
    ItemOddity,
    follow_chains,
    match_items,
)

SLOTS = 11
START = 1_700_000_000_000
Oddity = tuple[ItemOddity, int, int]  # what, number of the item, position of the record


@dataclass(frozen=True)
class Key:
    """A key of the log."""

    hash: int
    position: int
    store_timestamp: int
    is_tag: bool = False


@dataclass(frozen=True)
class Item:
    hash: int
    offset: int
    seconds: int
    previous: int

    def bytes(self) -> bytes:
        return bytes(ITEM.build({"key_hash": self.hash, "phy_offset": self.offset, "time_diff": self.seconds, "prev_index": self.previous}))


@dataclass
class Model:
    """An index file in the making."""

    begin: int = 0
    slots: list[int] = field(default_factory=lambda: [0] * SLOTS)
    items: list[Item] = field(default_factory=list)

    def put(self, key: Key) -> None:
        slot = key.hash % SLOTS
        seconds = max(0, (key.store_timestamp - self.begin) // 1000) if self.begin > 0 else 0
        self.items.append(Item(key.hash, key.position, min(seconds, 2**31 - 1), self.slots[slot]))
        self.slots[slot] = len(self.items)
        if len(self.items) == 1:
            self.begin = key.store_timestamp


def keys_of_log(count: int, seed: int = 1, tags: bool = False) -> list[Key]:
    """Keys of `count` records, one to three each."""
    generator = random.Random(seed)
    keys: list[Key] = []
    for number in range(count):
        when = START + number * 700
        keys += [Key(generator.randrange(2**31), 1000 + number * 100, when) for _ in range(generator.randint(1, 3))]
        if tags:
            keys.append(Key(generator.randrange(2**31), 1000 + number * 100, when, True))
    return keys


def model(keys: list[Key], begin: int = 0) -> Model:
    made = Model(begin)
    for key in keys:
        made.put(key)
    return made


@dataclass
class Followed:
    """What the kernel says of a file's chains."""

    links: list[tuple[int, int, int, int]]  # item, slot, expected, found
    newest: list[int]
    wrong: int


def chains(items: list[Item], *, room: int = 64, piece: int = 5) -> Followed:
    """The items given to the kernel in pieces."""
    newest = np.zeros(SLOTS + SCRATCH_BYTES // 4, np.int32)
    links = np.zeros(room, LINK_DTYPE)
    wrong = 0
    for first in range(0, len(items), piece):
        some = items[first : first + piece]
        data = np.frombuffer(b"".join(item.bytes() for item in some) + b"\0", np.uint8)
        place = (data.ctypes.data, first + 1, len(some), newest.ctypes.data, SLOTS)
        wrong = follow_chains(*place, links.ctypes.data, room, wrong)
    return Followed([tuple(map(int, link)) for link in links[:wrong]], newest[:SLOTS].tolist(), wrong)


@pytest.mark.parametrize("piece", [1, 5, 64, 1000])
@pytest.mark.parametrize("seed", range(5))
def test_a_file_as_brokers_write_it(seed: int, piece: int) -> None:
    made = model(keys_of_log(100, seed))

    assert chains(made.items, piece=piece) == Followed([], made.slots, 0)


@pytest.mark.parametrize("found", [0, 30, 31, 2**31 - 1, -1, 2])
def test_a_wrong_link(found: int) -> None:
    made = model(keys_of_log(40))
    right = made.items[29]
    made.items[29] = replace(right, previous=found)

    assert chains(made.items).links == [(30, right.hash % SLOTS, right.previous, found)]


def test_more_wrong_links_than_rows_are_counted() -> None:
    found = chains([Item(1, 1, 0, 9)] * 10, room=2)

    assert found.wrong == 9
    assert [link[0] for link in found.links] == [1, 2]


def test_negative_hashes_stand_in_the_slot_of_their_absolute_value() -> None:
    found = chains([Item(-5, 100, 0, 0), Item(-(2**31), 90, 0, 0), Item(5, 95, 0, 1)])

    assert (found.links, found.newest[5], found.newest[0]) == ([], 3, 2)


# Items against keys


def matched(
    keys: list[Key], items: list[Item], begin: int, *, first_seconds: int = 0, buffered: int = 10_000, room: int = 64
) -> tuple[list[Oddity], int]:
    """(oddities, matched items) as the kernel tells them, the items in pieces of `buffered`."""
    positions = sorted({key.position for key in keys})
    records = np.zeros(max(len(positions), 1), RECORD_DTYPE)
    times = {key.position: key.store_timestamp for key in keys}
    for row, position in zip(records, positions, strict=False):
        row["position"], row["store_timestamp"], row["size"] = position, times[position], 100
    rows = np.zeros(len(keys), KEY_DTYPE)
    for row, key in zip(rows, keys, strict=True):
        row["hash"], row["record"], row["is_tag"] = key.hash, positions.index(key.position), key.is_tag
    counts, oddities = np.array([(0, -1)], MATCHED_DTYPE), np.zeros(room, ODDITY_DTYPE)
    log = (records.ctypes.data, rows.ctypes.data)
    outputs = (counts.ctypes.data, oddities.ctypes.data, room)
    found: list[Oddity] = []
    key = first = 0
    state = -1
    while state != KEYS_END:
        piece = items[first : first + buffered]
        last = first + len(piece) == len(items)
        data: npt.NDArray[np.uint8] = np.frombuffer(b"".join(item.bytes() for item in piece) + b"\0", np.uint8)
        place = (data.ctypes.data, first + 1, 0, len(piece), int(last), begin, first_seconds)
        key, item, used, state = match_items(*log, key, len(keys), *place, *outputs)
        found += [(ItemOddity(int(row["oddity"])), int(row["item"]), int(row["position"])) for row in oddities[:used]]
        first += item
        if state == ITEMS_END and last:
            break
        assert state in (KEYS_END, ODDITIES_FULL, ITEMS_END)
    return found, int(counts["items"][0])


@pytest.mark.parametrize("buffered", [3, 4, 10, 10_000])
@pytest.mark.parametrize("tags", [False, True])
def test_items_of_all_keys(buffered: int, tags: bool) -> None:
    keys = keys_of_log(40, tags=tags)
    made = model(keys)

    assert matched(keys, made.items, made.begin, buffered=buffered) == ([], len(keys))


def test_tags_need_no_items() -> None:
    keys = keys_of_log(40, tags=True)
    made = model([key for key in keys if not key.is_tag])

    assert matched(keys, made.items, made.begin) == ([], len(made.items))


def test_the_first_item_of_a_rolled_file_counts_from_the_file_before() -> None:
    keys = keys_of_log(10)
    earlier_end = START - 60_000
    made = model(keys, earlier_end)
    assert made.items[0].seconds == 60

    assert matched(keys, made.items, made.begin, first_seconds=60)[0] == []
    assert matched(keys, made.items, made.begin)[0] == [(ItemOddity.TIME, 1, keys[0].position)]


MIDDLE = 20
DAMAGES = {
    "hash": (lambda item: replace(item, hash=item.hash ^ 4), ItemOddity.HASH),
    "offset-up": (lambda item: replace(item, offset=item.offset + 1_000_000), ItemOddity.OFFSET),
    "offset-inside": (lambda item: replace(item, offset=item.offset + 1), ItemOddity.OFFSET),
    "offset-down": (lambda item: replace(item, offset=3), ItemOddity.OFFSET),
    "offset-negative": (lambda item: replace(item, offset=-item.offset), ItemOddity.OFFSET),
    "time": (lambda item: replace(item, seconds=item.seconds + 1), ItemOddity.TIME),
    "time-negative": (lambda item: replace(item, seconds=-1), ItemOddity.TIME),
}


@pytest.mark.parametrize("buffered", [4, 10_000])
@pytest.mark.parametrize("place", [0, 1, MIDDLE, -2, -1])
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("tags", [False, True])
def test_one_damaged_item_is_one_oddity(damage: str, place: int, buffered: int, tags: bool) -> None:
    every = keys_of_log(40, tags=tags)
    keys = [key for key in every if not key.is_tag]
    made = model(keys)
    change, oddity = DAMAGES[damage]
    made.items[place] = change(made.items[place])

    found, _ = matched(every, made.items, made.begin, buffered=buffered)

    assert found == [(oddity, place % len(keys) + 1, keys[place].position)]


@pytest.mark.parametrize("place", [0, 1, MIDDLE])
def test_a_key_without_item(place: int) -> None:
    keys = keys_of_log(40)
    made = model(keys[:place] + keys[place + 1 :])

    assert matched(keys, made.items, made.begin) == ([(ItemOddity.MISSING, place + 1, keys[place].position)], len(keys) - 1)


def test_keys_behind_the_last_item_are_left_to_the_caller() -> None:
    keys = keys_of_log(40)
    made = model(keys[:-5])

    assert matched(keys, made.items, made.begin) == ([], len(keys) - 5)


def test_an_item_that_belongs_to_no_key() -> None:
    keys = keys_of_log(40)
    made = model([*keys[:MIDDLE], Key(77, keys[MIDDLE].position - 50, START), *keys[MIDDLE:]])

    assert matched(keys, made.items, made.begin) == ([(ItemOddity.BOGUS, MIDDLE + 1, keys[MIDDLE].position)], len(keys))


def test_the_last_message_indexed_twice() -> None:
    keys = keys_of_log(40)
    last = [key for key in keys if key.position == keys[MIDDLE].position]
    behind = keys.index(last[-1]) + 1
    made = model([*keys[:behind], *last, *keys[behind:]])

    found, count = matched(keys, made.items, made.begin)

    assert [oddity for oddity, _, _ in found] == [ItemOddity.DUPLICATE] * len(last)
    assert count == len(keys)


@pytest.mark.parametrize("behind", [0, MIDDLE])
def test_an_item_for_a_key_that_the_record_lost(behind: int) -> None:
    keys = keys_of_log(40, seed=3)
    position = next(key.position for key in keys[behind:] if sum(other.position == key.position for other in keys) > 1)
    lost = [number for number, key in enumerate(keys) if key.position == position][-1]
    made = model(keys)

    found, count = matched(keys[:lost] + keys[lost + 1 :], made.items, made.begin)

    assert [(oddity, number) for oddity, number, _ in found] == [(ItemOddity.BOGUS, lost + 1)]
    assert count == len(keys) - 1


@pytest.mark.parametrize("room", [1, 3])
def test_oddities_that_do_not_fit_are_fetched_in_parts(room: int) -> None:
    keys = keys_of_log(40)
    made = model(keys)
    items = [replace(item, seconds=-1) for item in made.items]

    assert len(matched(keys, items, made.begin, room=room)[0]) == len(keys)


def test_time_differences_are_cut_to_what_an_item_holds() -> None:
    late = Key(5, 2000, START + 2**31 * 1000 + 5000)
    early = Key(6, 3000, START - 5000)
    made = model([Key(4, 1000, START), late, early])
    assert [item.seconds for item in made.items] == [0, 2**31 - 1, 0]

    assert matched([Key(4, 1000, START), late, early], made.items, made.begin)[0] == []
