"""The Spark session of a command: started as fast as possible, once, and silent."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError, Py4JJavaError

from rmqstore.children import SAFE_PATH
from rmqstore.errors import RefusedError, RmqstoreError
from rmqstore.pipeline.spark.handover import DAEMON, JOBS, SQL
from rmqstore.pipeline.spark.java_process import SparkJava

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

OF_JAVA = (Py4JError, ConnectionError)
"""The exceptions of calls of Java."""
TRIES = 3
"""How often a task is tried that fails for a reason that may pass, such as a worker that was killed."""

_GATEWAY_PORT = "PYSPARK_GATEWAY_PORT"
_NOTHING_TO_FINISH = frozenset({"spark.driver.memory", "spark.sql.session.timeZone", "spark.sql.shuffle.partitions"})
"""Settings that leave nothing which Spark would have to put in order at its end."""
_java: SparkJava | None = None

Opener = Callable[[], "SparkSession"]
"""A function that waits for the starting Spark."""


def default_master(cores: int | None = None) -> str:
    """Return the master for all processors that this process may use, or `cores` of them, in one Java process."""
    return f"local[{cores or len(os.sched_getaffinity(0))},{TRIES}]"


def open_context(master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkContext:
    """Return Spark for jobs of Python alone; a second call returns the same one. `master` and `conf` as spark-submit takes them.

    Inside of spark-submit its Java and its master are used. Raises RefusedError if there is no Java or Spark does not start.
    """
    return begin_context(master, conf)()


def begin_context(master: str | None = None, conf: Mapping[str, str] | None = None) -> Callable[[], SparkContext]:
    """Start Java and return a function that waits for it and then acts as `open_context`. Both raise RefusedError."""
    return _begin(master, conf or {}, JOBS)


def open_session(master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Return Spark with its SQL, for tables; otherwise as `open_context`."""
    return begin_session(master, conf)()


def begin_session(master: str | None = None, conf: Mapping[str, str] | None = None) -> Opener:
    """Start Java as `begin_context`, for `open_session`."""
    connected = _begin(master, conf or {}, SQL)

    def opened() -> SparkSession:
        connected()
        from pyspark.sql import SparkSession

        return SparkSession.builder.getOrCreate()

    return opened


def has_worked() -> None:
    """Record that Spark completed its work."""
    if _java is not None:
        _java.has_worked = True


def _begin(master: str | None, conf: Mapping[str, str], kind: str) -> Callable[[], SparkContext]:
    global _java  # noqa: PLW0603  -- a process has one Java, as it has one SparkContext
    settings = _settings(master, conf)
    # With an empty handler; without any, PySpark prints the traceback of a stopped command.
    logging.getLogger().addHandler(logging.NullHandler())
    if _java is None and _GATEWAY_PORT not in os.environ:
        plain = settings["spark.master"].startswith("local") and set(conf) <= _NOTHING_TO_FINISH
        _java = SparkJava(settings, kind=kind, plain=plain)
    return lambda: _connected(settings)


def _connected(settings: Mapping[str, str]) -> SparkContext:
    # Imported while Java starts.
    from pyspark import SparkConf, SparkContext

    if _java is not None and _GATEWAY_PORT not in os.environ:
        port, secret = _java.connection()
        os.environ[_GATEWAY_PORT], os.environ["PYSPARK_GATEWAY_SECRET"] = str(port), secret
    try:
        context = SparkContext.getOrCreate(SparkConf().setAll(list(settings.items())))
    except Exception as error:
        raise RefusedError(f"Spark did not start: {_first_line(error)}.", "Check --master and --spark-conf.") from error
    if _java is None or _java.must_finish:
        atexit.register(_stop, context)
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        # It would print a traceback when Java is killed; the code that waits for Java reports that.
        server.handle_error = lambda request, client: None
    return context


def _stop(context: SparkContext) -> None:
    with suppress(*OF_JAVA):
        context.stop()


def java_ended(error: Exception) -> RmqstoreError | None:
    """Return the error to report if `error` means that Java is gone, maybe killed by the system for its memory; else None."""
    if isinstance(error, Py4JJavaError) or not isinstance(error, OF_JAVA):
        return None
    return RmqstoreError(
        "The Java process of Spark ended before the work was done.",
        "Run the command again, with more memory (--spark-conf spark.driver.memory=4g) or with --engine local.",
    )


def _settings(master: str | None, conf: Mapping[str, str]) -> dict[str, str]:
    python = sys.executable
    os.environ.setdefault("PYSPARK_PYTHON", python)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", python)
    settings = {
        "spark.app.name": "rmqstore",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.python.daemon.module": DAEMON,
        f"spark.executorEnv.{SAFE_PATH}": "1",
        "spark.sql.python.filterPushdown.enabled": "true",
        # Packets are dense numbers; packing them costs more than moving them.
        "spark.shuffle.compress": "false",
        "spark.shuffle.spill.compress": "false",
    }
    if master is not None or _GATEWAY_PORT not in os.environ:
        settings["spark.master"] = master or conf.get("spark.master") or default_master()
    if settings.get("spark.master", "").startswith("local"):
        settings |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    return settings | dict(conf)


def _first_line(error: Exception) -> str:
    """Return the first line with the reason: PySpark's text of an error of Java begins with the call, then comes the error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = next((line.removeprefix(": ") for line in lines if line.startswith(": ")), None)
    return (named or (lines[0] if lines else type(error).__name__)).rstrip(".")
