"""The process from which Spark forks Python workers, started ahead of Spark: it takes over from the one that Spark starts, once."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rmqstore.pipeline.spark.handover import WAITING
from tests.support import stores
from tests.support.waiting import PATIENCE

SECRET = "secret-of-this-test"


@contextmanager
def daemon(*arguments: str, environment: dict[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "rmqstore.pipeline.spark.daemon", *arguments]
    variables = os.environ | {"PYTHON_WORKER_FACTORY_SECRET": SECRET, **(environment or {})}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables, process_group=0, cwd=Path(__file__).parents[2]
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    path = tmp_path / "daemon"
    with daemon("--wait", str(path), "jobs") as process:
        until = time.monotonic() + PATIENCE
        while not path.exists():
            assert time.monotonic() < until
            time.sleep(0.01)
        yield process, path


def port_of(process: subprocess.Popen[bytes]) -> int:
    assert process.stdout is not None
    return int.from_bytes(process.stdout.read(4), "big")


def parent_of_a_worker(port: int) -> int:
    """The process that a worker which is asked for at the port was forked from."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as asked:
        asked.sendall(len(SECRET).to_bytes(4, "big") + SECRET.encode())
        pid = int.from_bytes(asked.recv(4), "big")
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_it_takes_over_and_ends_with_what_spark_started(waiting: tuple[subprocess.Popen[bytes], Path]) -> None:
    process, path = waiting
    with daemon("pyspark.worker", environment={WAITING: str(path)}) as started:
        assert parent_of_a_worker(port_of(started)) == process.pid
        assert started.stdin is not None
        started.stdin.close()
        process.wait(PATIENCE)
        assert started.wait(PATIENCE) == 0


def test_the_next_one_serves_itself(waiting: tuple[subprocess.Popen[bytes], Path]) -> None:
    process, path = waiting
    with daemon("pyspark.worker", environment={WAITING: str(path)}) as first:
        port_of(first)
        process.kill()
        assert first.wait(PATIENCE) == 0
    with daemon("pyspark.worker", environment={WAITING: str(path)}) as second:
        assert parent_of_a_worker(port_of(second)) == second.pid


def test_it_ends_with_the_command(waiting: tuple[subprocess.Popen[bytes], Path]) -> None:
    process, _ = waiting
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(PATIENCE) == 0


@pytest.mark.exhaustive
def test_a_temporary_directory_whose_name_is_too_long_for_sockets_is_no_trouble(tmp_path: Path) -> None:
    long = tmp_path / ("temporary-" * 12)
    long.mkdir()
    root = stores.sample_store("5.3.3-plain")
    command = [sys.executable, "-m", "rmqstore", "stats", str(root), "--engine", "spark", "--format", "json"]
    command += stores.case("5.3.3-plain").set_options(root)
    # Another Spark that a test has started is not this one's.
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_GATEWAY_")} | {"TMPDIR": str(long)}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout.splitlines()[0])
    assert not list(long.glob("rmqstore-*"))
