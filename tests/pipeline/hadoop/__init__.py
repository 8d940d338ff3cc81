"""A small HDFS and a small YARN, each a process of Java with the classes that Hadoop tests itself with."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.broker.toolchain import JarsMissing, class_path, missing
from tests.support.waiting import PATIENCE

_HERE = Path(__file__).parent
_HDFS = "org.apache.hadoop.test.MiniDFSClusterManager"


@contextmanager
def hdfs(directory: Path) -> Iterator[str]:
    """Yield the URI of a name node with one data node; skip the test where it cannot run. Files go to `directory`."""
    details = directory / "details.json"
    with _running(directory, [_HDFS, "-datanodes", "1", "-format", "-writeDetails", str(details)], details, "}"):
        yield f"hdfs://localhost:{json.loads(details.read_text())['namenode_port']}"


@contextmanager
def yarn(directory: Path) -> Iterator[Path]:
    """Yield the directory of a configuration for clients of YARN with one node; skip the test where it cannot run."""
    conf = directory / "conf"
    conf.mkdir()
    with _running(directory, [str(_HERE / "SmallYarn.java"), str(conf / "yarn-site.xml")], conf / "yarn-site.xml", "</configuration>"):
        yield conf


@contextmanager
def _running(directory: Path, arguments: Sequence[str], made: Path, end: str) -> Iterator[None]:
    """Run Java until the end of the context, which begins when a file has this end."""
    if missing() is not None:
        pytest.skip(f"Hadoop cannot run here: {missing()}")
    try:
        jars = class_path("hadoop", _HERE / "pom.xml")
    except JarsMissing as error:
        pytest.skip(f"Maven cannot get the jars of Hadoop: {error}")
    printed = directory / "hadoop.log"
    command = ["java", "-Xmx512m", "--add-opens", "java.base/java.lang=ALL-UNNAMED", "-cp", jars, *arguments]
    with printed.open("w") as output:
        process = subprocess.Popen(command, cwd=directory, stdout=output, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + PATIENCE
        while not made.exists() or not made.read_text().rstrip().endswith(end):
            assert process.poll() is None and time.monotonic() < deadline, printed.read_text()[-3000:]
            time.sleep(0.1)
        yield
    finally:
        process.kill()
        process.wait()
