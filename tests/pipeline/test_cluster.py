"""A small standalone cluster on this machine, a master and two workers: the same answer as here, also when an executor is killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from rmqstore.pipeline.spark.find_java import find_java
from tests.support import stores
from tests.support.cli import rmqstore
from tests.support.waiting import PATIENCE

SAMPLE = "5.3.3-manyfiles-crash"
SPARK = Path(pyspark.__file__).parent
_WAIT = 60


def _start(directory: Path, name: str, *arguments: str) -> tuple[subprocess.Popen[bytes], Path]:
    printed = directory / f"{name}.log"
    classes = f"{SPARK / 'jars'}/*"
    # What the scripts of Spark would set.
    environment = os.environ | {"SPARK_HOME": str(SPARK), "SPARK_SCALA_VERSION": "2.13", "SPARK_LOCAL_IP": "127.0.0.1"}
    with printed.open("wb") as output:
        command = [str(find_java()), "-cp", classes, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *arguments]
        return subprocess.Popen(command, stdout=output, stderr=output, env=environment), printed


def _until(printed: Path, pattern: str) -> str:
    until = time.monotonic() + _WAIT
    while time.monotonic() < until:
        found = re.search(pattern, printed.read_text("utf-8", "replace"))
        if found:
            return found[0]
        time.sleep(0.1)
    raise AssertionError(f"{pattern} did not come: {printed.read_text('utf-8', 'replace')[-2000:]}")


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    modules = subprocess.run([find_java(), "--list-modules"], capture_output=True, text=True, check=True).stdout
    if "jdk.incubator.vector" not in modules:
        pytest.skip("executors of Spark's own scripts need a Java with the module jdk.incubator.vector")
    directory = tmp_path_factory.mktemp("cluster")
    here = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    processes = []
    try:
        process, printed = _start(directory, "master", "org.apache.spark.deploy.master.Master", *here)
        processes.append(process)
        url = _until(printed, r"spark://127\.0\.0\.1:\d+")
        for name in ("one", "two"):
            options = ["--cores", "1", "--memory", "700m", "--work-dir", str(directory / name), *here, url]
            process, printed = _start(directory, name, "org.apache.spark.deploy.worker.Worker", *options)
            processes.append(process)
            _until(printed, "Successfully registered with master")
        yield url
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait(_WAIT)


def elsewhere() -> dict[str, str]:
    """The environment without the session that other tests of this process may have."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_GATEWAY")}


def command(master: str, *arguments: str) -> list[str]:
    """A process of its own: this one may have a session of another kind."""
    conf = ["--spark-conf", "spark.executor.memory=600m", "--spark-conf", "spark.driver.host=127.0.0.1"]
    options = ["--format", "json", "--master", master, *conf]
    return [sys.executable, "-m", "rmqstore", "verify", str(stores.sample_store(SAMPLE)), *options, *arguments]


@pytest.mark.exhaustive
def test_the_same_findings(master: str) -> None:
    expected = rmqstore("verify", stores.sample_store(SAMPLE), "--format", "json")

    done = subprocess.run(command(master), env=elsewhere(), capture_output=True, text=True, timeout=PATIENCE, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    *findings, summary = done.stdout.splitlines()
    assert findings == expected.out.splitlines()[:-1]
    assert json.loads(summary)["engine"] == "spark"
    assert json.loads(summary)["engine_because"].startswith("--master")


@pytest.mark.exhaustive
def test_an_executor_is_killed(master: str) -> None:
    expected = rmqstore("verify", stores.sample_store(SAMPLE), "--format", "json")

    with subprocess.Popen(command(master), env=elsewhere(), stdout=subprocess.PIPE, text=True) as process:
        killed = False
        while process.poll() is None and not killed:
            executors = [pid for pid in _processes() if b"CoarseGrainedExecutorBackend" in _command_line(pid)]
            for pid in executors[:1]:
                os.kill(pid, signal.SIGKILL)
                killed = True
            time.sleep(0.05)
        output, _ = process.communicate(timeout=PATIENCE)

    assert killed
    assert process.returncode == 0
    assert output.splitlines()[:-1] == expected.out.splitlines()[:-1]


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
