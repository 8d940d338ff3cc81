"""The table of messages has the rows of `rmqstore dump`, value by value, on sound, damaged and odd logs; conditions choose among them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rmqstore.dump.message import MESSAGE_FIELDS, message_object
from rmqstore.formats import record
from rmqstore.formats.delay import DEFAULT_DELAY_LEVELS
from rmqstore.formats.record import decode_record
from rmqstore.pipeline.job import StoreAt
from rmqstore.pipeline.logparts import LogPiece
from rmqstore.pipeline.tables import message_parts
from rmqstore.pipeline.tables.messages import TABLE
from rmqstore.pipeline.tables.selection import Condition, Selection
from tests.dump.test_two_ways import ODD_FIELDS, log_of
from tests.golden.test_ground_truth import PUT_FIELDS, PUTS
from tests.pipeline.reading import Row, at_sample, dumped_messages, rows_of
from tests.support.builder import FIRST_TIMESTAMP, StoreBuilder
from tests.support.damages import DAMAGES, apply
from tests.support.stores import case, cases, fresh_store, sample_store
from tests.support.storeview import StoreView

NAMES = tuple(column.name for column in TABLE.columns)
LOG_DAMAGE_BASE = "5.3.3-plain-crash"


def test_columns_are_named_as_the_fields_of_dump() -> None:
    assert list(NAMES) == [*MESSAGE_FIELDS, "tags_code", "position", "body", "faults"]


@pytest.mark.parametrize("name", [one.name for one in cases()])
def test_every_sample_store_has_the_rows_of_dump(name: str) -> None:
    sample, root = case(name), sample_store(name)

    assert rows_of("messages", at_sample(sample, root)) == dumped_messages(sample, root)


@pytest.mark.parametrize("name", PUTS)
def test_every_put_is_a_row(name: str) -> None:
    sample, root = case(name), sample_store(name)
    truth = [line for line in sample.truth() if line["physicalOffset"] >= sample.min_phy_offset]

    found = rows_of("messages", at_sample(sample, root), Selection(tuple(PUT_FIELDS.values())))

    assert found == [{ours: line[theirs] for theirs, ours in PUT_FIELDS.items()} for line in truth]


@cache
def base_view() -> StoreView:
    root = sample_store(LOG_DAMAGE_BASE)
    return StoreView(root, case(LOG_DAMAGE_BASE).settings(root))


@pytest.mark.parametrize(
    "damage", [name for name, plan in DAMAGES.items() if any(one.path.startswith("commitlog/") for one in plan(base_view()))]
)
def test_a_damaged_log_has_the_rows_of_dump(damage: str, tmp_path: Path) -> None:
    sample, root = case(LOG_DAMAGE_BASE), fresh_store(LOG_DAMAGE_BASE, tmp_path)
    apply(DAMAGES[damage](base_view()), root)

    found, shown = rows_of("messages", at_sample(sample, root)), dumped_messages(sample, root, "--part", "commitlog")

    assert found == shown


def one_file_store(root: Path, data: bytes) -> StoreAt:
    (root / "commitlog").mkdir(exist_ok=True)
    (root / "commitlog" / "00000000000000000000").write_bytes(data)
    return StoreAt.of(root)


@given(st.lists(ODD_FIELDS, min_size=1, max_size=6))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_topic_property_block_and_host(tmp_path: Path, fields: list[dict[str, Any]]) -> None:
    data = log_of(fields)
    found = rows_of("messages", one_file_store(tmp_path, data + bytes(64)))

    expected, position = [], 0
    while position < len(data):
        one = decode_record(data, position)
        expected.append({"faults": None} | message_object(one, position, DEFAULT_DELAY_LEVELS) | {"body": one.body})
        position += one.size
    assert found == [{name: value[name] for name in found[0]} for value in expected]


@pytest.mark.parametrize("column", NAMES)
def test_a_column_alone_is_what_it_is_among_all(column: str) -> None:
    for name in ("5.5.1-ipv6", "5.3.3-schedule", "5.5.1-compressed"):
        at = at_sample(case(name), sample_store(name))
        assert [row[column] for row in rows_of("messages", at)] == [row[column] for row in rows_of("messages", at, Selection((column,)))]


def built(root: Path, *, seconds: int = 1) -> tuple[StoreAt, list[Row]]:
    """200 messages in files of 4 KiB, some seconds between two of them."""
    builder = StoreBuilder(root, log_file_size=4096)
    for number in range(200):
        time = FIRST_TIMESTAMP + number * seconds * 1000
        builder.message(f"Topic{number % 3}", b"x" * 50, queue_id=number % 4, tags="TagA", store_timestamp=time)
    at = StoreAt.of(builder.build())
    return at, rows_of("messages", at)


CONDITIONS = st.one_of(
    st.tuples(
        st.just("topic"), st.sets(st.sampled_from(["Topic0", "Topic2", "nobody"])).map(lambda among: Condition(among=frozenset(among)))
    ),
    st.tuples(st.just("queue_id"), st.builds(Condition, st.none() | st.integers(0, 3), st.none() | st.integers(0, 4))),
    st.tuples(st.just("queue_id"), st.sets(st.integers(0, 5)).map(lambda among: Condition(among=frozenset(among)))),
    st.tuples(
        st.sampled_from(["physical_offset", "position"]),
        st.builds(Condition, st.none() | st.integers(-5, 40_000), st.none() | st.integers(0, 50_000)),
    ),
    st.tuples(
        st.just("store_timestamp"),
        st.integers(0, 199).flatmap(
            lambda a: st.integers(a, 200).map(lambda b: Condition(FIRST_TIMESTAMP + a * 1000, FIRST_TIMESTAMP + b * 1000))
        ),
    ),
)


@given(st.lists(CONDITIONS, max_size=3))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_conditions_choose_the_rows_that_meet_them(tmp_path: Path, conditions: list[tuple[str, Condition]]) -> None:
    at, rows = built(tmp_path)
    joined: dict[str, Condition] = {}
    for name, condition in conditions:
        joined[name] = condition.both(joined.get(name, Condition()))

    found = rows_of("messages", at, Selection(NAMES, joined))

    assert found == [row for row in rows if all(condition.met_by(row[name]) for name, condition in conditions)]


def pieces(at: StoreAt, **conditions: Condition) -> list[LogPiece]:
    return message_parts.wanted_pieces(at, Selection(("topic",), conditions))


def test_files_outside_of_wanted_offsets_are_no_parts(tmp_path: Path) -> None:
    at, rows = built(tmp_path)
    wanted = rows[100]["physical_offset"]

    (piece,) = pieces(at, physical_offset=Condition(wanted, wanted))

    assert (piece.number, piece.start, piece.end) == (0, wanted - wanted % 4096, wanted + 1)
    assert len(pieces(at)) > 5
    assert pieces(at, physical_offset=Condition(low=10**9)) == []


def test_files_outside_of_wanted_times_are_no_parts(tmp_path: Path) -> None:
    at, rows = built(tmp_path, seconds=120)
    row = rows[100]
    tolerance = message_parts.CLOCK_TOLERANCE

    found = pieces(at, store_timestamp=Condition(row["store_timestamp"], row["store_timestamp"]))

    held = [[one["store_timestamp"] for one in rows if piece.start <= one["position"] < piece.end] for piece in found]
    assert 1 <= len(found) < len(pieces(at))
    assert any(row["store_timestamp"] in times for times in held)
    assert all(times[0] - tolerance <= row["store_timestamp"] <= times[-1] + 120_000 + tolerance for times in held)


def test_reading_begins_shortly_in_front_of_wanted_offsets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_parts, "RUN_UP", 700)
    builder = StoreBuilder(tmp_path, log_file_size=1 << 20)
    for number in range(200):
        builder.message("TopicA", b"x" * 50, unique_key=f"U{number}")
    at = StoreAt.of(builder.build())
    rows = rows_of("messages", at)
    wanted = rows[150]["position"]

    (piece,) = pieces(at, position=Condition(low=wanted))

    assert wanted - 1000 < piece.start <= wanted - 700 + record.MIN_RECORD_SIZE_V1 + 100
    assert piece.start in {row["position"] for row in rows}
    assert rows_of("messages", at, Selection(NAMES, {"position": Condition(low=wanted)})) == rows[150:]
