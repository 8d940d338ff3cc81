"""Compiled code makes the entries of the index in RocksDB as Python does, and tells apart all that differ."""

from __future__ import annotations

import itertools
import struct

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rmqstore.formats import record
from rmqstore.formats.indexentry import index_pairs
from rmqstore.formats.record import decode_record
from rmqstore.scan import entries
from rmqstore.scan.columns import Fault, Mark, Oddity
from rmqstore.scan.entries import EntryHasher, EntryWriter
from rmqstore.scan.kernels.entries import ENTRY_DTYPE, Reading
from rmqstore.scan.walk import Batch
from rmqstore.store.rocksdb.framing import framed
from tests.scan.samples import V6, encoded
from tests.scan.walking import walked

Pair = tuple[bytes, bytes]
TEXTS = st.sampled_from(
    [b"a", b"bb", b"0A0908", b"x" * 31, b"grau", "grün".encode(), "😀".encode(), b"\xff", b"\xed\xa0\x80", b"a\1b", b"@"]
)
KEYS = st.lists(TEXTS | st.just(b""), max_size=5).map(b" ".join)
TOPICS = st.sampled_from([b"orders", b"T" * 40, "Thema-ü".encode(), b"bad\xff", b""])


@st.composite
def blocks(draw: st.DrawFn) -> bytes:
    """Blocks of properties, of which brokers write the first kind."""
    unique = [b"UNIQ_KEY\1" + draw(TEXTS)] if draw(st.booleans()) else []
    pieces = [*unique, b"KEYS\1" + draw(KEYS), b"TAGS\1" + draw(TEXTS)]
    others = [b"UNIQ_KEY\1", b"UNIQ_KEYS\1a", b"UNIQ\1b", b"KEYS\1", b"KEY\1a", b"KEYSX\1a", b"TAGS", b"", b"\1a", b"A\1KEYS"]
    pieces += draw(st.lists(st.sampled_from(others), max_size=3))
    return b"\2".join(draw(st.permutations(pieces))) + draw(st.sampled_from([b"", b"\2"]))


@st.composite
def records(draw: st.DrawFn) -> bytes:
    hosts = {"born_host": draw(st.sampled_from([V6, None])), "store_host": draw(st.sampled_from([V6, None]))}
    return encoded(
        topic=draw(TOPICS),
        properties=draw(blocks()),
        body=draw(st.binary(max_size=3)),
        sys_flag=draw(st.sampled_from([0, 4, 8, 12])),
        store_timestamp=draw(st.sampled_from([0, 1, 3_600_000, 1_700_000_000_123, -1])),
        **{name: host for name, host in hosts.items() if host is not None},
        **({"magic_code": record.MESSAGE_MAGIC_V2} if draw(st.booleans()) else {}),
    )


def batch_of(data: bytes, origin: int = 0) -> Batch:
    result = walked(data, batch=64, origin=origin)
    assert result.position == len(data)
    return Batch(result.records, result.keys, np.frombuffer(data, np.uint8), origin, Fault(0), Mark(0), Oddity(0))


def topic_of(data: bytes, batch: Batch) -> dict[int, str]:
    return {int(row["topic"]): decode_record(batch.record_bytes(number)).topic for number, row in enumerate(batch.records)}


def parsed(data: bytes) -> list[Pair]:
    """The entries of whole frames."""
    pairs, at = [], 0
    while at < len(data):
        assert data[at : at + 1] == b"P"
        (length,) = struct.unpack_from(">I", data, at + 1)
        key = data[at + 5 : at + 5 + length]
        assert struct.unpack_from(">I", data, at + 5 + length) == (8,)
        pairs.append((key, data[at + 9 + length : at + 17 + length]))
        at += 17 + length
    return pairs


def made(data: bytes, *, least: int = 0) -> list[Pair]:
    batch = batch_of(data)
    names = topic_of(data, batch)
    return parsed(b"".join(frames.tobytes() for frames in EntryWriter().frames(batch, names.__getitem__, least=least)))


def expected(data: bytes, *, least: int = 0) -> list[Pair]:
    batch = batch_of(data)
    pairs: list[Pair] = []
    for number, row in enumerate(batch.records):
        decoded = decode_record(batch.record_bytes(number))
        if int(row["position"]) >= least and int(decoded.sys_flag) & 12 != 12:
            pairs += index_pairs(decoded.topic, decoded.properties, int(row["position"]), int(row["store_timestamp"]))
    return pairs


@given(st.lists(records(), min_size=1, max_size=8))
@example([encoded(properties=b"UNIQ_KEY\1ABC\2KEYS\1a  b a\2TAGS\1t\2")])
def test_any_records(found: list[bytes]) -> None:
    data = b"".join(found)
    assert set(made(data)) == set(expected(data))


def test_messages_before_the_first_wanted_one_are_left_out() -> None:
    one = encoded(properties=b"UNIQ_KEY\1ABC\2KEYS\1a b")
    data = one * 4
    assert sorted(made(data, least=2 * len(one))) == sorted(expected(data, least=2 * len(one)))
    assert {struct.unpack(">q", key[-8:])[0] for key, _ in made(data, least=2 * len(one))} == {2 * len(one), 3 * len(one)}


@pytest.mark.parametrize("room", [*range(110, 130), 1000])
def test_more_entries_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    monkeypatch.setattr(entries, "_ROOM", room)
    block = b"UNIQ_KEY\1" + b"u" * 40 + b"\2KEYS\1" + b" ".join(b"key-%d" % n for n in range(30)) + b"\2TAGS\1tag"
    data = encoded(properties=block) * 3 + encoded(properties=b"UNIQ_KEY\1\xff") + encoded(properties=block)
    assert sorted(made(data)) == sorted(expected(data))


def test_the_bytes_after_the_room_are_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encoded(properties=b"UNIQ_KEY\1" + b"u" * 40 + b"\2KEYS\1" + b" ".join(b"k" * n for n in range(1, 60)) + b"\2TAGS\1tag")
    batch = batch_of(data)
    names = topic_of(data, batch)
    for room in range(180, 400):
        monkeypatch.setattr(entries, "_ROOM", room)
        writer = EntryWriter()
        writer._out = np.full(room + 64, 0xEE, np.uint8)[:room]
        beyond = writer._out.base
        assert isinstance(beyond, np.ndarray)
        assert parsed(b"".join(frames.tobytes() for frames in writer.frames(batch, names.__getitem__)))
        assert (beyond[room:] == 0xEE).all()


ENTRY_KEYS = st.builds(
    lambda hour, text, place: struct.pack(">q", hour) + b"@" + text + struct.pack(">q", place),
    st.integers(0, 3),
    st.binary(max_size=40),
    st.integers(0, 1 << 40),
)


@given(st.lists(st.tuples(ENTRY_KEYS, st.integers(0, 3).map(struct.Struct(">q").pack)), max_size=30))
def test_hashes_are_equal_for_equal_entries_only(pairs: list[Pair]) -> None:
    rows = hashed(framed(pairs))
    assert rows["offset"].tolist() == [struct.unpack(">q", key[-8:])[0] for key, _ in pairs]
    for (one, first), (other, second) in itertools.combinations(zip(pairs, rows["hash"].tolist(), strict=True), 2):
        assert (one == other) == (first == second)


def hashed(data: bytes, hasher: EntryHasher | None = None) -> np.ndarray:
    pieces = list((hasher or EntryHasher()).all_hashed(np.frombuffer(data, np.uint8)))
    return np.concatenate(pieces) if pieces else np.zeros(0, ENTRY_DTYPE)


def test_every_byte_of_an_entry_counts() -> None:
    key, value = struct.pack(">q", 5) + b"@orders@U@" + bytes(range(33)) + struct.pack(">q", 77), struct.pack(">q", 9)
    pairs = [(key, value)]
    for place in set(range(len(key + value))) - {8}:
        changed = bytearray(key + value)
        changed[place] ^= 1
        pairs.append((bytes(changed[: len(key)]), bytes(changed[len(key) :])))
    assert len(set(hashed(framed(pairs))["hash"].tolist())) == len(key + value)


def test_the_seed_is_another_one_each_time() -> None:
    data = framed([(struct.pack(">q", 5) + b"@a@U@b@" + struct.pack(">q", 77), struct.pack(">q", 9))])
    assert hashed(data)["hash"][0] != hashed(data)["hash"][0]


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (framed([(b"lastOffsetPy", bytes(8))]), Reading.UNUSUAL),
        (framed([(bytes(8) + b"@a@" + bytes(8), bytes(7))]), Reading.UNUSUAL),
        (framed([(bytes(20), bytes(8))]), Reading.UNUSUAL),
        (b"F" + bytes(8), Reading.UNUSUAL),
        (b".", Reading.DONE),
        (framed([(bytes(8) + b"@a@" + bytes(8), bytes(8))])[:-1], Reading.DONE),
    ],
)
def test_what_is_no_entry_ends_the_hashing(frame: bytes, reason: Reading) -> None:
    good = framed([(bytes(8) + b"@a@U@b@" + bytes(8), bytes(8))])
    rows, end, why = EntryHasher().hashed(np.frombuffer(good + frame, np.uint8))
    assert (len(rows), end, why) == (1, len(good), reason)


def test_entries_of_smaller_offsets_are_left_out() -> None:
    pairs = [(bytes(8) + b"@a@" + struct.pack(">q", place), bytes(8)) for place in range(10)]
    rows, _, _ = EntryHasher(least=7).hashed(np.frombuffer(framed(pairs), np.uint8))
    assert rows["offset"].tolist() == [7, 8, 9]
