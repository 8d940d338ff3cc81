"""The Spark session of a command: started as fast as possible, once, and silent.

The Java process is started directly instead of through the scripts of Spark, which start a second Java to find out how to start the first.
What it prints goes to a file; the person sees it only when Spark does not start.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError, Py4JJavaError

from rmqstore.errors import RefusedError, RmqstoreError
from rmqstore.pipeline.java import find_java

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

OF_JAVA = (Py4JError, ConnectionError)
"""What calls of Java raise."""
TRIES = 3
"""How often a task is tried that fails for a reason that may pass, such as a worker that was killed."""

_PATIENCE = 60
_STOPPING = 10
_GATEWAY_PORT = "PYSPARK_GATEWAY_PORT"
# What Spark asks of Java 17 and later (its class JavaModuleOptions), but for the vector module: small runtimes do not have it.
_OPENED = (
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "jdk.internal.ref",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
)
# Most of a start is the loading of classes; those of Spark's own package need no verification.
_QUICK_START = (
    *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
    *("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote"),
)


def default_master(cores: int | None = None) -> str:
    """All processors that this process may use, or `cores` of them, in one Java process."""
    return f"local[{cores or len(os.sched_getaffinity(0))},{TRIES}]"


def open_context(master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkContext:
    """Spark for jobs of Python alone; a second call gives the same one. `master` and `conf` as spark-submit takes them.

    Inside of spark-submit its Java and its master are used. Raises RefusedError when there is no Java or Spark does not start.
    """
    settings = _settings(master, conf or {})
    # With a handler that does nothing; without any, what a stopped command was waiting for is told with a traceback.
    logging.getLogger().addHandler(logging.NullHandler())
    if _GATEWAY_PORT not in os.environ:
        _start_java(settings)
    # Imported while Java starts.
    from pyspark import SparkConf, SparkContext

    try:
        context = SparkContext.getOrCreate(SparkConf().setAll(list(settings.items())))
    except Exception as error:
        raise RefusedError(f"Spark did not start: {_first_line(error)}.", "Check --master and --spark-conf.") from error
    atexit.register(_stop, context)
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        # It would print a traceback when Java is killed; whoever waits for Java tells of that.
        server.handle_error = lambda request, client: None
    return context


def _stop(context: SparkContext) -> None:
    with suppress(*OF_JAVA):
        context.stop()


def open_session(master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Spark with its SQL, for tables; otherwise as `open_context`."""
    open_context(master, conf)
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()


def java_ended(error: Exception) -> RmqstoreError | None:
    """What to tell when `error` says that the Java process of Spark is gone, maybe killed by the system for its memory; else None."""
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
        "spark.python.daemon.module": "rmqstore.pipeline.spark_daemon",
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


def _start_java(settings: Mapping[str, str]) -> None:
    """Starts the Java side of PySpark and tells PySpark where it listens. Raises RefusedError."""
    java = find_java()
    home = Path(os.environ.get("SPARK_HOME") or _package_of_pyspark())
    directory = Path(tempfile.mkdtemp(prefix="rmqstore-spark-"))
    printed, connection = directory / "printed", directory / "connection"
    command: list[str | Path] = [java, "-cp", f"{home / 'jars'}/*", f"-Xmx{settings.get('spark.driver.memory', '1g')}", *_QUICK_START]
    command += [
        "-XX:+IgnoreUnrecognizedVMOptions",
        "-Djdk.reflect.useDirectMethodHandle=false",
        "-Dio.netty.tryReflectionSetAccessible=true",
        # Or Arrow batches do not move on Java 24 and later.
        "-Dio.netty.noUnsafe=false",
    ]
    command += [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
    command += settings.get("spark.driver.extraJavaOptions", "").split()
    command += ["org.apache.spark.deploy.SparkSubmit"]
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    environment = os.environ | {"_PYSPARK_DRIVER_CONN_INFO_PATH": str(connection), "SPARK_HOME": str(home), "SPARK_CONNECT_MODE": "0"}
    with printed.open("wb") as output:
        # In a session of its own: Ctrl-C is for the command, which then ends this process, too.
        process = subprocess.Popen(
            [*command, "pyspark-shell"],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
        )
    atexit.register(_end, process, directory)
    port, secret = _connection(process, connection, printed)
    os.environ[_GATEWAY_PORT], os.environ["PYSPARK_GATEWAY_SECRET"] = str(port), secret


def _connection(process: subprocess.Popen[bytes], connection: Path, printed: Path) -> tuple[int, str]:
    """(port, secret) that Java writes down when it listens."""
    import pyspark.sql  # noqa: F401  -- takes as long as Java does

    until = time.monotonic() + _PATIENCE
    while not connection.exists():
        if process.poll() is not None or time.monotonic() > until:
            lines = printed.read_text("utf-8", "replace").strip().splitlines()
            told = next((line for line in lines if "Exception" in line or "rror" in line), lines[-1] if lines else "Java said nothing")
            raise RefusedError(f"Spark did not start: {told.strip()}", "Check --master and --spark-conf, or use --engine local.")
        time.sleep(0.01)
    data = connection.read_bytes()
    length = int.from_bytes(data[4:8], "big")
    return int.from_bytes(data[:4], "big"), data[8 : 8 + length].decode()


def _end(process: subprocess.Popen[bytes], directory: Path) -> None:
    """Java ends when its input does; its temporary files go with it."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(_STOPPING)
    except subprocess.TimeoutExpired:
        process.kill()
    shutil.rmtree(directory, ignore_errors=True)


def _package_of_pyspark() -> Path:
    from importlib import util

    package = util.find_spec("pyspark")
    if package is None or package.origin is None:
        raise RefusedError("The package pyspark is not installed.", "Run `pip install 'pyspark[sql]'`, or use --engine local.")
    return Path(package.origin).parent


def _first_line(error: Exception) -> str:
    """The first line that names what went wrong: what PySpark says of an error of Java begins with the call, then comes the error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = next((line.removeprefix(": ") for line in lines if line.startswith(": ")), None)
    return (named or (lines[0] if lines else type(error).__name__)).rstrip(".")
