"""The Java process of Spark: started directly, silent, and ended with the command.

The scripts of Spark start a second Java to find out how to start the first. The output of Java goes to a file, which is shown only if
Spark does not start. Unless a setting requires an orderly end of Java, it is not asked for one.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib import util
from pathlib import Path

from rmqstore.children import environment
from rmqstore.errors import RefusedError
from rmqstore.kept import private_directory
from rmqstore.pipeline.spark.find_java import find_java, version_of
from rmqstore.pipeline.spark.handover import DAEMON, WAITING
from rmqstore.pipeline.spark.java_classes import CdsArchive

_PATIENCE = 60
"""Seconds for Java to listen, and to keep its classes."""
_STOPPING = 10
# The options of Spark for Java 17 and later (its class JavaModuleOptions), without the vector module: small runtimes do not have it.
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
# Classes of Spark's own package need no verification.
_QUICK_START = (
    *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
    *("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote"),
)
_OPTIONS = (
    *_QUICK_START,
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    # Required to move Arrow batches on Java 24 and later.
    "-Dio.netty.noUnsafe=false",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
)
_SET_OUTSIDE = ("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_LOCAL_DIRS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
"""Variables by which Java or Spark may do more than is known here, as they may by a file of settings."""


class SparkJava:
    """A process that PySpark can be connected to; it ends when this one does. `plain`: no setting gives Spark anything to finish."""

    def __init__(self, settings: Mapping[str, str], *, kind: str, plain: bool) -> None:
        """Start the process. `kind` of work, for which it keeps its classes. Raises RefusedError without a Java."""
        self._java = find_java()
        self._home = Path(os.environ.get("SPARK_HOME") or _package_of_pyspark())
        self._settings = settings
        outside = any(os.environ.get(name) for name in _SET_OUTSIDE) or (self._home / "conf" / "spark-defaults.conf").exists()
        self._plain = plain and not outside
        version = version_of(self._java) or 0
        self._classes = CdsArchive(self._java, version, self._home / "jars", _OPTIONS, kind) if self._plain else None
        self._directory = private_directory("rmqstore-spark-")
        self.has_worked = False
        """Whether it completed its work: then its classes are worth keeping."""
        self._kind = kind
        self._daemon: subprocess.Popen[bytes] | None = None
        self._process = self._launch()
        atexit.register(self._end)

    def _launch(self) -> subprocess.Popen[bytes]:
        memory = self._settings.get("spark.driver.memory", "1g")
        command: list[str | Path] = [self._java, "-cp", f"{self._home / 'jars'}/*", f"-Xmx{memory}", *_OPTIONS]
        command += [f"-XX:ErrorFile={self._directory}/error", *([f"-Djava.io.tmpdir={self._directory}"] if self._plain else [])]
        command += self._classes.option if self._classes is not None else []
        command += self._settings.get("spark.driver.extraJavaOptions", "").split()
        command += ["org.apache.spark.deploy.SparkSubmit"]
        command += [word for key, value in self._settings.items() for word in ("--conf", f"{key}={value}")] + ["pyspark-shell"]
        variables = {
            WAITING: str(self._directory / "daemon"),
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._directory / "connection"),
            "SPARK_HOME": str(self._home),
            "SPARK_CONNECT_MODE": "0",
        }
        with (self._directory / "printed").open("wb") as output:
            # In a session of its own: Ctrl-C is for the command, which then ends this process, too.
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=environment(**variables),
                start_new_session=True,
            )

    def _begin_daemon(self) -> subprocess.Popen[bytes]:
        """Start the process that Python workers are forked from. It gets no Ctrl-C either; it ends with its input or Spark's."""
        waits = "--wait", self._directory / "daemon", self._kind
        return subprocess.Popen(
            [os.environ.get("PYSPARK_PYTHON") or sys.executable, "-m", DAEMON, *waits],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(),
            process_group=0,
        )

    @property
    def must_finish(self) -> bool:
        """Return whether Spark has to be stopped in order."""
        return not self._plain

    def connection(self) -> tuple[int, str]:
        """Return (port, secret), which Java writes down when it listens. Raises RefusedError if it does not start."""
        written = self._directory / "connection"
        until = time.monotonic() + _PATIENCE
        while not written.exists():
            if self._process.poll() is not None and self._classes is not None and self._classes.are_kept:
                # A file of kept classes that a disk has damaged can end Java.
                self._classes.forget()
                self._process = self._launch()
            elif self._process.poll() is not None or time.monotonic() > until:
                lines = (self._directory / "printed").read_text("utf-8", "replace").strip().splitlines()
                cause = next((line for line in lines if "Exception" in line or "rror" in line), lines[-1] if lines else "Java was silent")
                raise RefusedError(f"Spark did not start: {cause.strip()}", "Check --master and --spark-conf, or use --engine local.")
            time.sleep(0.01)
        if self._plain and self._daemon is None:
            # Not before: until here the command and Java load what they need and use both processors.
            self._daemon = self._begin_daemon()
        data = written.read_bytes()
        length = int.from_bytes(data[4:8], "big")
        return int.from_bytes(data[:4], "big"), data[8 : 8 + length].decode()

    def _end(self) -> None:
        """End the process and remove its temporary files; keep the classes if it ended normally."""
        if self._classes is not None and self._process.poll() is not None:
            self._classes.forget()
        if self._classes is not None and self.has_worked and self._classes.are_due:
            self._keep_classes(self._classes)
        if self._plain:
            self._process.kill()
        if self._daemon is not None:
            # With its workers, whose work is no longer needed.
            with suppress(OSError):
                os.killpg(self._daemon.pid, signal.SIGKILL)
        for process in (self._process, self._daemon):
            if process is not None:
                _ended(process)
        if self._classes is not None:
            self._classes.discard()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _keep_classes(self, classes: CdsArchive) -> None:
        """Let Java keep the classes when it ends normally, as it does with its input; Ctrl-C postpones that to another run."""
        if sys.stderr is not None and sys.stderr.isatty():
            sys.stderr.write("Keeping the classes of Spark for later starts, once; this takes about ten seconds ...\n")
        try:
            if self._process.stdin is not None:
                self._process.stdin.close()
            if self._process.wait(_PATIENCE) == 0:
                classes.keep()
        except (subprocess.TimeoutExpired, KeyboardInterrupt, OSError):
            self._process.kill()


def _ended(process: subprocess.Popen[bytes]) -> None:
    """End the input of a process, and with it the process."""
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    try:
        process.wait(_STOPPING)
    except subprocess.TimeoutExpired:
        process.kill()


def _package_of_pyspark() -> Path:
    package = util.find_spec("pyspark")
    if package is None or package.origin is None:
        raise RefusedError("The package pyspark is not installed.", "Run `pip install 'pyspark[sql]'`, or use --engine local.")
    return Path(package.origin).parent
