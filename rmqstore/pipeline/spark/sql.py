"""SQL over the tables of a store: reading statements only, only the columns that a query needs, results as they are computed.

A query is planned twice. First over empty views of the same shapes: that finds mistakes without reading anything, and determines the
columns of each table that it needs. Then over the store, with those columns alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    IllegalArgumentException,
    NumberFormatException,
    ParseException,
    PySparkException,
)
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import CalendarIntervalType, VariantType, YearMonthIntervalType

from rmqstore.errors import RmqstoreError, UsageError
from rmqstore.pipeline.job import StoreAt
from rmqstore.pipeline.spark import source
from rmqstore.pipeline.spark.columns import STORE, columns_ddl
from rmqstore.pipeline.spark.failures import OF_JAVA, SourceError, java_ended, recognized
from rmqstore.pipeline.spark.findings import is_large, verified
from rmqstore.pipeline.spark.plans import Need, gathers, needs, optimized, require_reading
from rmqstore.pipeline.spark.progress import task_progress
from rmqstore.pipeline.sqlresult import Result, readable, unique
from rmqstore.pipeline.tables.findings import TABLE as FINDINGS
from rmqstore.pipeline.tables.registry import TABLE_NAMES, find_table, named_in
from rmqstore.pipeline.tables.table import LARGEST_PART, schema
from rmqstore.reading.progress import Advance, silent

BATCH_ROWS = 4096
"""Rows per packet; so many are in memory at a time, besides what Spark holds."""

STREAMED_PART = 16 << 20
"""Bytes of a part whose rows may be the unchanged result: Spark holds the rows of two parts before they are printed."""

_EXPLAIN = "ExplainCommand"
_ABOUT_TABLES = ("Describe", "Show")
_ASKING = (*_ABOUT_TABLES, _EXPLAIN)
_HELP = f"Tables are {', '.join(TABLE_NAMES)}; `describe TABLE` lists the columns of one."
# Spark's message: a code in brackets, sentences, a number, a place; around it the texts of all exceptions that it passed through.
_CODED = re.compile(r"\[[A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*\] (.+)")
# The last line of a traceback of Python.
_BY_WORKER = re.compile(r"^ +File \".*\n(?:  .*\n)*(?:\w+\.)*(\w+: .+)", re.MULTILINE)
_STATE = re.compile(r"\s*SQLSTATE: \w+.*")
_CLASS = re.compile(r"^(?:[a-z]+\.)+\w+: ")
_THROWN_BY_THE_STATEMENT = re.compile(
    r"\.Spark(?:Arithmetic|NumberFormat|DateTime|ArrayIndexOutOfBounds|IllegalArgument|Runtime)Exception: \["
)
_ADVICE = ("Did you mean", "Use ", "Correct ")
_NOT_IN_ARROW = (CalendarIntervalType, VariantType, YearMonthIntervalType)
_OF_THE_STATEMENT = (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    IllegalArgumentException,
    NumberFormatException,
    ParseException,
)


def packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches as bytes: a row of Python objects each would cost many times as much."""
    for batch in batches:
        for start in range(0, batch.num_rows, BATCH_ROWS):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch.slice(start, BATCH_ROWS))
            yield pa.RecordBatch.from_pydict({"batch": [sink.getvalue().to_pybytes()]})


def query(session: SparkSession, at: StoreAt, text: str, advance: Advance = silent) -> Result:
    """Return the result of a statement on a store; `advance` receives the tasks that are done, while rows are read.

    Raises UsageError for a statement that is wrong or does not read, while rows are read also what reading a store raises, and
    RmqstoreError with Spark's message.
    """
    source.register(session)
    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
    try:
        frame = _planned(session, at, text)
    except (PySparkException, *OF_JAVA) as error:
        raise translated(error) from error
    names = unique(frame.columns)
    return Result(names, _rows(frame, names, advance))


def _planned(session: SparkSession, at: StoreAt, text: str) -> DataFrame:
    """Return the result of a statement, not computed yet."""
    plan = session._jsparkSession.sessionState().sqlParser().parsePlan(text)
    kind = plan.getClass().getSimpleName()
    if not kind.startswith(_ASKING):
        require_reading(session, plan)
    named = TABLE_NAMES if kind.startswith("Show") else named_in(text)
    for name in named:
        _shape(session, name).createOrReplaceTempView(name)
    shaped = session.sql(text)
    if kind.startswith(_ABOUT_TABLES):
        return shaped
    shaped_plan = optimized(session, plan.logicalPlan() if kind == _EXPLAIN else plan)
    needed, largest = needs(shaped_plan), LARGEST_PART if gathers(shaped_plan) else STREAMED_PART
    if FINDINGS.name in named and kind != _EXPLAIN and is_large(at):
        verified(session, session.sparkContext, at).drop(STORE.name).createOrReplaceTempView(FINDINGS.name)
        named = tuple(name for name in named if name != FINDINGS.name)
    for name in named:
        _table(session, at, name, needed.get(name, Need()), largest).createOrReplaceTempView(name)
    frame = session.sql(text)
    if frame.columns != shaped.columns:
        # An asterisk whose columns are not needed, because the result has no rows.
        for name in named:
            _table(session, at, name, Need(schema(find_table(name)).names), largest).createOrReplaceTempView(name)
        frame = session.sql(text)
    return frame


def _shape(session: SparkSession, name: str) -> DataFrame:
    """Return a table without rows."""
    return session.createDataFrame(session.sparkContext.emptyRDD(), columns_ddl(find_table(name)))


def _table(session: SparkSession, at: StoreAt, name: str, need: Need, largest: int) -> DataFrame:
    """Return a table of a store with the needed columns; one at least, because rows without columns cannot be counted."""
    table = find_table(name)
    options = {"table": name, "part_bytes": str(largest), "pushdown": str(need.times == 1), "settings": json.dumps(dict(at.settings))}
    if at.broker_conf is not None:
        options["broker_conf"] = at.broker_conf
    reader = session.read.format(source.FORMAT).options(**options)
    return reader.schema(columns_ddl(table, need.columns or (table.columns[0].name,))).load(at.path)


def _rows(frame: DataFrame, names: Sequence[str], advance: Advance) -> Iterator[dict[str, Any]]:
    """Yield the rows in order; while one partition is read from here, the next one is computed."""
    make: Callable[[pa.RecordBatch], list[dict[str, Any]]] | None = None
    try:
        with task_progress(frame.sparkSession.sparkContext, advance):
            for row in _portable(frame).mapInArrow(packed, "batch binary").toLocalIterator(prefetchPartitions=True):
                with pa.ipc.open_stream(row[0]) as stream:
                    for batch in stream:
                        batch = batch.rename_columns(names)
                        make = make or readable(batch.schema)
                        yield from make(batch)
    except (PySparkException, *OF_JAVA) as error:
        raise translated(error) from error


def _portable(frame: DataFrame) -> DataFrame:
    """Return the columns named by number, because Spark takes a dot in a name for a field; as text what Arrow has no type for."""
    placed = frame.toDF(*(f"c{number}" for number in range(len(frame.columns))))
    kinds = [field.dataType for field in placed.schema.fields]
    return placed.select([placed[at].cast("string") if isinstance(kind, _NOT_IN_ARROW) else placed[at] for at, kind in enumerate(kinds)])


def translated(error: Exception) -> RmqstoreError:
    """Return an error of Spark as one sentence what happened and one what to do."""
    ended = java_ended(error)
    if ended is not None:
        return ended
    text = str(error).strip() or type(error).__name__
    original = SourceError.original(text)
    if original is not None:
        return original
    known = recognized(text)
    if known is not None:
        return known
    by_worker, coded = _BY_WORKER.findall(text), _CODED.search(text)
    line = by_worker[-1] if by_worker else coded[1] if coded else _CLASS.sub("", text.partition("\n: ")[2] or text).splitlines()[0]
    message, _, rest = _STATE.sub("", line).partition(". ")
    message = message.rstrip(".") + "."
    if isinstance(error, _OF_THE_STATEMENT) or _THROWN_BY_THE_STATEMENT.search(text):
        return UsageError(message, rest if rest.startswith(_ADVICE) else _HELP)
    return RmqstoreError(message, "This is an error of Spark; the same statement may run in this process (--engine local).")
