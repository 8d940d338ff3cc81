"""`rmqstore sql` on both engines: answers are those of the tables, only what a query needs is read, and mistakes are two sentences."""

from __future__ import annotations

import base64
import csv
import io
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from rmqstore.errors import RmqstoreError, UsageError
from rmqstore.pipeline import sql as local
from rmqstore.pipeline.job import StoreAt
from rmqstore.pipeline.spark import session as starting
from rmqstore.pipeline.spark import sql
from rmqstore.pipeline.spark.sql import BATCH_ROWS, packed
from rmqstore.pipeline.sqlresult import Result, readable
from rmqstore.pipeline.tables.registry import TABLE_NAMES, find_table
from tests.pipeline.reading import Row, at_sample, rows_of
from tests.support.builder import StoreBuilder
from tests.support.cli import rmqstore
from tests.support.stores import case, fresh_store, sample_store, snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BROKER = "broker-5.5.1-crash"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> StoreAt:
    """60 messages of two topics with three queues each, in files of 4 KiB."""
    builder = StoreBuilder(tmp_path_factory.mktemp("small"), log_file_size=4096)
    for number in range(60):
        builder.message(f"Topic{number % 2}", f"body {number}".encode(), queue_id=number // 2 % 3, tags=f"Tag{number % 5}")
    return StoreAt.of(builder.build())


Ask = Callable[[StoreAt, str], Result]


@pytest.fixture(params=["local", "spark"])
def ask(request: pytest.FixtureRequest) -> Ask:
    """Run a statement on one engine."""
    if request.param == "local":
        return lambda at, text: local.query(at, text, 2)
    session: SparkSession = request.getfixturevalue("session")
    return lambda at, text: sql.query(session, at, text)


def answer(ask: Ask, at: StoreAt, text: str) -> list[Row]:
    return list(ask(at, text).rows)


def on_spark(session: SparkSession, at: StoreAt, text: str) -> list[Row]:
    return list(sql.query(session, at, text).rows)


def test_answers_are_those_of_the_rows(ask: Ask, small: StoreAt) -> None:
    messages, units = rows_of("messages", small), rows_of("consumequeue", small)

    assert answer(ask, small, "select topic, count(*) n from messages group by topic order by topic") == [
        {"topic": topic, "n": count} for topic, count in sorted(Counter(row["topic"] for row in messages).items())
    ]
    assert answer(ask, small, "select count(*) n from messages") == [{"n": len(messages)}]
    assert answer(ask, small, "select position from messages where queue_id = 2 and tags = 'Tag1' order by position desc") == [
        {"position": row["position"]} for row in reversed(messages) if (row["queue_id"], row["tags"]) == (2, "Tag1")
    ]
    joined = """
        with late as (select physical_offset o, tags from messages where physical_offset > (select avg(position) from messages))
        select u.queue_offset, late.tags from consumequeue u join late on u.physical_offset = late.o order by late.o
    """
    late = [row for row in messages if row["physical_offset"] > sum(one["position"] for one in messages) / len(messages)]
    by_offset = {unit["physical_offset"]: unit["queue_offset"] for unit in units}
    assert answer(ask, small, joined) == [{"queue_offset": by_offset[row["position"]], "tags": row["tags"]} for row in late]
    twice = "select count(*) n from messages a cross join messages b where a.queue_id = 1 and b.queue_id = 2 and b.topic = 'Topic1'"
    ones = [row for row in messages if row["queue_id"] == 1]
    twos = [row for row in messages if (row["queue_id"], row["topic"]) == (2, "Topic1")]
    assert answer(ask, small, twice) == [{"n": len(ones) * len(twos)}]
    both = "select topic from messages where position = 0 union all select topic from consumequeue where queue_offset = 0 and queue_id = 0"
    assert sorted(row["topic"] for row in answer(ask, small, both)) == ["Topic0", "Topic0", "Topic1"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("table", TABLE_NAMES)
def test_a_whole_table(ask: Ask, table: str) -> None:
    at = at_sample(case(BROKER), sample_store(BROKER))

    result = ask(at, f"select * from {table}")

    assert result.columns == tuple(column.name for column in find_table(table).columns)
    assert list(result.rows) == [
        row | {name: base64.b64encode(row[name]).decode() for name in row if isinstance(row[name], bytes)} for row in rows_of(table, at)
    ]


def test_only_the_columns_that_a_query_needs_are_read(session: SparkSession, small: StoreAt) -> None:
    def scanned(text: str) -> list[str]:
        (plan,) = on_spark(session, small, f"explain {text}")
        scans = [line.partition("rocketmq[")[2].partition("]")[0] for line in plan["plan"].splitlines() if "rocketmq[" in line]
        return [",".join(name.partition("#")[0].strip() for name in scan.split(",")) for scan in scans]

    everything = ",".join(column.name for column in find_table("timer").columns)
    assert scanned("select topic from messages where queue_id = 1") == ["queue_id,topic"]
    assert scanned("select count(*) from messages") == ["physical_offset"]
    assert scanned("select * from timer") == scanned("select * from timer where delay > 5 order by delay") == [everything]
    assert scanned("select 1 from messages where tags = 'a' union all select size from consumequeue") == ["tags", "size"]
    assert scanned("select code from findings where file in (select file from index where item = 1)") == ["code,file", "item,file"]


def test_an_asterisk_without_rows_has_all_columns(ask: Ask, small: StoreAt) -> None:
    result = ask(small, "select * from index where 1 = 0")

    assert result.columns == tuple(column.name for column in find_table("index").columns)
    assert list(result.rows) == []


def test_names_of_columns(ask: Ask, small: StoreAt) -> None:
    result = ask(small, "select topic, topic, 1.5, 2 `a b` from messages where position = 0")

    assert result.columns == ("topic", "topic_2", "1.5", "a b")
    assert list(result.rows) == [{"topic": "Topic0", "topic_2": "Topic0", "1.5": "1.5", "a b": 2}]


def test_values_that_arrow_has_no_type_for_are_text(session: SparkSession, small: StoreAt) -> None:
    (row,) = on_spark(session, small, "select interval 14 month m, parse_json('{\"a\":[1]}') v, interval 90 minute d")

    assert row["m"] == "INTERVAL '14' MONTH"
    assert row["v"] == '{"a":[1]}'
    assert str(row["d"]) == "1:30:00"


def test_tables_are_described_without_reading_a_store(ask: Ask) -> None:
    nowhere = StoreAt("/nowhere")

    assert answer(ask, nowhere, "describe index") == [
        {"col_name": column.name, "data_type": column.type, "comment": column.meaning} for column in find_table("index").columns
    ]
    tables = answer(ask, nowhere, "show tables")
    assert {row["tableName"] for row in tables} >= set(TABLE_NAMES)
    assert {tuple(row) for row in tables} == {("namespace", "tableName", "isTemporary")}


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("statement", "message", "hint"),
    [
        ("selec 1", "Syntax error at or near 'selec'.", "describe TABLE"),
        ("", "Syntax error, unexpected empty statement.", "describe TABLE"),
        ("select 1; select 2", "Syntax error", "describe TABLE"),
        ("select topi from messages", "with name `topi` cannot be resolved.", "Did you mean one of the following? [`topic`"),
        ("select * from mesages", "`mesages` cannot be found.", "Tables are messages, consumequeue, index, timer, findings"),
        ("select nothing(topic) from messages", "`nothing`", "describe TABLE"),
        ("select 1 / 0", "Division by zero.", "Use `try_divide`"),
        (
            "select cast(topic as int) from messages where topic = 'Topic0'",
            "The value 'Topic0' of the type \"STRING\" cannot be cast",
            "Use `try_cast`",
        ),
    ],
)
def test_mistakes(session: SparkSession, small: StoreAt, statement: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as error:
        on_spark(session, small, statement)

    assert message in error.value.message and hint in error.value.hint
    assert not any("\n" in text or "SQLSTATE" in text for text in (error.value.message, error.value.hint))


@pytest.mark.parametrize(
    "statement",
    [
        "insert into messages select * from messages",
        "with a as (select 1 x) insert overwrite directory '{target}' using csv select * from a",
        "from messages insert overwrite directory '{target}' using csv select topic",
        "create table t using csv location '{target}' as select 1",
        "create view v as select 1",
        "drop table messages",
        "cache table messages",
        "set spark.sql.ansi.enabled = false",
        "delete from messages",
    ],
)
def test_only_reading_statements_are_possible(session: SparkSession, small: StoreAt, statement: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does more than read"):
        on_spark(session, small, statement.format(target=tmp_path / "target"))

    assert not list(tmp_path.iterdir())


def test_a_store_that_cannot_be_read_is_the_same_error_as_without_sql(ask: Ask, tmp_path: Path) -> None:
    root = fresh_store("5.3.3-plain", tmp_path)
    index = next((root / "index").iterdir())
    index.write_bytes(index.read_bytes()[:100])
    at = at_sample(case("5.3.3-plain"), root)
    with pytest.raises(UsageError) as without:
        rows_of("index", at)

    with pytest.raises(UsageError) as error:
        answer(ask, at, "select count(*) from index")

    assert (error.value.message, error.value.hint) == (without.value.message, without.value.hint)


@pytest.mark.parametrize("engine", [(), ("--engine", "spark", "--master", "local[2,3]")], ids=["local", "spark"])
def test_the_command_in_its_three_formats(engine: tuple[str, ...], session: SparkSession) -> None:
    root = sample_store("5.3.3-plain")
    before = snapshot(root)
    messages = rows_of("messages", StoreAt.of(root))
    expected = [{"topic": topic, "n": n} for topic, n in sorted(Counter(row["topic"] for row in messages).items())]
    statement = "select topic, count(*) n from messages group by topic order by topic"

    runs = {form: rmqstore("sql", root, statement, "--format", form, *engine) for form in ("json", "csv", "table")}

    verdict = f"ANSWERED: {len(expected)} rows\n"
    assert {form: (run.status, run.err) for form, run in runs.items()} == {"json": (0, ""), "csv": (0, verdict), "table": (0, verdict)}
    assert runs["json"].objects == expected
    assert list(csv.DictReader(io.StringIO(runs["csv"].out))) == [{name: str(row[name]) for name in row} for row in expected]
    assert all(row["topic"] in runs["table"].out and str(row["n"]) in runs["table"].out for row in expected)
    assert snapshot(root) == before


def test_the_command_says_what_is_wrong_in_two_lines(session: SparkSession) -> None:
    run = rmqstore("sql", sample_store("5.3.3-plain"), "select nothing from messages", "--master", "local[2,3]")

    assert run.status == 2 and run.out == ""
    first, second = run.err.splitlines()
    assert first.startswith("error: ") and second.startswith("hint: ")


def test_spark_is_not_started_for_what_is_no_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def must_not(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(starting, "begin_session", must_not)

    for path in (tmp_path, tmp_path / "nowhere"):
        run = rmqstore("sql", path, "select * from messages", "--engine", "spark")
        assert run.status == 4 and not run.crashed


def test_rows_travel_in_batches_of_limited_size() -> None:
    count = 2 * BATCH_ROWS + 5
    table = pa.table({"n": range(count)})

    blobs = [one.column(0)[0].as_py() for one in packed(iter(table.to_batches()))]

    batches = [pa.ipc.open_stream(blob).read_all() for blob in blobs]
    assert [batch.num_rows for batch in batches] == [BATCH_ROWS, BATCH_ROWS, 5]
    assert pa.concat_tables(batches).equals(table)


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        (pa.int64(), 1 << 62, 1 << 62),
        (pa.string(), "text", "text"),
        (pa.bool_(), True, True),
        (pa.float64(), 1.5, 1.5),
        (pa.float64(), float("inf"), "inf"),
        (pa.binary(), b"\xff\x00", "/wA="),
        (pa.decimal128(5, 2), Decimal("1.20"), "1.20"),
        (pa.date32(), date(2024, 1, 31), "2024-01-31"),
        (pa.timestamp("us", "UTC"), datetime(2024, 1, 31, tzinfo=UTC), "2024-01-31T00:00:00+00:00"),
        (pa.list_(pa.binary()), [b"a"], ["YQ=="]),
        (pa.map_(pa.string(), pa.string()), {"k": "v"}, {"k": "v"}),
        (pa.map_(pa.int32(), pa.float32()), {1: 0.5}, {"1": 0.5}),
        (pa.struct([("a", pa.date32())]), {"a": date(2024, 1, 31)}, {"a": "2024-01-31"}),
        (pa.int32(), None, None),
        (pa.date32(), None, None),
    ],
)
def test_values_as_json_has_them(kind: pa.DataType, value: Any, shown: Any) -> None:
    stored = list(value.items()) if pa.types.is_map(kind) else value
    batch = pa.RecordBatch.from_arrays([pa.array([stored], kind)], names=["x"])

    assert readable(batch.schema)(batch) == [{"x": shown}]


@pytest.mark.parametrize(
    ("told", "kind", "message"),
    [
        (
            "An error occurred.\n: java.lang.OutOfMemoryError: Java heap space\n\tat x",
            RmqstoreError,
            "This host has not enough memory for its tasks, or a process there was killed.",
        ),
        (
            "x\n: a.b.C: y\n org.apache.spark.SparkArithmeticException: [CODE.SUB] Too large. Use less. SQLSTATE: 1",
            UsageError,
            "Too large.",
        ),
        (
            'x [A.B] Told:\nTraceback\n  File "a.py", line 1, in f\n    f()\n  File "b.py"\npa.lib.KeyError: no\n\n\tat java',
            RmqstoreError,
            "KeyError: no.",
        ),
        ("", RmqstoreError, "RuntimeError."),
    ],
)
def test_what_spark_says_becomes_two_sentences(told: str, kind: Callable[..., RmqstoreError], message: str) -> None:
    error = sql.translated(RuntimeError(told))

    assert type(error) is kind
    assert error.message == message
