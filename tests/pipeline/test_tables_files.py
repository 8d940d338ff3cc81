"""The tables of queue units, index items, timer units and findings have the rows of `rmqstore dump` and `verify`, value by value."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqstore.errors import RmqstoreError, UsageError
from rmqstore.pipeline.job import StoreAt
from rmqstore.pipeline.tables import fileparts
from rmqstore.pipeline.tables.fileparts import files_parts
from rmqstore.pipeline.tables.registry import TABLE_NAMES, find_table
from rmqstore.pipeline.tables.selection import Condition, Selection
from rmqstore.pipeline.tables.table import TYPES, everything, schema
from rmqstore.reading.progress import silent
from tests.pipeline.reading import Row, at_sample, rows_of
from tests.support.builder import StoreBuilder
from tests.support.cli import rmqstore
from tests.support.damages import DAMAGES, apply
from tests.support.stores import Case, case, cases, fresh_store, sample_store
from tests.support.storeview import StoreView

BASE = "5.3.3-plain-crash"
IN_FILES = {
    "consumequeue": ("consumequeue", ("unit", "pre_blank")),
    "index": ("index", ("index_item",)),
    "timer": ("timerlog", ("timer_unit",)),
}
NAMES = [one.name for one in cases()]


def agree(table: str, sample: Case, root: Path) -> list[Row]:
    """The rows of a table, which must be those of `dump`; or both end with the same words."""
    part, kinds = IN_FILES[table]
    run = rmqstore("dump", root, "--format", "json", "--part", part, *sample.set_options(root))
    if run.status:
        with pytest.raises(RmqstoreError) as error:
            rows_of(table, at_sample(sample, root))
        assert error.value.message in run.err
        return []
    rows = rows_of(table, at_sample(sample, root))
    names = [column.name for column in find_table(table).columns]
    assert rows == [{name: value[name] for name in names} for value in run.objects if value["type"] in kinds]
    return rows


@pytest.mark.parametrize("table", IN_FILES)
@pytest.mark.parametrize("name", NAMES)
def test_every_sample_store_has_the_rows_of_dump(name: str, table: str) -> None:
    agree(table, case(name), sample_store(name))


def test_the_sample_stores_have_rows_of_every_table() -> None:
    assert all(any(agree(table, case(name), sample_store(name)) for name in ("broker-5.5.1-crash", "5.3.3-plain")) for table in IN_FILES)


@cache
def base_view() -> StoreView:
    root = sample_store(BASE)
    return StoreView(root, case(BASE).settings(root))


def damages_of(directory: str) -> list[str]:
    return [name for name, plan in DAMAGES.items() if any(one.path.startswith(directory) for one in plan(base_view()))]


@pytest.mark.parametrize(
    ("table", "damage"), [(table, damage) for table in ("consumequeue", "index") for damage in damages_of(IN_FILES[table][0] + "/")]
)
def test_damaged_files_have_the_rows_of_dump(table: str, damage: str, tmp_path: Path) -> None:
    root = fresh_store(BASE, tmp_path)
    apply(DAMAGES[damage](base_view()), root)

    agree(table, case(BASE), root)


@pytest.mark.parametrize("damage", ["none", "body-flip-mid", "totalsize-huge"])
def test_findings_are_those_of_verify(damage: str, tmp_path: Path) -> None:
    sample, root = case(BASE), fresh_store(BASE, tmp_path)
    apply(DAMAGES[damage](base_view()), root)
    printed = [one for one in rmqstore("verify", root, "--format", "json", *sample.set_options(root)).objects if one["type"] == "finding"]

    rows = rows_of("findings", at_sample(sample, root))

    assert printed
    assert [{**row, "type": "finding", "schema": 1} for row in rows] == [
        one | {name: as_text(one[name]) for name in ("expected", "found")} for one in printed
    ]


def as_text(evidence: Any) -> str | None:
    return evidence if evidence is None or isinstance(evidence, str) else json.dumps(evidence, ensure_ascii=False)


@pytest.mark.parametrize("table", TABLE_NAMES)
def test_conditions_choose_rows_and_columns_are_chosen_alone(table: str) -> None:
    name = "broker-5.5.1-crash"
    at = at_sample(case(name), sample_store(name))
    rows = rows_of(table, at)

    for column in find_table(table).selectable:
        wanted = rows[len(rows) // 2][column] if rows else None
        for condition in conditions_around(wanted):
            found = rows_of(table, at, Selection((column,), {column: condition}))
            assert found == [{column: row[column]} for row in rows if condition.met_by(row[column])], (column, condition)


def conditions_around(wanted: Any) -> list[Condition]:
    if isinstance(wanted, int):
        return [Condition(wanted, wanted), Condition(low=wanted + 1), Condition(high=wanted), Condition(among=frozenset({wanted, -7}))]
    return [Condition(among=frozenset({wanted, "nobody"}))]


def test_queues_that_are_not_wanted_are_no_parts(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path, queue_file_size=200)
    for number in range(60):
        builder.message(f"Topic{number % 2}", queue_id=number % 4)
    at = StoreAt.of(builder.build())

    def files(**conditions: Condition) -> list[str]:
        parts = find_table("consumequeue").parts(at, Selection(("size",), conditions))
        return [one.name for part in parts for one in part.files]  # type: ignore[attr-defined]

    assert files(topic=Condition(among=frozenset({"Topic1"})), queue_id=Condition(3)) == [
        f"consumequeue/Topic1/3/{200 * number:020d}" for number in range(2)
    ]
    assert files(topic=Condition(among=frozenset({"Topic0"})), queue_id=Condition(2, 2), queue_offset=Condition(low=12)) == [
        "consumequeue/Topic0/2/00000000000000000200"
    ]


def test_small_files_share_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "5.3.3-plain"
    at, table = at_sample(case(name), sample_store(name)), find_table("consumequeue")
    (part,) = table.parts(at, everything(table))
    monkeypatch.setattr(fileparts, "MOST_FILES", 2)

    parts = files_parts(at, part.files, 1 << 30)  # type: ignore[attr-defined]

    assert [len(one.files) for one in parts] == [2] * (len(part.files) // 2) + [1] * (len(part.files) % 2)  # type: ignore[attr-defined]
    assert [one.number for one in parts] == list(range(len(parts)))
    assert sum((list(one.files) for one in parts), []) == list(part.files)  # type: ignore[attr-defined]  # noqa: RUF017


@pytest.mark.parametrize("table", ["messages", *IN_FILES])
def test_large_parts_are_cut_and_nothing_is_lost(table: str) -> None:
    name = "broker-5.5.1-crash"
    at, chosen = at_sample(case(name), sample_store(name)), everything(find_table(table))
    parts = find_table(table).parts(at, chosen, 3000)

    batches = [batch for part in parts for batch in find_table(table).read(part, chosen, silent)]

    assert [row for batch in batches for row in batch.to_pylist(maps_as_pydicts="strict")] == rows_of(table, at)
    assert [part.number for part in parts] == list(range(len(parts)))
    assert len(parts) > len(find_table(table).parts(at, chosen)) or table == "timer"


def test_holes_are_not_read(tmp_path: Path) -> None:
    file = tmp_path / "consumequeue" / "TopicA" / "0" / "00000000000000000000"
    StoreBuilder(tmp_path).message("TopicA").build()
    with file.open("r+b") as stream:
        stream.truncate(1 << 40)
        stream.seek(1 << 39)
        stream.write(b"\1" * 40)
    table, told = find_table("consumequeue"), []

    (part,) = table.parts(StoreAt.of(tmp_path), everything(table))
    batches = list(table.read(part, everything(table), told.append))

    assert sum(batch.num_rows for batch in batches) >= 3
    assert sum(told) < 1 << 20


def test_a_name_that_is_no_text_is_escaped(tmp_path: Path) -> None:
    StoreBuilder(tmp_path).message("TopicA").build()
    (tmp_path / "consumequeue" / "TopicA").rename(tmp_path / "consumequeue" / b"Topic\xff".decode("utf-8", "surrogateescape"))

    (row,) = rows_of("consumequeue", StoreAt.of(tmp_path))

    assert row["topic"] == "Topic\\udcff"


@pytest.mark.parametrize("ask", [lambda: find_table("nothing"), lambda: schema(find_table("index"), ["item", "nothing"])])
def test_what_does_not_exist_is_told_with_what_does(ask: Callable[[], Any]) -> None:
    with pytest.raises(UsageError, match="nothing") as error:
        ask()
    assert "index" in error.value.hint or "key_hash" in error.value.hint


@pytest.mark.parametrize("table", TABLE_NAMES)
def test_every_column_is_documented(table: str) -> None:
    columns = find_table(table).columns
    assert len({column.name for column in columns}) == len(columns)
    assert all(column.meaning and column.type in TYPES for column in columns)
    assert set(find_table(table).selectable) <= {column.name for column in columns}


NUMBERS = st.integers(-5, 5)
SOME = st.builds(Condition, st.none() | NUMBERS, st.none() | NUMBERS, st.none() | st.frozensets(NUMBERS))


@given(SOME, SOME, st.lists(NUMBERS, min_size=1))
def test_conditions(one: Condition, other: Condition, values: list[int]) -> None:
    both = one.both(other)
    met = [value for value in values if both.met_by(value)]

    assert met == [value for value in values if one.met_by(value) and other.met_by(value)]
    assert [value for value, mark in zip(values, both.mask(np.array(values)), strict=True) if mark] == met
    assert not met or both.may_be_met(min(values), max(values))
    assert both.may_be_met(values[0], values[0]) == both.met_by(values[0])
    assert not both.met_by(None)
    selection: Mapping[str, Condition] = {"n": both}
    bounds = Selection(("n",), selection)
    assert all(
        (low is None or low <= value) and (high is None or value <= high)
        for value in met
        for low, high in [(bounds.first("n"), bounds.last("n"))]
    )
