"""A store as a data source of Spark.

    spark.read.format("rocketmq").option("table", "messages").load("/path/to/store")

Spark finds the format where this package is installed for the Python of its workers (`pyspark_rocketmq.py`);
`rmqstore.spark.register` registers it with one session. `load` takes paths and URIs, also with wildcards; of several stores each
row has its own in the column `store`.

Options: `table` (default: messages), `columns` (names separated by commas; default: all), `broker_conf` (path), `settings` (a JSON object
of settings as in broker.conf), `set.KEY` (one of them), `part_bytes` (about how much a task reads), `metrics` (a file that gets a JSON line
for each part that was read, for measurements on one machine), `where` (conditions that are applied here, before files are read, and are a
part of the frame), `pushdown` (true: so are the filters of the query), `access` (derived: messages of a topic or with a key are found
through consume queues and index).
A schema given to the reader selects columns, too. Times are timestamps, or milliseconds since 1970 where the schema has bigint.

With `pushdown` a frame can be used for one query that names it once. Spark (4.1 to 4.3) keeps the reader's state after filters were
pushed down, and uses it for every other query on the same frame, whatever its filters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from rmqstore.errors import RmqstoreError, UsageError
from rmqstore.pipeline.fetching import make_room, matching, named, remove_copies
from rmqstore.pipeline.filesystems import is_remote
from rmqstore.pipeline.job import Part, StoreAt
from rmqstore.pipeline.spark.columns import STORE, TIMESTAMP, Columns, columns_ddl
from rmqstore.pipeline.spark.failures import SourceError
from rmqstore.pipeline.spark.preflight import context_of, require_package_here
from rmqstore.pipeline.tables.registry import find_table
from rmqstore.pipeline.tables.selection import Condition, Selection
from rmqstore.pipeline.tables.table import LARGEST_PART, Table
from rmqstore.pipeline.tables.where import conditions
from rmqstore.store.brokerconf import DEFAULTS

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

FORMAT = "rocketmq"

_OPTIONS = (
    "path",
    "paths",
    "table",
    "columns",
    "broker_conf",
    "settings",
    "part_bytes",
    "metrics",
    "where",
    "pushdown",
    "access",
    "startingoffsets",
    "maxoffsetspertrigger",
)
_SHOWN = {"startingoffsets": "startingOffsets", "maxoffsetspertrigger": "maxOffsetsPerTrigger"}
_REGISTERED = "DATA_SOURCE_ALREADY_EXISTS"
_WILDCARDS = re.compile(r"[*?\[]")
_SETTING = "set."
_LOG, _DERIVED = "log", "derived"
"""Ways to messages."""
# Spark lowercases the names of options, so that a setting without default keeps its spelling in `settings` alone.
_KEYS = {key.lower(): key for key in DEFAULTS}


def register(session: SparkSession) -> None:
    """Register the format with a session. Raises UsageError if the workers of a local one cannot load it."""
    context = context_of(session)
    if context is not None:
        require_package_here(context)
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        session.dataSource.register(RocketmqSource)
    except AnalysisException as error:
        if error.getCondition() != _REGISTERED:  # Spark 4.0 has found it itself, and refuses the same again
            raise


class RocketmqSource(DataSource):
    """One table of one store or several."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        """Return the columns that options request."""
        try:
            self._require_known_options()
            table, named = self._table(), self.options.get("columns")
            if named is not None:
                names = [name.strip() for name in named.split(",")]
            else:
                store = [] if len(self._paths()) == 1 else [STORE.name]
                names = store + [column.name for column in table.columns]
            return columns_ddl(table, names, timestamps=True)
        except RmqstoreError as error:
            raise SourceError(error) from error

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the columns of a schema, which are columns of the table with their types."""
        try:
            self._require_known_options()
            table = self._table()
            largest = self._part_bytes()
            kind = FilteringReader if self._flag("pushdown") else RocketmqReader
            where = self.options.get("where")
            given = {} if where is None else conditions(where, table)
            columns = Columns.of(table, schema)
            return kind(table, self._stores(), columns, largest, self.options.get("metrics"), given, self._is_derived(table))
        except RmqstoreError as error:
            raise SourceError(error) from error

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader of the messages of one store as a stream."""
        from rmqstore.pipeline.spark.stream import LogStream

        try:
            self._require_known_options()
            table, stores = self._table(), self._stores()
            columns = Columns.of(table, schema)
            if table.name != "messages" or len(stores) != 1 or STORE.name in schema.fieldNames():
                raise UsageError("Only the messages of one store are a stream.", "Give one path, and leave out the option table.")
            where = self.options.get("where")
            given = {} if where is None else conditions(where, table)
            most = self.options.get("maxOffsetsPerTrigger")
            limit = None if most is None else _number(most, "maxOffsetsPerTrigger")
            begin = self.options.get("startingOffsets", "earliest")
            return LogStream(stores[0], columns, self._part_bytes(), given, begin, limit)
        except RmqstoreError as error:
            raise SourceError(error) from error

    def _part_bytes(self) -> int:
        return _number(self.options.get("part_bytes", str(LARGEST_PART)), "part_bytes")

    def _flag(self, name: str) -> bool:
        value = self.options.get(name, "false").lower()
        if value not in ("true", "false"):
            raise UsageError(f"The option {name} is {value!r}.", "Give true or false.")
        return value == "true"

    def _is_derived(self, table: Table) -> bool:
        value = self.options.get("access", _LOG)
        if value not in (_LOG, _DERIVED):
            raise UsageError(f"The option access is {value!r}.", f"Give {_LOG} or {_DERIVED}.")
        if value == _DERIVED and table.name != "messages":
            raise UsageError(f"The option access does not go with the table {table.name}.", "It is for messages.")
        return value == _DERIVED

    def _table(self) -> Table:
        return find_table(self.options.get("table", "messages"))

    def _paths(self) -> list[str]:
        given = self.options.get("path")
        named = json.loads(self.options.get("paths", "[]")) if given is None else [given]
        if not named:
            raise UsageError("No store was named.", 'Give its path: .load("/path/to/store").')
        return paths_of(named)

    def _stores(self) -> list[StoreAt]:
        conf = self.options.get("broker_conf")
        settings = {_KEYS.get(key[len(_SETTING) :], key[len(_SETTING) :]): value for key, value in self._settings().items()}
        all_settings = self._object("settings") | settings
        remove_copies()  # those of an earlier query may be old
        return [
            StoreAt.of(path if is_remote(path) else Path(path), Path(conf) if conf else None, all_settings).marked()
            for path in self._paths()
        ]

    def _object(self, name: str) -> dict[str, str]:
        try:
            value = json.loads(self.options.get(name, "{}"))
        except ValueError:
            value = None
        if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
            raise UsageError(f"The option {name} is no JSON object of texts.", 'Give it as {"maxHashSlotNum": "5000000"}.')
        return value

    def _settings(self) -> Mapping[str, str]:
        return {key.lower(): value for key, value in self.options.items() if key.lower().startswith(_SETTING)}

    def _require_known_options(self) -> None:
        if "provider" in self.options:
            message = "Spark passes the options of a table that CREATE TABLE made to no data source in Python."
            raise UsageError(message, "Use CREATE TEMPORARY VIEW NAME USING rocketmq OPTIONS (path '/path/to/store').")
        unknown = [key for key in self.options if key.lower() not in _OPTIONS and not key.lower().startswith(_SETTING)]
        if unknown:
            raise UsageError(
                f"There is no option {unknown[0]!r}.",
                f"Options are {', '.join(_SHOWN.get(name, name) for name in _OPTIONS[2:])} and {_SETTING}KEY.",
            )


def paths_of(given: Iterable[str]) -> list[str]:
    """Return the paths and URIs of stores, those with wildcards in alphabetical order. Raises UsageError if none matches."""
    found: list[str] = []
    for path in (one.removeprefix("file:") for one in given):
        if is_remote(path):
            found += matching(path)
            continue
        if not _WILDCARDS.search(path) or Path(path).exists():
            found.append(path)
            continue
        anchor = Path(path).anchor
        directories = sorted(str(one) for one in Path(anchor).glob(path.removeprefix(anchor)) if one.is_dir())
        if not directories:
            raise UsageError(f"No directory matches {path}.", "Give the paths of stores.")
        found += directories
    return found


def _number(text: str, option: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise UsageError(f"The option {option} is {text!r}.", "Give a number of bytes, for example 67108864.")
    return int(text)


class RocketmqReader(DataSourceReader):
    """Reads chosen columns."""

    def __init__(
        self,
        table: Table,
        stores: Sequence[StoreAt],
        columns: Columns,
        largest: int,
        metrics: str | None,
        given: Mapping[str, Condition],
        derived: bool = False,
    ) -> None:
        self._name = table.name
        self._stores = stores
        self._columns = columns
        # A batch without a column has no rows.
        self._read = columns.of_table or (table.columns[0].name,)
        self._largest = largest
        self._metrics = metrics
        self._conditions = dict(given)
        self._derived = derived

    def partitions(self) -> list[InputPartition]:
        """Return a partition for each part of the table of each store."""
        table = find_table(self._name)
        try:
            return [InputPartition((at, part)) for at in self._stores for part in table.parts(at, self.selection, self._largest)]
        except RmqstoreError as error:
            raise SourceError(error) from error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part. Without any part, Spark requests a partition without a value."""
        if partition.value is None:
            return
        at: StoreAt
        part: Part
        at, part = partition.value
        rows = count = 0

        def advance(more: int) -> None:
            nonlocal count
            count += more

        try:
            at.require()
            for batch in find_table(self._name).read(part, self.selection, advance):
                rows += batch.num_rows
                yield self._columns.made(batch, at.path)
        except RmqstoreError as error:
            raise SourceError(named(error)) from error
        make_room()
        if self._metrics is not None:
            with Path(self._metrics).open("a", encoding="utf-8") as lines:
                lines.write(json.dumps({"table": self._name, "part": part.name, "bytes": count, "rows": rows}) + "\n")

    @property
    def selection(self) -> Selection:
        """Return what is read, pushed-down filters included."""
        return Selection(self._read, self._conditions, self._derived)


class FilteringReader(RocketmqReader):
    """Applies filters on the columns that the table can select by."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Yield the filters that Spark has to apply. Spark 4.0 does not call this, and applies all of them."""
        from rmqstore.pipeline.spark.pushdown import condition_of

        table = find_table(self._name)
        kinds = {column.name: column.type for column in table.columns if column.name in table.selectable}
        kinds |= {name: TIMESTAMP for name in self._columns.timestamps if name in kinds}
        for one in filters:
            name, condition = condition_of(one, kinds)
            if condition is None:
                yield one
            else:
                self._conditions[name] = condition.both(self._conditions.get(name, Condition()))
