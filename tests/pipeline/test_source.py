"""The data source of Spark: rows of every table as they are without Spark, filters that keep files from being read, options, mistakes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

import rmqstore.spark
from rmqstore.errors import RmqstoreError, UsageError
from rmqstore.pipeline import verify
from rmqstore.pipeline.job import StoreAt
from rmqstore.pipeline.spark import source, sql
from rmqstore.pipeline.spark.columns import Columns
from rmqstore.pipeline.spark.failures import SourceError
from rmqstore.pipeline.spark.find_java import find_java
from rmqstore.pipeline.spark.source import FilteringReader
from rmqstore.pipeline.tables.registry import TABLE_NAMES, find_table
from rmqstore.pipeline.tables.selection import Condition, Selection
from rmqstore.pipeline.tables.table import schema
from rmqstore.pipeline.tables.where import conditions
from tests.golden.test_ground_truth import PUT_FIELDS, PUTS
from tests.pipeline.reading import Row, at_sample, rows_of
from tests.support.builder import StoreBuilder
from tests.support.damages import DAMAGES, apply
from tests.support.stores import case, cases, fresh_store, sample_store
from tests.support.storeview import StoreView
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).resolve().parents[2]
LOG_FILE_SIZE = 4096
PUT_COLUMNS = tuple(PUT_FIELDS.values())


@pytest.fixture
def spark(session: SparkSession) -> SparkSession:
    source.register(session)
    return session


def load(spark: SparkSession, at: StoreAt, table: str = "messages", **options: str) -> DataFrame:
    return spark.read.format("rocketmq").options(table=table, settings=json.dumps(dict(at.settings)), **options).load(at.path)


def rows(frame: DataFrame) -> list[Row]:
    found: list[Row] = frame.toArrow().to_pylist(maps_as_pydicts="strict")
    return found


TIMES = {
    "messages": ("born_timestamp", "store_timestamp"),
    "index": ("store_timestamp",),
    "timer": ("write_time",),
    "checkpoint": ("physic_msg_timestamp", "logics_msg_timestamp", "index_msg_timestamp"),
    "queues": ("first_store_timestamp", "last_store_timestamp"),
}
"""Columns that are timestamps of Spark, and milliseconds in the table."""


def timed(table: str, found: list[Row]) -> list[Row]:
    """Rows of a table with its times as Spark has them."""
    names = TIMES.get(table, ())
    return [row | {name: moment(row[name]) for name in names if name in row} for row in found]


def moment(number: int | None) -> datetime | None:
    try:
        return None if number is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=number)
    except OverflowError:
        return None


@pytest.mark.parametrize("table", TABLE_NAMES)
@pytest.mark.parametrize("name", ["broker-5.5.1-crash", "5.3.3-empty-crash"])
def test_a_table_has_the_rows_that_it_has_without_spark(spark: SparkSession, name: str, table: str) -> None:
    at = at_sample(case(name), sample_store(name))

    frame = load(spark, at, table)

    assert frame.columns == [column.name for column in find_table(table).columns]
    assert rows(frame) == timed(table, rows_of(table, at))


@pytest.mark.exhaustive
def test_every_sample_store_has_exactly_the_messages_of_the_ground_truth(spark: SparkSession) -> None:
    kinds = ", ".join(f"{column.name} {column.type}" for column in find_table("messages").columns if column.name in PUT_COLUMNS)
    for name in PUTS:
        sample, root = case(name), sample_store(name)
        settings = {f"set.{key}": value for key, value in sample.settings(root).items()}

        found = rows(spark.read.format("rocketmq").schema(kinds).options(**settings).load(str(root)))

        truth = [line for line in sample.truth() if line["physicalOffset"] >= sample.min_phy_offset]
        assert found == [
            {ours: line[theirs] for ours in found[0] for theirs in PUT_FIELDS if PUT_FIELDS[theirs] == ours} for line in truth
        ], name
        assert len(found) == len(truth)


def test_the_stores_of_whole_brokers_have_the_rows_that_they_have_without_spark(spark: SparkSession) -> None:
    for name in (one.name for one in cases() if one.is_broker):
        at = at_sample(case(name), sample_store(name))
        assert rows(load(spark, at, columns=",".join(PUT_COLUMNS))) == timed("messages", rows_of("messages", at, Selection(PUT_COLUMNS))), (
            name
        )


@pytest.mark.parametrize("damage", ["totalsize-huge", "property-flip-mid", "field-physicaloffset-mid", "magic-v2"])
def test_a_damaged_store_has_the_rows_that_it_has_without_spark(spark: SparkSession, damage: str, tmp_path: Path) -> None:
    sample, root = case("5.3.3-plain"), fresh_store("5.3.3-plain", tmp_path)
    apply(DAMAGES[damage](StoreView(root, sample.settings(root))), root)
    at = at_sample(sample, root)

    assert rows(load(spark, at)) == timed("messages", rows_of("messages", at))


@pytest.fixture
def many_files(tmp_path: Path) -> tuple[StoreAt, list[Row]]:
    """300 messages of two topics with four queues each, in files of 4 KiB."""
    builder = StoreBuilder(tmp_path / "store", log_file_size=LOG_FILE_SIZE, queue_file_size=200)
    for number in range(300):
        builder.message(f"Topic{number % 2}", b"x" * 50, queue_id=number // 2 % 4)
    at = StoreAt.of(builder.build())
    return at, timed("messages", rows_of("messages", at))


def read_bytes(metrics: Path) -> dict[str, int]:
    """Bytes read of each part, and the measurements gone."""
    lines = [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else []
    metrics.unlink(missing_ok=True)
    return {line["part"]: line["bytes"] for line in lines}


def test_only_the_needed_log_files_are_read(spark: SparkSession, many_files: tuple[StoreAt, list[Row]], tmp_path: Path) -> None:
    at, expected = many_files
    metrics = tmp_path / "metrics"
    wanted = expected[150]

    def chosen(where: str = "true") -> list[Row]:
        return rows(load(spark, at, metrics=str(metrics), pushdown="true").where(where))

    assert chosen() == expected
    all_bytes = read_bytes(metrics)
    assert sum(all_bytes.values()) >= (len(all_bytes) - 1) * LOG_FILE_SIZE > 8 * LOG_FILE_SIZE

    assert chosen(f"physical_offset = {wanted['physical_offset']}") == [wanted]
    start = wanted["position"] // LOG_FILE_SIZE * LOG_FILE_SIZE
    assert read_bytes(metrics) == {f"commitlog/{start:020d}": wanted["position"] + wanted["size"] - start}

    assert chosen("physical_offset < 5000 and physical_offset >= 200 and topic = 'Topic1'") == [
        row for row in expected if 200 <= row["physical_offset"] < 5000 and row["topic"] == "Topic1"
    ]
    assert sum(read_bytes(metrics).values()) <= 2 * LOG_FILE_SIZE

    assert chosen("physical_offset > 1000000000") == []
    assert read_bytes(metrics) == {}


def test_only_the_files_of_wanted_queues_are_read(spark: SparkSession, many_files: tuple[StoreAt, list[Row]], tmp_path: Path) -> None:
    at, _ = many_files
    units, metrics = rows_of("consumequeue", at), tmp_path / "metrics"

    def load_units() -> DataFrame:
        return load(spark, at, "consumequeue", metrics=str(metrics), pushdown="true")

    assert rows(load_units().where("topic = 'Topic1' and queue_id in (2, 7)")) == [
        unit for unit in units if (unit["topic"], unit["queue_id"]) == ("Topic1", 2)
    ]
    some = sum(read_bytes(metrics).values())
    assert rows(load_units()) == units
    assert 0 < some * 7 < sum(read_bytes(metrics).values())


def test_messages_are_found_through_queues_and_index(spark: SparkSession, tmp_path: Path) -> None:
    builder, metrics = StoreBuilder(tmp_path / "store", log_file_size=1 << 20, queue_file_size=200), tmp_path / "metrics"
    for number in range(60):
        is_rare = number % 25 == 3
        time = builder.store_timestamp + 60_000
        builder.message("Rare" if is_rare else "Common", b"x" * (0 if is_rare else 400_000), keys=f"key-{number}", store_timestamp=time)
    at = StoreAt.of(builder.stop().build(), None, builder.settings)

    for where, count in (("topic = 'Rare'", 3), ("topic = 'Rare' and queue_offset = 1", 1), ("topic = 'Common' and keys = 'key-31'", 1)):
        found = rows(load(spark, at, where=where, access="derived", columns="queue_offset,keys", metrics=str(metrics)))
        some = sum(read_bytes(metrics).values())
        assert found == rows(load(spark, at, where=where, columns="queue_offset,keys", metrics=str(metrics)))
        assert len(found) == count
        assert 0 < some * 4 < sum(read_bytes(metrics).values())


WHERE = (
    "queue_id <> 2",
    "queue_id = 1 or topic = 'Topic0'",
    "topic like 'Topic1%' and queue_id > 2",
    "queue_id in (0, null)",
    "queue_id <=> 3",
    "topic in ('Topic0', 'nobody') and queue_id between 1 and 2",
    "store_timestamp > timestamp '2023-11-14 22:13:20.1Z'",
    "store_timestamp <= timestamp '2023-11-14 22:13:20.001Z'",
    "store_timestamp < timestamp '2023-11-14 22:13:20.0015Z'",
    "store_timestamp >= timestamp '2023-11-14 22:13:20.0015Z'",
    "store_timestamp = timestamp '2023-11-14 22:13:20.002Z'",
    "store_timestamp = timestamp '2023-11-14 22:13:20.0015Z'",
    "store_timestamp in (timestamp '2023-11-14 22:13:20.002Z', timestamp '2023-11-14 22:13:20.0015Z')",
    "tags is null and queue_offset < 3",
    "queue_id > 1.5",
    "queue_id = '3'",
)


def test_what_is_filtered_here_and_in_spark_agree(spark: SparkSession, many_files: tuple[StoreAt, list[Row]]) -> None:
    at, _ = many_files
    columns = "physical_offset,topic,queue_id,queue_offset,store_timestamp,tags"
    in_memory = spark.createDataFrame(load(spark, at, columns=columns).toArrow())

    for where in WHERE:
        frame = load(spark, at, columns=columns, pushdown="true")
        assert rows(frame.where(where)) == rows(in_memory.where(where).orderBy("physical_offset")) != rows(in_memory), where


def test_a_frame_without_pushdown_is_good_for_any_number_of_queries(spark: SparkSession, many_files: tuple[StoreAt, list[Row]]) -> None:
    at, expected = many_files
    frame = load(spark, at, columns="position,queue_id")

    assert frame.where("queue_id = 1").count() == sum(row["queue_id"] == 1 for row in expected)
    assert frame.count() == len(expected)
    both = frame.where("queue_id = 1").alias("a").join(frame.where("queue_id = 2").alias("b"), how="cross")
    assert both.count() == sum(row["queue_id"] == 1 for row in expected) * sum(row["queue_id"] == 2 for row in expected)


TOPIC, QUEUE = ("topic",), ("queue_id",)


@pytest.mark.parametrize(
    ("filters", "conditions"),
    [
        ([EqualTo(QUEUE, 3)], {"queue_id": Condition(among=frozenset({3}))}),
        ([GreaterThan(QUEUE, 3), LessThan(QUEUE, 9)], {"queue_id": Condition(4, 8)}),
        ([GreaterThanOrEqual(QUEUE, 3), LessThanOrEqual(QUEUE, 9)], {"queue_id": Condition(3, 9)}),
        ([In(TOPIC, ("a", None, "b")), EqualNullSafe(TOPIC, "a")], {"topic": Condition(among=frozenset({"a"}))}),
    ],
)
def test_filters_that_are_taken_over(filters: list[Filter], conditions: dict[str, Condition]) -> None:
    reader = FilteringReader(find_table("messages"), [StoreAt("/nowhere")], Columns(("size",), frozenset()), 1 << 20, None, {})

    assert list(reader.pushFilters(filters)) == []
    assert reader.selection == Selection(("size",), conditions)


@pytest.mark.parametrize(
    "one",
    [
        Not(EqualTo(QUEUE, 3)),
        IsNotNull(QUEUE),
        EqualTo(QUEUE, None),
        EqualTo(QUEUE, True),
        EqualTo(QUEUE, 1.5),
        EqualTo(("tags",), "TagA"),
        EqualTo(("properties", "KEYS"), "k"),
        GreaterThan(TOPIC, "a"),
        StringStartsWith(TOPIC, "a"),
        In(QUEUE, (1, "2")),
    ],
)
def test_filters_that_are_left_to_spark(one: Filter) -> None:
    reader = FilteringReader(find_table("messages"), [StoreAt("/nowhere")], Columns(("size",), frozenset()), 1 << 20, None, {})

    assert list(reader.pushFilters([one])) == [one]
    assert reader.selection.conditions == {}


def test_settings_and_the_file_of_the_broker(spark: SparkSession, tmp_path: Path) -> None:
    at = StoreAt.of(sample_store("5.3.3-schedule"))
    levels = "7s 8s 9s 10s 1m"
    conf = tmp_path / "broker.conf"
    conf.write_text(f"messageDelayLevel={levels}\n")

    def codes(**options: str) -> list[Any]:
        return [row["tags_code"] for row in rows(load(spark, at, columns="tags_code", **options))]

    expected = rows_of("messages", StoreAt.of(Path(at.path), None, {"messageDelayLevel": levels}), Selection(("tags_code",)))
    assert codes(**{"set.messageDelayLevel": levels}) == codes(broker_conf=str(conf)) == [row["tags_code"] for row in expected] != codes()


def test_columns_say_what_they_mean(spark: SparkSession) -> None:
    table = find_table("index")
    fields = load(spark, StoreAt.of(sample_store("5.3.3-plain")), "index").schema.fields

    assert [(field.name, field.dataType.simpleString(), field.metadata["comment"]) for field in fields] == [
        (column.name, "timestamp", column.meaning.removesuffix(" (ms)"))
        if column.name in TIMES["index"]
        else (column.name, column.type, column.meaning)
        for column in table.columns
    ]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("options", "path", "told"),
    [
        (
            {"table": "nothing"},
            "store",
            "There is no table 'nothing'. -> Tables are messages, consumequeue, index, timer, findings, topics, queues,",
        ),
        ({"columns": "topic,nothing"}, "store", "The table messages has no column nothing. -> Its columns are physical_offset, size,"),
        (
            {"colums": "topic"},
            "store",
            "There is no option 'colums'. -> "
            "Options are table, columns, broker_conf, settings, part_bytes, metrics, where, pushdown, access, startingOffsets, "
            "maxOffsetsPerTrigger and set.KEY.",
        ),
        ({"settings": "[]"}, "store", "The option settings is no JSON object of texts."),
        ({"set.maxIndexNum": "many"}, "store", "--set maxIndexNum=many: "),
        ({"pushdown": "perhaps"}, "store", "The option pushdown is 'perhaps'. -> Give true or false."),
        ({"access": "index"}, "store", "The option access is 'index'. -> Give log or derived."),
        ({"access": "derived", "table": "topics"}, "store", "The option access does not go with the table topics. -> It is for messages."),
        ({"part_bytes": "0"}, "store", "The option part_bytes is '0'. -> Give a number of bytes"),
        ({}, "nowhere", "nowhere: no such directory. -> "),
    ],
)
def test_mistakes_are_told_with_what_to_do(spark: SparkSession, options: dict[str, str], path: str, told: str, tmp_path: Path) -> None:
    StoreBuilder(tmp_path / "store").message().build()

    with pytest.raises(AnalysisException) as error:
        spark.read.format("rocketmq").options(**options).load(str(tmp_path / path)).count()

    assert told in str(error.value)


def test_a_schema_with_other_types_is_told(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match=r"The column queue_id of the table messages is no string\. -> Its type is int"):
        spark.read.format("rocketmq").schema("queue_id string").load(str(sample_store("5.3.3-plain"))).count()


def test_a_store_that_cannot_be_read_to_its_end_ends_the_query(spark: SparkSession, tmp_path: Path) -> None:
    root = fresh_store("5.3.3-plain", tmp_path)
    index = next((root / "index").iterdir())
    index.write_bytes(index.read_bytes()[:100])

    with pytest.raises(PySparkException) as error:
        rows(load(spark, at_sample(case("5.3.3-plain"), root), "index"))

    original = SourceError.original(str(error.value))
    assert isinstance(original, UsageError)
    assert "the number of hash slots cannot be determined" in original.message


def test_errors_keep_their_kind_message_and_hint() -> None:
    error = UsageError("What\nhappened.", "What to do.")

    found = SourceError.original(f"Traceback\n  rmqstore.pipeline.spark.source.SourceError: {SourceError(error)}\n at java")

    assert isinstance(found, UsageError)
    assert (found.message, found.hint) == ("What happened.", "What to do.")
    assert SourceError.original("SourceError without the rest") is None
    unknown = SourceError.original("SourceError: Unheard: a -> b")
    assert type(unknown) is RmqstoreError


def test_the_columns_of_a_schema_are_those_of_arrow_and_times_are_timestamps(spark: SparkSession) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    for name in TABLE_NAMES:
        declared = to_arrow_schema(load(spark, StoreAt.of(sample_store("5.3.3-plain")), name).schema, timezone="UTC")
        expected = schema(find_table(name))
        for column in TIMES.get(name, ()):
            expected = expected.set(expected.get_field_index(column), pa.field(column, pa.timestamp("us", "UTC")))
        assert declared.equals(expected)


def test_times_that_no_clock_had_are_null_and_a_schema_gives_their_numbers(spark: SparkSession, tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "store")
    numbers = [0, -1, 1 << 62, -(1 << 62), 253402300799999, 253402300800000, -62135596800000, -62135596800001, 1700000000001]
    for number in numbers:
        builder.message(store_timestamp=number)
    at = StoreAt.of(builder.build())

    found = [row["store_timestamp"] for row in rows(load(spark, at, columns="store_timestamp"))]
    assert found == [moment(number) for number in numbers]
    assert found.count(None) == 4

    reader = spark.read.format("rocketmq").schema("store_timestamp bigint, born_timestamp timestamp")
    assert [row["store_timestamp"] for row in rows(reader.load(at.path))] == numbers
    # Nulls meet no condition, wherever it is applied.
    later = load(spark, at, columns="store_timestamp", pushdown="true").where("store_timestamp > timestamp '1970-01-01 00:00:00Z'")
    assert len(rows(later)) == 2


@pytest.mark.parametrize("text", ["1700000000100", "'2023-11-14T22:13:20.1Z'", "'2023-11-15T06:13:20.1+08:00'"])
def test_conditions_on_times_take_numbers_and_texts(spark: SparkSession, many_files: tuple[StoreAt, list[Row]], text: str) -> None:
    at, expected = many_files
    border = moment(1700000000100)

    found = rows(load(spark, at, where=f"store_timestamp >= {text}"))

    assert found == [row for row in expected if row["store_timestamp"] >= border] != expected


def test_a_stream_has_times_as_timestamps(spark: SparkSession, many_files: tuple[StoreAt, list[Row]], tmp_path: Path) -> None:
    at, expected = many_files
    stream = spark.readStream.format("rocketmq").options(columns="physical_offset,store_timestamp").load(at.path)
    out = tmp_path / "out"

    writer = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    assert writer.start(str(out)).awaitTermination(PATIENCE)

    found = spark.read.parquet(str(out)).orderBy("physical_offset")
    assert rows(found) == [{name: row[name] for name in ("physical_offset", "store_timestamp")} for row in expected]


def of_sample(name: str) -> StoreAt:
    return at_sample(case(name), sample_store(name))


def of_several(spark: SparkSession, *paths: Path | str, **options: str) -> DataFrame:
    settings = json.dumps(dict(of_sample("5.3.3-plain").settings))
    return spark.read.format(rmqstore.spark.FORMAT).options(settings=settings, **options).load([str(path) for path in paths])


def test_each_row_of_several_stores_has_its_store(spark: SparkSession) -> None:
    one, other = sample_store("5.3.3-plain"), sample_store("5.3.3-plain-crash")
    found = of_several(spark, one, other)
    counts = {row["store"]: row["count"] for row in found.groupBy("store").count().collect()}
    assert counts == {str(path): load(spark, of_sample(path.parent.name)).count() for path in (one, other)}
    assert found.columns[0] == "store"


def test_a_store_that_is_named_twice_is_there_twice(spark: SparkSession) -> None:
    one = sample_store("5.3.3-plain")
    assert of_several(spark, one, one, columns="size").count() == 2 * load(spark, of_sample("5.3.3-plain")).count()


def test_wildcards_and_the_store_alone(spark: SparkSession) -> None:
    path = sample_store("5.3.3-plain")
    found = of_several(spark, path.parents[1] / "5.3.3-plain*" / "store", columns="store")
    assert {row["store"] for row in found.distinct().collect()} == {str(path), str(sample_store("5.3.3-plain-crash"))}
    with pytest.raises(PySparkException, match="No directory matches"):
        of_several(spark, path / "nothing-*")


@pytest.mark.parametrize(
    ("where", "same"),
    [
        ("topic = 'TopicA'", "topic = 'TopicA'"),
        ("topic in ('TopicA', 'Orders') and queue_id = 1", "topic in ('TopicA', 'Orders') and queue_id = 1"),
        ("physical_offset between 1000 and 20000", "physical_offset between 1000 and 20000"),
        (
            "physical_offset >= 1000 AND physical_offset < 20000 and size > 100",
            "physical_offset >= 1000 and physical_offset < 20000 and size > 100",
        ),
    ],
)
def test_conditions_are_a_part_of_the_frame(where: str, same: str, spark: SparkSession) -> None:
    at = of_sample("5.3.3-plain")
    frame = load(spark, at, where=where)
    wanted = sorted(row["physical_offset"] for row in load(spark, at).where(same).select("physical_offset").collect())
    for _ in range(2):
        assert sorted(row["physical_offset"] for row in frame.select("physical_offset").collect()) == wanted != []
    twice = frame.alias("one").join(frame.alias("two"), "physical_offset").count()
    assert twice == len(wanted)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("tags = 'a'", "no conditions on tags"),
        ("topic = 5", "5 is no text"),
        ("size = 'a'", "'a' is no number"),
        ("topic > 'a'", "no order"),
        ("size = 1 or size = 2", "or size = 2"),
        ("", "is not understood"),
        ("size like 1", "is not understood"),
    ],
)
def test_conditions_that_are_not_possible(where: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        conditions(where, find_table("messages"))


def test_spark_finds_the_format_by_itself_and_views_can_be_made_in_sql(tmp_path: Path) -> None:
    """In a process of its own: other tests register the format with their session."""
    root = sample_store("5.3.3-plain")
    code = f"""
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
print("rows", spark.read.format("rocketmq").load({str(root)!r}).count())
spark.sql("CREATE TEMPORARY VIEW units USING rocketmq OPTIONS (path '{root}', table 'consumequeue')")
print("units", spark.sql("select count(*) from units").first()[0])
try:
    spark.sql("CREATE TABLE kept USING rocketmq OPTIONS (path '{root}')")
except Exception as error:
    print("refused", "TEMPORARY VIEW" in str(error))
"""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_GATEWAY")}
    variables |= {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT), "JAVA_HOME": str(find_java().parent.parent)}

    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=PATIENCE, check=False
    )

    at = StoreAt.of(root)
    expected = [f"rows {len(rows_of('messages', at))}", f"units {len(rows_of('consumequeue', at))}", "refused True"]
    assert done.stdout.splitlines() == expected, done.stderr


FINDINGS_OF = ("5.3.3-plain-crash", "broker-5.5.1-crash")


def test_findings_of_large_stores_come_from_all_executors(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    roots = [str(sample_store(name)) for name in FINDINGS_OF]
    in_tasks = rmqstore.spark.findings(spark, *roots)

    monkeypatch.setattr(verify, "LARGE_STORE", sum(path.stat().st_size for path in (Path(roots[0]) / "commitlog").iterdir()) - 1)
    mixed = rmqstore.spark.findings(spark, *roots)
    monkeypatch.setattr(verify, "LARGE_STORE", -1)
    in_pieces = rmqstore.spark.findings(spark, *roots)

    expected = [{"store": root, **row} for root in roots for row in rows_of("findings", StoreAt.of(root))]
    assert len({row["store"] for row in expected}) == len(roots)
    for frame in (in_tasks, mixed, in_pieces):
        assert frame.columns == ["store", *(column.name for column in find_table("findings").columns)]
        assert sorted(rows(frame), key=repr) == sorted(expected, key=repr)
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") is None


def test_a_statement_on_findings_of_a_large_store(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    at = StoreAt.of(str(sample_store(FINDINGS_OF[0])))
    text = "select * from findings f where severity <> 'error' order by code, message"
    expected = list(sql.query(spark, at, text).rows)

    monkeypatch.setattr(verify, "LARGE_STORE", -1)

    assert list(sql.query(spark, at, text).rows) == expected != []


def test_findings_of_a_store_without_any(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    root = StoreBuilder(tmp_path / "store").stop().build()
    monkeypatch.setattr(verify, "LARGE_STORE", -1)
    found = rows_of("findings", StoreAt.of(root))

    assert len(rows(rmqstore.spark.findings(spark, str(root)))) == len(found)
    with pytest.raises(UsageError, match="No store was named"):
        rmqstore.spark.findings(spark)
    with pytest.raises(RmqstoreError, match="no such directory"):
        rmqstore.spark.findings(spark, str(tmp_path / "nowhere"))
