"""Counts stay right when there are more values than memory is given for."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqstore.pipeline.stats import counts as counting
from rmqstore.pipeline.stats.counts import MOST_VALUES, Counts, Rest, Sums, added
from rmqstore.pipeline.stats.kernels_tally import TALLY_DTYPE
from rmqstore.pipeline.stats.tally import Tally

Rows = list[tuple[int, int]]
KEYS = st.one_of(st.integers(-3, 3), st.integers(-(1 << 63), (1 << 63) - 1))
ROWS = st.lists(st.tuples(KEYS, st.integers(1, 1 << 40)), max_size=300)


def tallied(batches: list[Rows], most: int = 1 << 16) -> tuple[Tally, list[int]]:
    """A tally of (key, bytes), and the keys that it called new."""
    tally, news = Tally(most), []
    for batch in batches:
        rows = np.array([(key, 1, size) for key, size in batch], TALLY_DTYPE)
        fresh = np.zeros(len(batch), np.int64)
        count = tally.add(rows, fresh)
        news += [batch[row][0] for row in fresh[:count].tolist()]
    return tally, news


@given(st.lists(ROWS, max_size=4))
def test_a_tally_counts_messages_and_bytes_by_key(batches: list[Rows]) -> None:
    every = [row for batch in batches for row in batch]
    messages, size = Counter(key for key, _ in every), Counter[int]()
    for key, one in every:
        size[key] += one

    tally, news = tallied(batches)

    assert {key: (count, total) for key, count, total in tally.rows().tolist()} == {key: (messages[key], size[key]) for key in messages}
    assert sorted(news) == sorted(messages)
    assert tally.rest == (0, 0, 0)
    weights = tally.rows()["bytes"].tolist()
    assert weights == sorted(weights, reverse=True)


@given(st.lists(ROWS, max_size=4))
def test_a_full_tally_loses_no_message_and_names_every_key_it_has(batches: list[Rows]) -> None:
    every = [row for batch in batches for row in batch]

    tally, news = tallied(batches, most=8)

    rows = tally.rows()
    assert len(rows) <= 8
    assert int(rows["messages"].sum()) + tally.rest[1] == len(every)
    assert int(rows["bytes"].sum()) + tally.rest[2] == sum(size for _, size in every)
    assert set(rows["key"].tolist()) <= set(news)


def test_a_full_tally_keeps_the_heaviest_keys() -> None:
    heavy = [(key, 1_000_000) for key in range(4)]
    light = [(key, 1) for key in range(100, 200)]

    tally, _ = tallied([heavy, light, heavy], most=8)

    kept = {key: size for key, _, size in tally.rows().tolist()}
    assert [kept[key] for key in range(4)] == [2_000_000] * 4


def test_sums_are_cut_to_the_heaviest_values() -> None:
    sums = Sums({"a": (1, 10), "b": (5, 30), "c": (2, 20), "d": (9, 10)})

    sums.cut(2)

    assert sums.rows == {"b": (5, 30), "c": (2, 20)}
    assert sums.rest == (2, 10, 20)


NAMES = st.text(max_size=3) | st.sampled_from(["\udc80", "ä", ""])
SUMS = st.dictionaries(NAMES, st.tuples(st.integers(0, 9), st.integers(0, 99)), max_size=5)


def results(every: list[Counts]) -> Counts:
    """What a runner makes of counts."""
    packets: dict[str, list[bytes]] = {}
    for counts in every:
        for key, data in counts.packets():
            packets.setdefault(key, []).append(data)
    return Counts.of_results((key, added(key, of_key)) for key, of_key in sorted(packets.items()))


@given(st.lists(SUMS, max_size=4), st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=4))
def test_packets_add_up_to_the_counts(parts: list[dict[str, tuple[int, int]]], times: list[tuple[int, int]]) -> None:
    every = []
    messages: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for rows in parts:
        every.append(Counts({"topic": Sums(dict(rows), Rest(1, 2, 3))}))
        every[-1].totals.messages = len(rows)
        messages.update({value: one for value, (one, _) in rows.items()})
        sizes.update({value: one for value, (_, one) in rows.items()})
    for first, last in times:
        every.append(Counts())
        every[-1].totals.saw(min(first, last), max(first, last))

    together = results(every)

    if parts:
        assert together.dimensions["topic"].rows == {
            value: (messages[value], sizes[value]) for value in {v for rows in parts for v in rows}
        }
        assert together.dimensions["topic"].rest == (len(parts), 2 * len(parts), 3 * len(parts))
    assert together.totals.messages == sum(map(len, parts))
    assert together.totals.first_store_timestamp == min((min(pair) for pair in times), default=None)
    assert together.totals.last_store_timestamp == max((max(pair) for pair in times), default=None)


def test_counts_are_exact_when_every_piece_has_other_heavy_values() -> None:
    """Each of 40,000 queues is light in one piece and heavy in the other; the first 10,000 of both together are listed."""
    count = 40_000
    pieces = [
        Counts({"queue": Sums({f"topic/{queue}": (1, queue + 1) for queue in range(count)})}),
        Counts({"queue": Sums({f"topic/{queue}": (2, 2 * (count - queue)) for queue in range(count)})}),
    ]

    sums = results(pieces).dimensions["queue"]

    heaviest = [(f"topic/{queue}", 3, queue + 1 + 2 * (count - queue)) for queue in range(MOST_VALUES)]
    assert sums.heaviest() == heaviest
    assert sums.exact
    rest = [queue + 1 + 2 * (count - queue) for queue in range(MOST_VALUES, count)]
    assert sums.rest == (len(rest), 3 * len(rest), sum(rest))


def test_too_many_values_are_called_approximate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "MOST_OF_SHARE", 10)
    pieces = [Counts({"tag": Sums({f"{piece}-{number}": (1, 1) for number in range(500)})}) for piece in range(3)]

    sums = results(pieces).dimensions["tag"]

    assert not sums.exact
    assert sum(messages for messages, _ in sums.rows.values()) + sums.rest.messages == 1500
