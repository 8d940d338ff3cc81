"""The findings of stores as a frame, of large stores found by all executors.

The data source reads the findings of a store in one task: what one part of a store has is compared with what the others have. A job
with the session of the user verifies a large store in pieces, as `rmqstore verify --master` does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import reduce

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from rmqstore.errors import UsageError
from rmqstore.pipeline.filesystems import is_remote
from rmqstore.pipeline.job import StoreAt
from rmqstore.pipeline.remote import log_size
from rmqstore.pipeline.spark import source
from rmqstore.pipeline.spark.columns import STORE, Columns, columns_ddl
from rmqstore.pipeline.spark.preflight import context_of, preflight
from rmqstore.pipeline.spark.runner import SparkRunner
from rmqstore.pipeline.tables.findings import TABLE
from rmqstore.pipeline.tables.table import everything
from rmqstore.reading.progress import silent

_NAMES = (STORE.name, *(column.name for column in TABLE.columns))
_COLUMNS = Columns(_NAMES, frozenset())
_OF_JOBS = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
"""What jobs set for the thread of the user."""


def findings(session: SparkSession, *stores: str, settings: Mapping[str, str] | None = None) -> DataFrame:
    """Return the findings of stores, given by paths or URIs, also with wildcards: column `store`, then those of the table `findings`.

    Stores with more than 4 GiB of log are verified here, in pieces of 256 MiB on all executors; their findings are in the memory of
    this process until the frame has them. Smaller ones are verified when the frame is used, each by one task; so are all where the
    session is a client of Spark Connect, which cannot run jobs. `settings` as in broker.conf. Raises UsageError, NotAStoreError,
    UnreadableError, StoreChangedError, RefusedError.
    """
    paths = source.paths_of(stores)
    if not paths:
        raise UsageError("No store was named.", 'Give its path: findings(spark, "/path/to/store").')
    source.register(session)
    context = context_of(session)
    if context is None:
        return _read(session, paths, settings)
    places = [StoreAt.of(path, settings=settings) for path in paths]
    for at in places:
        if not is_remote(at.path):
            at.open()  # a path without a store ends here, with the words of a command
    large = [at for at in places if is_large(at)]
    frames = [verified(session, context, at) for at in large]
    small = [at.path for at in places if at not in large]
    if small:
        frames.append(_read(session, small, settings))
    return reduce(DataFrame.unionByName, frames)


def _read(session: SparkSession, paths: list[str], settings: Mapping[str, str] | None) -> DataFrame:
    reader = session.read.format(source.FORMAT).options(table=TABLE.name, settings=json.dumps(dict(settings or {})))
    return reader.schema(columns_ddl(TABLE, _NAMES)).load(paths)


def is_large(at: StoreAt) -> bool:
    """Return whether a store is worth a job of its own."""
    from rmqstore.pipeline.verify import LARGE_STORE

    return log_size(at) > LARGE_STORE


def verified(session: SparkSession, context: SparkContext, at: StoreAt) -> DataFrame:
    """Return the findings of one store, whose log the executors read. Raises what reading a store raises."""
    from rmqstore.doctor.foresight import foresee
    from rmqstore.pipeline.verify import PATIENCE, passes_of
    from rmqstore.verify.context import Options
    from rmqstore.verify.engine import Verification

    options = Options()
    try:
        preflight(context)
        passes = passes_of(SparkRunner(context), at, options)
        found = Verification(at.open(), options, passes, foresee, patience=PATIENCE).run(silent)
        batches = [_COLUMNS.made(batch, at.path) for batch in TABLE.batches(found, at, everything(TABLE))]
    finally:
        for name in _OF_JOBS:
            context.setLocalProperty(name, None)  # type: ignore[arg-type]  # removes it
    if not batches:
        return session.createDataFrame([], columns_ddl(TABLE, _NAMES))
    return session.createDataFrame(pa.Table.from_batches(batches))
