"""Claims of records against queue units, against a plain reading of both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqstore.formats.consumequeue import UNIT, UNIT_SIZE, ZERO_UNIT
from rmqstore.formats.consumequeue_ext import encode_address, is_address
from rmqstore.scan.columns import RECORD_DTYPE
from rmqstore.scan.kernels.queue import (
    COUNTS_DTYPE,
    DONE,
    EVENT_DTYPE,
    EXT_DTYPE,
    FULL,
    NEED_UNITS,
    QUEUE_DTYPE,
    RUN_DTYPE,
    Claim,
    Order,
    claim_units,
)

PREPARED, COMMIT, ROLLBACK = 4, 8, 12


@dataclass(frozen=True)
class Sent:
    """A record as the queues see it."""

    queue: int
    offset: int
    position: int
    size: int = 100
    tags: int = 5
    sys_flag: int = 0
    count: int = 1


@dataclass(frozen=True)
class Claims:
    runs: list[tuple[int, Claim, int, int, int]]  # queue, outcome, first and end queue offset, position
    events: list[tuple[int, Order, int, int, int]]
    exts: list[tuple[int, int, int]]


def unit(position: int, size: int = 100, tags: int = 5) -> bytes:
    return bytes(UNIT.build({"physical_offset": position, "size": size, "tags_code": tags}))


def rows(sent: list[Sent]) -> npt.NDArray[np.void]:
    records = np.zeros(len(sent), RECORD_DTYPE)
    for row, one in zip(records, sent, strict=True):
        row["queue"], row["queue_offset"], row["position"], row["size"] = one.queue, one.offset, one.position, one.size
        row["tags_code"], row["sys_flag"], row["batch_size"] = one.tags, one.sys_flag, one.count
    return records


def counts_of(room: int) -> npt.NDArray[np.void]:
    counts = np.zeros(1, COUNTS_DTYPE)
    for name in ("most_runs", "most_events", "most_exts"):
        counts[name] = room
    return counts


def addresses(*arrays: npt.NDArray[np.void]) -> list[int]:
    return [array.ctypes.data for array in arrays]


def claimed(sent: list[Sent], queues: list[bytes], *, buffered: int = 4, room: int = 4, ordered: bool = True) -> Claims:
    """What the kernel says, with buffers of `buffered` units and outputs of `room` rows that must be emptied on the way."""
    records = rows(sent)
    table = np.zeros(len(queues), QUEUE_DTYPE)
    table["checked"] = 1
    runs, events, exts = np.zeros(room, RUN_DTYPE), np.zeros(room, EVENT_DTYPE), np.zeros(room, EXT_DTYPE)
    counts = counts_of(room)
    kept: dict[int, npt.NDArray[np.uint8]] = {}
    found: tuple[list[npt.NDArray[np.void]], ...] = ([], [], [])
    row = 0
    while True:
        row, state = claim_units(*addresses(records), row, len(records), int(ordered), *addresses(table, runs, events, exts, counts))
        for name, part, taken in zip(("runs", "events", "exts"), (runs, events, exts), found, strict=True):
            taken.append(part[: counts[name][0]].copy())
            counts[name] = 0
        if state == NEED_UNITS:
            which, offset = int(records["queue"][row]), int(records["queue_offset"][row])
            first = offset // buffered * buffered
            data = queues[which][first * UNIT_SIZE : (first + buffered) * UNIT_SIZE]
            kept[which] = np.frombuffer(data + b"\0", np.uint8)
            inside = 0 <= offset - first < len(data) // UNIT_SIZE
            table[which]["address"] = kept[which].ctypes.data if inside else 0
            table[which]["first"], table[which]["count"] = (first, len(data) // UNIT_SIZE) if inside else (offset, 1)
        elif state == DONE:
            break
        else:
            assert state == FULL
    opened = table["run"][table["run"]["start"] < table["run"]["end"]]
    every = np.concatenate([*found[0], opened])
    return Claims(
        sorted((int(r["queue"]), Claim(int(r["claim"])), int(r["start"]), int(r["end"]), int(r["position"])) for r in every),
        [
            (int(e["queue"]), Order(int(e["order"])), int(e["expected"]), int(e["found"]), int(e["position"]))
            for part in found[1]
            for e in part
        ],
        [(int(e["queue"]), int(e["address"]), int(e["queue_offset"])) for part in found[2] for e in part],
    )


def outcome(one: Sent, queue: bytes) -> Claim:
    data = queue[one.offset * UNIT_SIZE : (one.offset + 1) * UNIT_SIZE] if one.offset >= 0 else b""
    if len(data) < UNIT_SIZE:
        return Claim.ABSENT
    found = UNIT.parse(data)
    if (found.physical_offset, found.size, found.tags_code) == (one.position, one.size, one.tags):
        return Claim.MATCH
    if data == ZERO_UNIT:
        return Claim.ZERO
    if found.physical_offset != one.position:
        return Claim.OTHER
    if found.size != one.size:
        return Claim.SIZE
    return Claim.MATCH if is_address(found.tags_code) else Claim.TAGS


def reference(sent: list[Sent], queues: list[bytes]) -> Claims:
    """The same, record by record."""
    runs: list[tuple[int, Claim, int, int, int]] = []
    events, exts = [], []
    last: dict[int, int] = {}
    expected: dict[int, int] = {}
    for one in sent:
        if one.sys_flag & 12 in (PREPARED, ROLLBACK):
            continue
        claim = outcome(one, queues[one.queue])
        if claim is Claim.MATCH:
            tags = UNIT.parse(queues[one.queue][one.offset * UNIT_SIZE :]).tags_code
            if tags != one.tags:
                exts.append((one.queue, tags, one.offset))
        wanted = expected.get(one.queue, one.offset)
        if one.offset != wanted:
            order = Order.GAP if one.offset > wanted else Order.RESTART if one.offset == 0 else Order.REPEAT
            events.append((one.queue, order, wanted, one.offset, one.position))
        expected[one.queue] = one.offset + one.count
        number = last.get(one.queue)
        if number is not None and runs[number][1] is claim and runs[number][3] == one.offset:
            runs[number] = (*runs[number][:3], one.offset + 1, runs[number][4])
        else:
            last[one.queue] = len(runs)
            runs.append((one.queue, claim, one.offset, one.offset + 1, one.position))
    return Claims(sorted(runs), events, exts)


@st.composite
def logs_and_queues(draw: st.DrawFn) -> tuple[list[Sent], list[bytes]]:
    """Records of three queues with their units, both with damages."""
    sent: list[Sent] = []
    following = [0, 0, draw(st.integers(0, 9))]
    units: list[dict[int, bytes]] = [{}, {}, {}]
    for number in range(draw(st.integers(0, 40))):
        queue = draw(st.integers(0, 2))
        jump = draw(st.sampled_from([0] * 12 + [1, 3, -1, -following[queue]]))
        offset = max(following[queue] + jump, 0)
        flag = draw(st.sampled_from([0, 0, 0, COMMIT, PREPARED, ROLLBACK]))
        one = Sent(queue, offset, number * 100, sys_flag=flag, count=draw(st.sampled_from([1, 1, 1, 2])))
        sent.append(one)
        if flag in (PREPARED, ROLLBACK):
            continue
        following[queue] = offset + one.count
        fault = draw(st.sampled_from(["none"] * 8 + ["zero", "size", "tags", "ext", "other", "missing"]))
        units[queue][offset] = {
            "zero": ZERO_UNIT,
            "size": unit(one.position, 99),
            "tags": unit(one.position, tags=6),
            "ext": unit(one.position, tags=encode_address(40)),
            "other": unit(one.position + 100),
            "missing": b"",
        }.get(fault, unit(one.position))
    data = []
    for queue in units:
        end = max((offset for offset, content in queue.items() if content), default=-1) + 1
        data.append(b"".join(queue.get(offset) or ZERO_UNIT for offset in range(end)))
    return sent, data


@given(logs_and_queues(), st.integers(1, 8), st.sampled_from([1, 3, 64]))
@settings(max_examples=150, deadline=None)
def test_claims(case: tuple[list[Sent], list[bytes]], buffered: int, room: int) -> None:
    sent, queues = case

    assert claimed(sent, queues, buffered=buffered, room=room) == reference(sent, queues)


def test_a_queue_in_good_health_is_one_run() -> None:
    sent = [Sent(0, number, number * 100) for number in range(50)]

    found = claimed(sent, [b"".join(unit(one.position) for one in sent)])

    assert found == Claims([(0, Claim.MATCH, 0, 50, 0)], [], [])


def test_the_first_record_of_the_log_and_a_unit_of_zeros() -> None:
    assert claimed([Sent(0, 0, 0)], [ZERO_UNIT]).runs == [(0, Claim.ZERO, 0, 1, 0)]


def test_further_queues_of_a_record_are_not_followed() -> None:
    sent = [Sent(0, 0, 0), Sent(0, 5, 100), Sent(0, 1, 200)]

    assert claimed(sent, [b""], ordered=False).events == []
    assert [event[1] for event in claimed(sent, [b""]).events] == [Order.GAP, Order.REPEAT]


def test_unchecked_queues_are_followed_only() -> None:
    table = np.zeros(1, QUEUE_DTYPE)
    runs, events, exts = np.zeros(8, RUN_DTYPE), np.zeros(8, EVENT_DTYPE), np.zeros(8, EXT_DTYPE)
    counts, records = counts_of(8), rows([Sent(0, 0, 0), Sent(0, 9, 100)])

    row, state = claim_units(*addresses(records), 0, 2, 1, *addresses(table, runs, events, exts, counts))

    assert (row, state, counts.tolist()) == (2, DONE, [(0, 1, 0, 8, 8, 8)])
    assert (int(table["records"][0]), int(table["next_offset"][0])) == (2, 10)
