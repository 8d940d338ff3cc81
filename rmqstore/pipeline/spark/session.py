"""The Spark of a command: on this machine started as fast as possible, once, and silent; on another master as PySpark starts it.

On any master that is not local, settings, log, interface and Java are those of the user's Spark: `spark-defaults.conf`, the environment
and --spark-conf.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

from rmqstore.children import SAFE_PATH
from rmqstore.errors import RefusedError
from rmqstore.pipeline.spark.configuration import LOG_LEVEL, has_log_settings
from rmqstore.pipeline.spark.failures import OF_JAVA, recognized, with_cause
from rmqstore.pipeline.spark.find_java import find_java
from rmqstore.pipeline.spark.handover import DAEMON, JOBS, SQL
from rmqstore.pipeline.spark.java_process import SparkJava
from rmqstore.pipeline.spark.masters import require_master
from rmqstore.pipeline.spark.preflight import preflight

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

TRIES = 3
"""How often a task is tried that fails for a reason that may pass, such as a worker that was killed."""

_GATEWAY_PORT = "PYSPARK_GATEWAY_PORT"
_NOTHING_TO_FINISH = frozenset({"spark.driver.memory", "spark.sql.session.timeZone", "spark.sql.shuffle.partitions"})
"""Settings that leave nothing which Spark would have to put in order at its end."""
_EMBEDDED = {
    "spark.ui.enabled": "false",
    LOG_LEVEL: "OFF",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.python.daemon.module": DAEMON,
    # Packets are dense numbers; packing them costs more than moving them.
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
}
"""Settings of a Spark in a Java of the command."""
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
    if _GATEWAY_PORT not in os.environ:
        if not _is_local(settings["spark.master"]):
            require_master(settings["spark.master"])
            if not has_log_settings():
                settings.setdefault(LOG_LEVEL, "OFF")
            # The scripts of Spark find no other one.
            os.environ.setdefault("JAVA_HOME", str(find_java().parent.parent))
        elif _java is None:
            _java = SparkJava(settings, kind=kind, plain=set(conf) <= _NOTHING_TO_FINISH)
    # Once: `sql` asks for it with each statement.
    return cache(lambda: _connected(settings))


def _is_local(master: str) -> bool:
    return master.startswith("local") and not master.startswith("local-cluster")


def _connected(settings: Mapping[str, str]) -> SparkContext:
    # Imported while Java starts.
    from pyspark import SparkConf, SparkContext

    if _java is not None and _GATEWAY_PORT not in os.environ:
        port, secret = _java.connection()
        os.environ[_GATEWAY_PORT], os.environ["PYSPARK_GATEWAY_SECRET"] = str(port), secret
    try:
        context = SparkContext.getOrCreate(SparkConf().setAll(list(settings.items())))
        if not _is_local(context.master or ""):
            _be_quiet(context)
            preflight(context)
    except RefusedError:
        raise
    except Exception as error:
        text = str(error)
        known = recognized(text)
        if known is not None:
            raise known from error
        raise RefusedError(
            f"Spark did not start: {with_cause(text) or type(error).__name__}.", "Check --master and --spark-conf."
        ) from error
    if _java is None or _java.must_finish:
        atexit.register(_stop, context)
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        # It would print a traceback when Java is killed; the code that waits for Java reports that.
        server.handle_error = lambda request, client: None
    return context


def _be_quiet(context: SparkContext) -> None:
    """Turn the log of Spark off, which has the stack of every error, unless the user's configuration says what it contains.

    Without spark-submit it is off from the beginning, so that a master that cannot be reached is one sentence.
    """
    if not has_log_settings() and not context.getConf().contains(LOG_LEVEL):
        context.setLogLevel("OFF")


def _stop(context: SparkContext) -> None:
    with suppress(*OF_JAVA):
        context.stop()


def _settings(master: str | None, conf: Mapping[str, str]) -> dict[str, str]:
    os.environ.setdefault("PYSPARK_PYTHON", conf.get("spark.pyspark.python") or sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    settings = {"spark.app.name": "rmqstore", f"spark.executorEnv.{SAFE_PATH}": "1", "spark.ui.showConsoleProgress": "false"}
    if master is not None or _GATEWAY_PORT not in os.environ:
        settings["spark.master"] = master or conf.get("spark.master") or default_master()
    if _is_local(settings.get("spark.master", "")):
        settings |= _EMBEDDED
    return settings | dict(conf)
