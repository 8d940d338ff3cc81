"""A standalone cluster of Spark on this machine: a master, and workers that may see other files than the command does."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from rmqstore.pipeline.spark.find_java import find_java

SPARK = Path(pyspark.__file__).parent
_WAIT = 60


def without_session() -> dict[str, str]:
    """Return the environment without what a session of Spark in this process has set (tests/pipeline/conftest.py)."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH" and not name.startswith("PYSPARK_GATEWAY")}


def _start(directory: Path, name: str, *arguments: str, inside: str | None = None) -> tuple[subprocess.Popen[bytes], Path]:
    """Start a process of Spark; `inside`: commands of a shell that come first, in its own namespaces of mounts and host name."""
    printed = directory / f"{name}.log"
    classes = f"{SPARK / 'jars'}/*"
    # What the scripts of Spark would set.
    environment = without_session() | {"SPARK_HOME": str(SPARK), "SPARK_SCALA_VERSION": "2.13", "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [str(find_java()), "-cp", classes, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *arguments]
    if inside is not None:
        command = ["unshare", "--mount", "--uts", "sh", "-ec", f"hostname {name}; {inside}\nexec {shlex.join(command)}"]
    with printed.open("wb") as output:
        return subprocess.Popen(command, stdout=output, stderr=output, env=environment), printed


def _until(printed: Path, pattern: str) -> str:
    until = time.monotonic() + _WAIT
    while time.monotonic() < until:
        found = re.search(pattern, printed.read_text("utf-8", "replace"))
        if found:
            return found[0]
        time.sleep(0.1)
    raise AssertionError(f"{pattern} did not come: {printed.read_text('utf-8', 'replace')[-2000:]}")


@contextmanager
def cluster(directory: Path, workers: Sequence[str | None] = (None, None)) -> Iterator[str]:
    """Yield the address of a master with so many workers, each with one core; a text is run by the shell of a worker first."""
    modules = subprocess.run([find_java(), "--list-modules"], capture_output=True, text=True, check=True).stdout
    if "jdk.incubator.vector" not in modules:
        pytest.skip("executors of Spark's own scripts need a Java with the module jdk.incubator.vector")
    if any(workers) and subprocess.run(["unshare", "--mount", "--uts", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no permission for namespaces")
    here = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    processes = []
    try:
        process, printed = _start(directory, "master", "org.apache.spark.deploy.master.Master", *here)
        processes.append(process)
        url = _until(printed, r"spark://127\.0\.0\.1:\d+")
        for number, inside in enumerate(workers, 1):
            name = f"worker-{number}"
            options = ["--cores", "1", "--memory", "700m", "--work-dir", str(directory / name), *here, url]
            process, printed = _start(directory, name, "org.apache.spark.deploy.worker.Worker", *options, inside=inside)
            processes.append(process)
            _until(printed, "Successfully registered with master")
        yield url
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait(_WAIT)


CONF = ("--spark-conf", "spark.executor.memory=600m", "--spark-conf", "spark.driver.host=127.0.0.1")
"""Settings by which both executors fit here."""
