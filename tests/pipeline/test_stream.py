"""The log as a stream: each record once, whatever the size of batches and however often the stream is restarted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from rmqstore.pipeline.job import StoreAt
from rmqstore.pipeline.spark import source
from tests.pipeline.reading import rows_of
from tests.support.builder import StoreBuilder
from tests.support.stores import sample_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "position bigint, topic string, body binary"


@pytest.fixture
def spark(session: SparkSession) -> SparkSession:
    source.register(session)
    return session


class Stream:
    """A stream into files, with a checkpoint."""

    def __init__(self, spark: SparkSession, root: Path, directory: Path) -> None:
        self.spark, self.root, self.directory = spark, root, directory

    def run(self, **options: str) -> list[int]:
        """Read what is there, and return the positions that all runs have read, in order."""
        stream = self.spark.readStream.format("rocketmq").schema(COLUMNS).options(**options).load(str(self.root))
        writer = stream.writeStream.format("parquet").option("checkpointLocation", str(self.directory / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(self.directory / "out"))
        query.awaitTermination()
        rows = self.spark.read.schema(COLUMNS).parquet(str(self.directory / "out")).select("position").collect()
        return sorted(row[0] for row in rows)


def grown(builder: StoreBuilder, count: int) -> None:
    for number in range(count):
        builder.message("TopicA", b"x" * 300, queue_id=number % 2)


@pytest.mark.parametrize("most", [None, "1000", "70000"])
def test_each_record_once(spark: SparkSession, tmp_path: Path, most: str | None) -> None:
    root = sample_store("5.3.3-plain")
    options = {} if most is None else {"maxOffsetsPerTrigger": most}

    found = Stream(spark, root, tmp_path).run(**options)

    assert found == [row["position"] for row in rows_of("messages", StoreAt.of(root))]


def test_it_continues_where_it_stopped(spark: SparkSession, tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "store", log_file_size=8192)
    grown(builder, 30)
    stream = Stream(spark, builder.build(), tmp_path)
    first = stream.run()
    grown(builder, 50)
    builder.build()

    second = stream.run()

    every = [row["position"] for row in rows_of("messages", StoreAt.of(builder.root))]
    assert (len(first), len(second)) == (30, 80)
    assert second == every and first == every[:30]
    assert stream.run() == every  # nothing was added


@pytest.mark.parametrize("begin", ["latest", "third"])
def test_where_it_begins(spark: SparkSession, tmp_path: Path, begin: str) -> None:
    builder = StoreBuilder(tmp_path / "store", log_file_size=8192)
    grown(builder, 10)
    stream = Stream(spark, builder.build(), tmp_path)
    positions = [row["position"] for row in rows_of("messages", StoreAt.of(builder.root))]

    stream.run(startingOffsets=str(positions[2]) if begin == "third" else begin)
    grown(builder, 5)
    builder.build()

    every = [row["position"] for row in rows_of("messages", StoreAt.of(builder.root))]
    assert stream.run() == (every[2:] if begin == "third" else every[10:])


def test_messages_that_were_deleted_before_they_were_read_end_the_stream(spark: SparkSession, tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "store", log_file_size=8192)
    grown(builder, 10)
    stream = Stream(spark, builder.build(), tmp_path)
    stream.run()
    grown(builder, 60)
    builder.build()
    for file in sorted((builder.root / "commitlog").iterdir())[:2]:
        file.unlink()

    with pytest.raises(StreamingQueryException, match="has deleted files"):
        stream.run()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOffsets": "yesterday"}, "Give earliest, latest, or a physical offset"),
        ({"maxOffsetsPerTrigger": "0"}, "The option maxOffsetsPerTrigger is '0'"),
        ({"table": "index"}, "Only the messages of one store are a stream"),
    ],
)
def test_mistakes(spark: SparkSession, tmp_path: Path, options: dict[str, Any], words: str) -> None:
    schema = "item bigint" if "table" in options else COLUMNS
    stream = spark.readStream.format("rocketmq").schema(schema).options(**options).load(str(sample_store("5.3.3-plain")))

    with pytest.raises(Exception, match=words):
        stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start().awaitTermination()
