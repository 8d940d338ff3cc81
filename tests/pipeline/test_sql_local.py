"""SQL in this process: what is read for a statement never changes its answer, and mistakes are two sentences."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from rmqstore.errors import UsageError
from rmqstore.pipeline import sql
from rmqstore.pipeline.job import StoreAt
from rmqstore.pipeline.sqlresult import readable
from rmqstore.pipeline.tables.registry import TABLE_NAMES, find_table
from rmqstore.pipeline.tables.table import everything, schema
from rmqstore.reading.progress import silent
from tests.pipeline.reading import Row, at_sample
from tests.support.stores import case, fresh_store, sample_store

SAMPLE = "broker-5.5.1-crash"


@pytest.fixture(scope="module")
def at() -> StoreAt:
    return at_sample(case(SAMPLE), sample_store(SAMPLE))


@pytest.fixture(scope="module")
def whole(at: StoreAt) -> duckdb.DuckDBPyConnection:
    """All rows of all tables, in memory."""
    connection = duckdb.connect(":memory:")
    connection.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
    for name in TABLE_NAMES:
        table = find_table(name)
        wanted = everything(table)
        batches = [batch for part in table.parts(at, wanted) for batch in table.read(part, wanted, silent)]
        connection.register(name, pa.Table.from_batches(batches, schema(table)))
    return connection


def expected(whole: duckdb.DuckDBPyConnection, statement: str) -> list[Row]:
    answer = whole.sql(statement).to_arrow_table()
    return [row for batch in answer.to_batches() for row in readable(answer.schema)(batch)]


def answer(at: StoreAt, statement: str) -> list[Row]:
    return list(sql.query(at, statement, 2).rows)


@pytest.mark.parametrize(
    "statement",
    [
        "select * from messages where physical_offset > 5000 and physical_offset <= 9000",
        "select position from messages where topic = 'TopicTest' or queue_id = 1",
        "select count(*) n from messages where not (queue_id = 1)",
        "select count(*) n from messages where (queue_id = 1) is null",
        "select count(*) n from messages where (queue_id = 1) = (topic = 'TopicTest')",
        "select count(*) n from messages where topic = '(queue_id = 1) and queue_id = 2'",
        "select count(*) n from messages where queue_id = '1' and queue_id + 1 = 2",
        "select count(*) n from messages where queue_id in (0, 1, 2, 3, 5, 7, 9, 11, 13)",
        "select a.position from messages a join messages b on a.position = b.position where a.queue_id = 0 and b.queue_id = 0 order by 1",
        "select position from messages where queue_id = 0 union all select position from messages where queue_id = 1",
        "select count(*) n from messages where position in (select physical_offset from consumequeue where queue_id = 0)",
        "select count(*) n from messages m where exists (select * from index i where i.physical_offset = m.position)",
        "with a as (select * from consumequeue where queue_offset < 3) select topic, count(*) n from a group by all order by all",
        "select tags, max(body) b from messages where store_timestamp > 0 group by tags order by tags",
        "select topic, queue_id, row_number() over (partition by topic order by position) n from messages order by position limit 7",
        "select cast(count(*) as bigint) n from messages natural join consumequeue",
        "select cast(sum(size) as bigint) s from messages where queue_id between 1 and 2 and topic >= 'A'",
        "select position from messages where queue_id = 1 order by store_timestamp desc, position limit 5",
    ],
)
def test_answers_are_those_of_the_whole_tables(at: StoreAt, whole: duckdb.DuckDBPyConnection, statement: str) -> None:
    assert answer(at, statement) == expected(whole, statement)


def test_conditions_drop_no_row(at: StoreAt, whole: duckdb.DuckDBPyConnection) -> None:
    draw = random.Random(22)
    numbers: dict[str, list[Any]] = {
        name: sorted({row[name] for row in expected(whole, f"select {name} from messages")})
        for name in ("position", "queue_id", "queue_offset", "size", "topic", "store_timestamp")
    }

    def literal(name: str) -> str:
        value = draw.choice(numbers[name])
        return f"'{value}'" if isinstance(value, str) else str(value + draw.choice((-1, 0, 0, 1)))

    def term() -> str:
        name = draw.choice(list(numbers))
        kind = draw.randrange(4)
        if kind == 0:
            return f"{name} in ({', '.join(literal(name) for _ in range(draw.randint(1, 4)))})"
        if kind == 1:
            return f"{name} between {literal(name)} and {literal(name)}"
        return f"{draw.choice(('', 'not '))}{name} {draw.choice(('=', '<', '<=', '>', '>=', '<>'))} {literal(name)}"

    some = 0
    for _ in range(40):
        joined = f" {draw.choice(('and', 'and', 'or'))} ".join(term() for _ in range(draw.randint(1, 3)))
        statement = f"select position, queue_id from messages where {joined}"
        rows = answer(at, statement)
        assert rows == expected(whole, statement), statement
        some += bool(rows)
    assert some > 10


def test_only_what_a_statement_needs_is_read(at: StoreAt) -> None:
    def read(text: str) -> list[str]:
        (row,) = answer(at, f"explain {text}")
        return [line for line in row["plan"].splitlines() if ": reads " in line]

    everything = ", ".join(column.name for column in find_table("timer").columns)
    assert read("select topic from messages where tags = 'a'") == ["messages: reads topic, tags"]
    assert read("select count(*) from messages") == ["messages: reads physical_offset"]
    assert read("select * from timer") == [f"timer: reads {everything}"]
    assert read("select 1 from messages where tags = 'a' union all select size from consumequeue") == [
        "messages: reads tags",
        "consumequeue: reads size",
    ]
    (line,) = read("select tags from messages where queue_id = 1 and topic in ('a', 'b') and position >= 4096")
    assert line.startswith("messages: reads queue_id, topic, tags, position; ")
    assert all(text in line for text in ("position from 4096", "queue_id one of [1]", "topic one of ['a', 'b']"))
    (line,) = read("select a.tags from messages a join messages b on a.keys = b.keys where a.queue_id = 1")
    assert ";" not in line


@pytest.mark.parametrize(
    ("statement", "message", "hint"),
    [
        ("selec 1", 'Syntax error at or near "selec".', "describe TABLE"),
        ("", "The statement is empty.", "describe TABLE"),
        ("select 1; select 2", "There is more than one statement.", "one at a time"),
        ("select topi from messages", 'Referenced column "topi" not found', 'Candidate bindings: "topic"'),
        ("select * from mesages", "Table with name mesages does not exist.", "Tables are messages, consumequeue, index, timer, findings"),
        (
            "select percentile_approx(size, 0.5) from messages",
            "percentile_approx does not exist",
            "--engine spark understands that of Spark",
        ),
        ("select 1 from messages left anti join index using (physical_offset)", "Syntax error", "--engine spark understands that of Spark"),
        ("select cast(topic as int) from messages", "Could not convert string", "describe TABLE"),
        ("describe nothing", "There is no table 'nothing'.", "Tables are"),
    ],
)
def test_mistakes(at: StoreAt, statement: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as error:
        answer(at, statement)

    assert message in error.value.message and hint in error.value.hint
    assert "\n" not in error.value.message + error.value.hint


@pytest.mark.parametrize(
    "statement",
    [
        "copy (select 1) to '{target}'",
        "create table t as select 1",
        "attach '{target}'",
        "export database '{target}'",
        "install httpfs",
        "set enable_external_access = true",
        "call force_checkpoint()",
        "pragma version",
        "explain analyze copy (select 1) to '{target}'",
        "select * from read_text('{target}')",
        "select * from '{target}'",
        "select * from glob('{target}')",
        "select * from statement",
    ],
)
def test_a_statement_reads_the_tables_and_nothing_else(at: StoreAt, statement: str, tmp_path: Path) -> None:
    target = tmp_path / "there" / "file.csv"
    target.parent.mkdir()

    with pytest.raises(UsageError):
        answer(at, statement.format(target=target))

    assert not list(target.parent.iterdir())


def test_a_store_that_becomes_unreadable_ends_with_its_own_error(tmp_path: Path) -> None:
    root = fresh_store("5.3.3-plain", tmp_path)
    index = next((root / "index").iterdir())
    index.write_bytes(index.read_bytes()[:100])
    at = at_sample(case("5.3.3-plain"), root)

    with pytest.raises(UsageError) as error:
        answer(at, "select m.topic from messages m join index i on i.physical_offset = m.position")

    assert str(index.name) in error.value.message + error.value.hint
