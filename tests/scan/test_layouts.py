"""A block of properties gives the same whether its layout was seen before or not."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqstore.scan.columns import Check
from rmqstore.scan.kernels.layout import LAYOUT_DTYPE
from tests.scan.samples import encoded
from tests.scan.test_walk_is_the_specification import expect_same
from tests.scan.walking import walked

LONG = (
    b"MSG_REGION\x01DefaultRegion\x02UNIQ_KEY\x01AC11000100002A9F0000000000000001\x02CLUSTER\x01DefaultCluster\x02"
    b"TAGS\x01TagA\x02KEYS\x01k1 k2\x02"
)
BLOCKS = {
    "usual": LONG,
    "without the last separator": LONG[:-1],
    "of 64 bytes": LONG[-64:],
    "of 512 bytes": LONG + b"X\x01" + b"v" * (509 - len(LONG)) + b"\x02",
    "too long": LONG + b"X\x01" + b"v" * 512 + b"\x02",
    "too short": LONG[-63:],
    "scheduled": LONG + b"DELAY\x013\x02",
    "twice the same name": LONG + b"TAGS\x01TagB\x02",
    "a name without value": LONG + b"TAGS\x02",
    "an empty value": LONG + b"TAGS\x01\x02",
    "dispatched to several queues": LONG + b"INNER_MULTI_DISPATCH\x01a,b\x02",
    "a batch": LONG + b"INNER_NUM\x0117\x02",
    "with its own CRC": LONG + b"__CRC32#\x010123456789\x02",
}


def log(blocks: list[bytes]) -> bytes:
    """One record per block; the property CRC of a copy is wrong, which both sides have to say."""
    data = b""
    for block in blocks:
        data += encoded(properties=block, physical_offset=len(data))
    return data


@pytest.mark.parametrize("block", BLOCKS.values(), ids=list(BLOCKS))
def test_the_same_block_again_and_again(block: bytes) -> None:
    assert len(expect_same(log([block] * 5)).records) == 5


@pytest.mark.parametrize("block", BLOCKS.values(), ids=list(BLOCKS))
@pytest.mark.parametrize("byte", [0, 1, 2, ord("S"), 0xC3])
def test_one_byte_differs(block: bytes, byte: int) -> None:
    changed = [block[:i] + bytes([byte]) + block[i + 1 :] for i in range(len(block))]
    for part in range(0, len(changed), 20):
        expect_same(log([block, *changed[part : part + 20], block]))


def test_values_move_while_the_length_stays() -> None:
    blocks = [LONG + b"TAGS\x01" + b"a" * i + b"\x02KEYS\x01" + b"b" * (20 - i) + b"\x02" for i in range(21)]
    expect_same(log([block for block in blocks for _ in range(2)]))
    # More of them in a row than a layout waits before it is learned anew.
    expect_same(log([blocks[3]] * 20 + [blocks[4]] * 20 + [blocks[3]] * 20))


@given(st.lists(st.tuples(st.sampled_from(sorted(BLOCKS)), st.integers(0, 200), st.binary(max_size=2)), min_size=1, max_size=40))
@settings(max_examples=100, deadline=None)
def test_any_sequence(changes: list[tuple[str, int, bytes]]) -> None:
    blocks = [BLOCKS[name][:place] + data + BLOCKS[name][place + len(data) :] for name, place, data in changes]
    expect_same(log(blocks))


def test_random_bytes_behind_a_layout_that_was_learned() -> None:
    draw = random.Random(5)
    noise = [bytes(draw.choices(b"\x00\x01\x02TAGSKEY", k=len(LONG))) for _ in range(200)]
    for part in range(0, 200, 20):
        expect_same(log([LONG, *noise[part : part + 20]]))


def test_a_layout_is_learned_from_the_first_block_and_kept() -> None:
    """Without it the tests above would compare the parser with itself."""
    names = walked(log([LONG, LONG]), checks=Check(0)).names
    learned = names.layouts[names.layouts["length"] != 0]

    assert learned["length"].tolist() == [len(LONG)]
    assert learned["misses"].tolist() == [1]
    assert learned.dtype == LAYOUT_DTYPE
    assert bytes(learned["pattern"][0][:12]) == b"MSG_REGION\x01\x02"
