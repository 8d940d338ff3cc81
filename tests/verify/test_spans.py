"""Joined spans of several parts of the log, against what each queue shows record by record."""

from __future__ import annotations

import pickle
from collections import defaultdict
from itertools import pairwise
from random import Random

import numpy as np
import pytest

from rmqstore.scan.kernels.queue import EVENT_DTYPE, RUN_DTYPE, Claim, Order
from rmqstore.verify.queues.spans import QueueKey, Spans, joined

Claimed = tuple[int, int, Claim]
"""Physical offset, QUEUEOFFSET and claim of one record."""


def runs_of(records: list[Claimed]) -> list[tuple[int, ...]]:
    """Runs (claim, start, end, position, last position) of records in a row; those of one outcome that continue each other are one."""
    found: list[tuple[int, ...]] = []
    for position, offset, claim in records:
        if found and claim == found[-1][0] and found[-1][2] == offset:
            found[-1] = (claim, found[-1][1], offset + 1, found[-1][3], position)
        else:
            found.append((claim, offset, offset + 1, position, position))
    return found


def events_of(records: list[Claimed]) -> list[tuple[int, ...]]:
    """Events (order, expected, found, position, after) of records in a row."""
    found = []
    for (after, before, _), (position, offset, _) in pairwise(records):
        if offset != before + 1:
            order = Order.RESTART if offset == 0 else Order.GAP if offset > before else Order.REPEAT
            found.append((int(order), before + 1, offset, position, after))
    return found


def spans_of(part: dict[QueueKey, list[Claimed]]) -> Spans:
    """Spans as a scan of one part returns them."""
    spans = Spans.of_keys(part)
    numbers, runs, events = [], [], []
    for row, records in enumerate(part.values()):
        (first_position, first, _), (last_position, last, _) = records[0], records[-1]
        numbers.append((first, first_position, last + 1, last_position, len(records)))
        runs.append(runs_of(records))
        events += [(row, *event) for event in events_of(records)]
    spans.numbers = np.array(numbers, np.int64).reshape(len(part), 5)
    spans.counts = np.array([len(rows) for rows in runs], np.int64)
    spans.runs = np.zeros(sum(map(len, runs)), RUN_DTYPE)
    for row, run in zip(spans.runs, (run for rows in runs for run in rows), strict=True):
        for name, value in zip(("claim", "start", "end", "position", "last_position"), run, strict=True):
            row[name] = value
    spans.events = np.array(events, EVENT_DTYPE)
    return spans


@pytest.mark.parametrize("seed", range(30))
def test_joined_spans_are_those_of_all_records(seed: int) -> None:
    random = Random(seed)
    every: dict[QueueKey, list[Claimed]] = defaultdict(list)
    parts = []
    position = 0
    for number in range(random.randrange(1, 12)):
        part: dict[QueueKey, list[Claimed]] = defaultdict(list)
        for _ in range(random.randrange(60)):
            key = (f"topic{random.randrange(3 + number)}", random.randrange(3))
            before = every[key][-1][1] if every[key] else random.choice((-1, 41))
            offset = random.choice((0, before + 7, max(before - 3, 0))) if random.random() < 0.05 else before + 1
            claim = random.choice(list(Claim)) if random.random() < 0.1 else Claim.MATCH
            record = (position, offset, claim)
            every[key].append(record)
            part[key].append(record)
            position += 100
        parts.append(spans_of(part))
    kept = pickle.dumps(parts)

    found = joined(parts).by_queue()

    assert pickle.dumps(parts) == kept  # the parts may be joined once more
    assert {key for key, records in every.items() if records} == found.keys()
    for key, span in found.items():
        (first_position, first, _), (last_position, last, _) = every[key][0], every[key][-1]
        assert span[:5] == (first, first_position, last + 1, last_position, len(every[key]))
        names = ["claim", "start", "end", "position", "last_position"]
        assert [tuple(row) for row in span.runs[names].tolist()] == runs_of(every[key])
        names = ["order", "expected", "found", "position", "after"]
        assert [tuple(row) for row in span.events[names].tolist()] == events_of(every[key])


def test_spans_of_some_queues() -> None:
    part = {("a", 0): [(0, 5, Claim.MATCH), (100, 9, Claim.ZERO)], ("b", 3): [(200, 0, Claim.MATCH)], ("a", 1): [(300, 1, Claim.SIZE)]}
    spans = spans_of(part)
    some = spans.of_rows(np.array([0, 2]))
    assert some.topics == ["a"]
    assert {key: span[:5] for key, span in some.by_queue().items()} == {
        key: span[:5] for key, span in spans.by_queue().items() if key[0] == "a"
    }
    assert [event["found"] for event in some.by_queue()["a", 0].events] == [9]
    assert some.without_runs().by_queue()["a", 1].runs.size == 0
    assert joined([]).by_queue() == {}


def test_many_parts_after_the_last_new_queue() -> None:
    names = ["a", "b", "c"]
    parts = [{(name, 0): [(100 * number, number, Claim.MATCH)] for name in names[: min(number + 2, 3)]} for number in range(60)]
    found = joined(map(spans_of, parts)).by_queue()
    assert {key: (span.records, span.runs.size) for key, span in found.items()} == {("a", 0): (60, 1), ("b", 0): (60, 1), ("c", 0): (59, 1)}
