"""Index files, of the commit log and of the tiered store."""

from __future__ import annotations

import pytest

from rmqstore.formats import index, tiered_index


def test_a_header_and_an_item_that_5_4_0_wrote() -> None:
    raw = bytes.fromhex("000001a1fd7bbb46000001a1fd7bd19f00000000000000000000000000020754000000b000000320")
    header = index.HEADER.parse(raw)
    assert (header.begin_timestamp, header.end_timestamp) == (1795254106950, 1795254112671)
    assert (header.begin_phy_offset, header.end_phy_offset) == (0, 132948)
    assert (header.hash_slot_count, header.index_count) == (176, 800)
    assert index.HEADER.build(header) == raw
    item = index.ITEM.parse(bytes.fromhex("5b234c7f00000000000000000000000000000002"))
    assert (item.key_hash, item.phy_offset, item.time_diff, item.prev_index) == (0x5B234C7F, 0, 0, 2)


def test_places_in_the_file() -> None:
    assert index.file_size(index.DEFAULT_HASH_SLOT_NUM, index.DEFAULT_INDEX_NUM) == 420_000_040
    # The sample store has 200 slots and 800 items: 16840 bytes, the first item at 860.
    assert index.file_size(200, 800) == 16_840
    assert index.item_position(1, 200) == 860
    assert index.item_position(index.UNUSED_ITEM, 200) == index.slot_position(200) == 840
    assert index.slot_position(0) == 40


@pytest.mark.parametrize(
    ("properties", "index_tags", "expected"),
    [
        ({}, True, []),
        ({"UNIQ_KEY": "U", "KEYS": "dup  dup k0 ", "TAGS": "A||B"}, False, ["U", "dup", "dup", "k0"]),
        ({"UNIQ_KEY": "U", "KEYS": "a\tb,c", "TAGS": "A||B"}, True, ["U", "a\tb,c", "T#A||B"]),
    ],
)
def test_keys_of_a_record(properties: dict[str, str], index_tags: bool, expected: list[str]) -> None:
    assert index.message_keys(properties, index_tags) == expected


def java_xor_before_plus(value: int) -> int:
    """`0xCCDDEEFF ^ 1880681586 + value`, where Java adds before it applies the xor."""
    return 0xCCDDEEFF ^ (1880681586 + value)


def test_the_magic_numbers_of_the_tiered_index_as_java_computes_them() -> None:
    assert java_xor_before_plus(4) == tiered_index.BEGIN_MAGIC
    assert java_xor_before_plus(8) == tiered_index.END_MAGIC


def test_places_in_the_tiered_file() -> None:
    slots, items = tiered_index.DEFAULT_SLOT_NUM, tiered_index.DEFAULT_ITEM_NUM
    assert tiered_index.GENERATION_5_1.file_size(slots, items) == 680_000_044
    assert tiered_index.GENERATION_5_2.file_size(slots, items) == 680_000_028
    assert tiered_index.slot_position(1) == 36
    assert tiered_index.GENERATION_5_2.item_position(1, 10) == 28 + 80 + 32
    assert (tiered_index.HEADER.sizeof(), tiered_index.SLOT.sizeof(), tiered_index.ITEM.sizeof()) == (28, 8, 32)
    assert (tiered_index.COMPACTED_SLOT.sizeof(), tiered_index.COMPACTED_ITEM.sizeof()) == (8, 28)
