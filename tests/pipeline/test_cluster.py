"""A small standalone cluster on this machine, a master and two workers: the same answer as here, also when an executor is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipeline.cluster import CONF, cluster, without_session
from tests.support import stores
from tests.support.cli import rmqstore
from tests.support.waiting import PATIENCE

SAMPLE = "5.3.3-manyfiles-crash"


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with cluster(tmp_path_factory.mktemp("cluster")) as url:
        yield url


def command(master: str, *arguments: str) -> list[str]:
    """A process of its own: this one may have a session of another kind."""
    options = ["--format", "json", "--master", master, *CONF]
    return [sys.executable, "-P", "-m", "rmqstore", "verify", str(stores.sample_store(SAMPLE)), *options, *arguments]


@pytest.mark.exhaustive
def test_the_same_findings(master: str) -> None:
    expected = rmqstore("verify", stores.sample_store(SAMPLE), "--format", "json")

    done = subprocess.run(command(master), env=without_session(), capture_output=True, text=True, timeout=PATIENCE, check=False)

    assert done.returncode == 0, done.stderr
    *findings, summary = done.stdout.splitlines()
    assert findings == expected.out.splitlines()[:-1]
    assert json.loads(summary)["engine"] == "spark"
    assert json.loads(summary)["engine_because"].startswith("--master")


@pytest.mark.exhaustive
def test_an_executor_is_killed(master: str) -> None:
    expected = rmqstore("verify", stores.sample_store(SAMPLE), "--format", "json")

    with subprocess.Popen(command(master), env=without_session(), stdout=subprocess.PIPE, text=True) as process:
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
