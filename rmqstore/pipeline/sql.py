"""SQL over the tables of a store in this process: planned by DuckDB, which reads the tables as Arrow batches.

A statement is planned over empty tables first. That finds mistakes without reading anything, and determines the columns of each table that
the statement needs and the conditions under which parts of a store are skipped. DuckDB applies all conditions itself as well.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa

from rmqstore.errors import RmqstoreError, UsageError
from rmqstore.pipeline.job import Part, StoreAt
from rmqstore.pipeline.sqlresult import READ_ONLY, Result, readable, unique
from rmqstore.pipeline.tables.registry import TABLE_NAMES, find_table, named_in
from rmqstore.pipeline.tables.selection import Condition, Selection
from rmqstore.pipeline.tables.table import Table, schema
from rmqstore.pipeline.tables.where import conditions
from rmqstore.reading.progress import Advance, silent

PART = 16 << 20
"""Bytes of a part; the batches of a part are in memory together when several threads read."""

_BATCH_ROWS = 8192
_OTHER_DIALECT = "This is the SQL of DuckDB; --engine spark understands that of Spark."
_TABLES = f"Tables are {', '.join(TABLE_NAMES)}; `describe TABLE` lists the columns of one."
_TYPES = {"binary": "blob", "string": "varchar", "map<string,string>": "map(varchar, varchar)", "array<string>": "varchar[]"}
_DESCRIBE = re.compile(r"\s*(?:describe|desc)\s+(?:table\s+)?[`\"]?(\w+)[`\"]?\s*;?\s*", re.IGNORECASE)
_SHOW = re.compile(r"\s*show\s+tables\s*;?\s*", re.IGNORECASE)
_EXPLAIN = re.compile(r"\s*explain\s+(?:analyze\s+)?(?:\([^)]*\)\s*)?", re.IGNORECASE)
_TEXT = re.compile(r"'(?:[^']|'')*'")
_NAMES_OF_SPARK = {"count_star()": "count(1)"}
_SETTINGS = (
    "SET default_null_order = 'nulls_first_on_asc_last_on_desc'",  # as Spark
    "SET TimeZone = 'UTC'",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET python_enable_replacements = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
_OF_THE_STATEMENT = (
    duckdb.ProgrammingError,
    duckdb.DataError,
    duckdb.NotSupportedError,
    duckdb.PermissionException,
)


@dataclass(frozen=True, slots=True)
class Need:
    """The part of a table that a statement needs: columns in the order of the table, conditions that every row of use meets."""

    columns: tuple[str, ...]
    conditions: Mapping[str, Condition]


def query(at: StoreAt, text: str, threads: int, advance: Advance = silent) -> Result:
    """Return the result of a statement on a store, read by so many threads; `advance` receives bytes of it that are read.

    Raises UsageError for a statement that is wrong or does not read, while rows are read also what reading a store raises, and
    RmqstoreError for a result that needs more memory or disk than there is.
    """
    about = _about_tables(text)
    if about is not None:
        return about
    with ExitStack() as used:
        # Results that do not fit into memory go there.
        directory = used.enter_context(TemporaryDirectory(prefix="rmqstore-"))
        connection = used.enter_context(duckdb.connect(":memory:", config={"threads": threads, "temp_directory": directory}))
        sources: list[_Source] = []
        try:
            explained = _is_explained(connection, text)
            statement = _EXPLAIN.sub("", text, count=1) if explained else text
            needs, columns = _planned(statement)
            for name, need in needs.items():
                sources.append(_Source(at, find_table(name), need, threads, advance))
                connection.register(name, sources[-1])
            for setting in _SETTINGS:
                connection.execute(setting)
            if connection.sql(statement).columns != columns:
                # An asterisk whose columns are not needed, because the result has no rows.
                for source in sources:
                    source.widen()
                    connection.register(source.name, source)
            if explained:
                return Result(("plan",), iter([{"plan": _plan_text(connection, text, sources)}]))
        except duckdb.Error as error:
            raise _translated(error, sources) from error
        names = unique([_NAMES_OF_SPARK.get(name, name) for name in columns])
        return Result(names, _rows(_computed(connection, text), names, sources, used.pop_all()))


def _about_tables(text: str) -> Result | None:
    """Return the result of `describe TABLE` or `show tables`, None for another statement."""
    described = _DESCRIBE.fullmatch(text)
    if described is not None:
        found = find_table(described[1].lower()).columns
        rows = ({"col_name": column.name, "data_type": column.type, "comment": column.meaning} for column in found)
        return Result(("col_name", "data_type", "comment"), iter(rows))
    if _SHOW.fullmatch(text):
        tables = ({"namespace": "", "tableName": name, "isTemporary": True} for name in sorted(TABLE_NAMES))
        return Result(("namespace", "tableName", "isTemporary"), iter(tables))
    return None


def _is_explained(connection: duckdb.DuckDBPyConnection, text: str) -> bool:
    """Return whether this is `explain`. Raises UsageError for everything that is not one reading statement."""
    statements = connection.extract_statements(text)
    if not statements:
        raise UsageError("The statement is empty.", _TABLES)
    if len(statements) > 1:
        raise UsageError("There is more than one statement.", "Give one at a time, or several on standard input.")
    if statements[0].type not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN):
        raise UsageError("This statement does more than read.", READ_ONLY)
    return bool(statements[0].type == duckdb.StatementType.EXPLAIN)


def _planned(statement: str) -> tuple[dict[str, Need], list[str]]:
    """Return what a statement needs of each table that it names, and the names of its columns, from its plan over empty tables."""
    named = named_in(statement)
    with duckdb.connect(":memory:") as shapes:
        # Both would replace reading a table, the first one an empty one, the second one a table that is read for some rows.
        shapes.execute("SET disabled_optimizers = 'statistics_propagation,late_materialization'")
        for name in named:
            columns = ", ".join(f'"{column.name}" {_TYPES.get(column.type, column.type)}' for column in find_table(name).columns)
            shapes.execute(f'CREATE TABLE "{name}" ({columns})')
        for setting in _SETTINGS:
            shapes.execute(setting)
        result = shapes.sql(statement).columns
        (plan,) = json.loads(shapes.execute(f"EXPLAIN (FORMAT json) {statement}").fetchall()[0][1])
    scans: dict[str, list[Mapping[str, Any]]] = {}
    for node in _nodes(plan):
        details = node["extra_info"]
        if "Table" in details:
            scans.setdefault(details["Table"].rpartition(".")[2].strip('"'), []).append(details)
    return {name: _need(find_table(name), scans.get(name, []), statement) for name in named}, result


def _nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for child in plan["children"]:
        yield from _nodes(child)


def _need(table: Table, scans: Sequence[Mapping[str, Any]], statement: str) -> Need:
    """Return what the scans of a table need together; all of it if the plan has none, because the next plan might have one."""
    names = schema(table).names
    if not scans:
        return Need(tuple(names), {})
    filters = [text for scan in scans for text in _texts(scan.get("Filters"))]
    words = {name for scan in scans for name in _texts(scan.get("Projections"))} | {
        word for text in filters for word in re.findall(r"\w+", _TEXT.sub("", text))
    }
    columns = tuple(name for name in names if name in words) or (names[0],)
    met: dict[str, Condition] = {}
    for text in filters if len(scans) == 1 else ():
        for name, condition in _implied(text, table, statement).items():
            met[name] = condition.both(met.get(name, Condition()))
    return Need(columns, met)


def _texts(value: Any) -> list[str]:
    """Return the texts of a plan's detail, which is a list only if there are several."""
    return [value] if isinstance(value, str) else list(value or ())


def _implied(text: str, table: Table, statement: str) -> dict[str, Condition]:
    """Return conditions that follow from a filter of a plan; none from a filter that says anything else.

    Without its brackets a conjunction of comparisons is the same conjunction, and nothing else is understood.
    """
    text = text.removeprefix("optional: ")
    if any(literal not in statement for literal in _TEXT.findall(text)):
        return {}  # shortened or escaped
    inside = text[1:-1] if text.startswith("(") and text.endswith(")") else text
    plain = "" if _TEXT.search(text) else text.replace("(", " ").replace(")", " ")
    for form in (inside, plain):
        try:
            return conditions(form, table)
        except UsageError:
            continue
    return {}


class _Source:
    """A table as a stream of Arrow batches, which DuckDB requests for every scan of it."""

    def __init__(self, at: StoreAt, table: Table, need: Need, threads: int, advance: Advance) -> None:
        self.name = table.name
        self.error: BaseException | None = None
        self._at = at
        self._table = table
        self._selection = Selection(need.columns, need.conditions)
        self._threads = threads
        self._advance = advance

    def widen(self) -> None:
        """Read all columns."""
        self._selection = replace(self._selection, columns=tuple(schema(self._table).names))

    def __str__(self) -> str:
        found = self._selection
        limits = " and ".join(f"{name} {condition}" for name, condition in sorted(found.conditions.items()))
        return f"{self.name}: reads {', '.join(found.columns)}" + (f"; skips what cannot have {limits}" if limits else "")

    def __arrow_c_schema__(self) -> object:
        return schema(self._table, self._selection.columns).__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        kind = schema(self._table, self._selection.columns)
        return pa.RecordBatchReader.from_batches(kind, self._batches()).__arrow_c_stream__()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order, while threads read the next parts: compiled code runs without the interpreter lock."""
        try:
            parts = self._table.parts(self._at, self._selection, PART)
            with ThreadPoolExecutor(self._threads) as pool:
                ahead: deque[Future[list[pa.RecordBatch]]] = deque()
                try:
                    for part in parts:
                        ahead.append(pool.submit(self._read, part))
                        if len(ahead) > self._threads:
                            yield from ahead.popleft().result()
                    while ahead:
                        yield from ahead.popleft().result()
                finally:
                    pool.shutdown(wait=False, cancel_futures=True)
        except BaseException as error:
            self.error = error  # DuckDB makes a text of it
            raise

    def _read(self, part: Part) -> list[pa.RecordBatch]:
        return list(self._table.read(part, self._selection, self._advance))


def _plan_text(connection: duckdb.DuckDBPyConnection, text: str, sources: Sequence[_Source]) -> str:
    """Return DuckDB's plan, and what is read of each table."""
    plan = connection.execute(text).fetchall()[0][1]
    return "\n".join([plan.rstrip(), *map(str, sources)])


def _computed(connection: duckdb.DuckDBPyConnection, text: str) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a result, computed in a thread: the main thread could not be interrupted inside of DuckDB."""
    with ThreadPoolExecutor(1) as pool:
        try:
            reader = pool.submit(lambda: connection.sql(text).to_arrow_reader(_BATCH_ROWS)).result()
            while (batch := pool.submit(next, reader, None).result()) is not None:
                yield batch
        except KeyboardInterrupt:
            connection.interrupt()
            raise


def _rows(batches: Iterator[pa.RecordBatch], names: Sequence[str], sources: Sequence[_Source], used: ExitStack) -> Iterator[dict[str, Any]]:
    with used:
        make = None
        try:
            for batch in batches:
                narrow = _narrow(batch.rename_columns(names))
                make = make or readable(narrow.schema)
                yield from make(narrow)
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            raise _translated(error, sources) from error


def _narrow(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return integers of 128 bits, which sums are, as integers of 64 bits. Raises ArrowInvalid if one does not fit."""
    wide = pa.decimal128(38, 0)
    kind = pa.schema([field.with_type(pa.int64()) if field.type == wide else field for field in batch.schema])
    return batch if kind == batch.schema else batch.cast(kind)


def _translated(error: Exception, sources: Sequence[_Source]) -> BaseException:
    """Return the error of a table that DuckDB read, else its own one as one sentence what happened and one what to do."""
    for source in sources:
        if source.error is not None and not isinstance(source.error, GeneratorExit):
            return source.error
    if isinstance(error, duckdb.InterruptException):
        return KeyboardInterrupt()
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    message = lines[0].partition(" Error: ")[2] or lines[0]
    message = message[:1].upper() + message[1:].rstrip(".!") + "."
    if isinstance(error, duckdb.OutOfMemoryException | duckdb.IOException):
        return RmqstoreError(message, "Set TMPDIR to a directory on a larger disk, or ask for fewer rows and columns.")
    advice = next((line.rstrip(".") + ". " for line in lines[1:] if line.startswith("Candidate")), "")
    if isinstance(error, _OF_THE_STATEMENT):
        return UsageError(message, f"{advice}{_TABLES} {_OTHER_DIALECT}")
    return RmqstoreError(message, _OTHER_DIALECT)
