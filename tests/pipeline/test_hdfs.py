"""Stores in HDFS, a small one of Hadoop itself: results equal those of the directory, and what is written arrives as a whole."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import fs

from rmqstore.pipeline.filesystems import opened
from rmqstore.pipeline.job import StoreAt
from rmqstore.pipeline.remote import at_hand
from tests.pipeline.by_uri import assert_the_same_results
from tests.pipeline.hadoop import hdfs
from tests.support.cli import rmqstore
from tests.support.stores import content, fresh_store, sample_store
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.exhaustive
SAMPLE = "5.3.3-plain"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URI of a name node with one data node, which has the sample store at `/store`."""
    with hdfs(tmp_path_factory.mktemp("hdfs")) as uri:
        there, base = opened(f"{uri}/store")
        fs.copy_files(str(sample_store(SAMPLE)), base, source_filesystem=fs.LocalFileSystem(), destination_filesystem=there)
        yield uri


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_results_are_those_of_the_directory(address: str, engine: str) -> None:
    assert_the_same_results(sample_store(SAMPLE), f"{address}/store", "--engine", engine)


def test_wildcards(address: str) -> None:
    found = rmqstore("stats", f"{address}/st*e", "--format", "json")
    assert found.status == 0, found.err
    assert found.objects[:-1] == rmqstore("stats", f"{address}/store", "--format", "json").objects[:-1]
    assert found.objects[-1]["messages"] == 480


def test_a_copy_is_the_store(address: str) -> None:
    system, _ = opened(address)
    with at_hand(StoreAt.of(f"{address}/store")) as here:
        copy = Path(here.path)
        assert content(copy) == content(sample_store(SAMPLE))
        for path in copy.rglob("*"):
            if path.is_file():
                assert path.stat().st_mtime_ns == system.get_file_info(f"/store/{path.relative_to(copy)}").mtime_ns


def test_an_export_arrives_and_is_continued(address: str) -> None:
    root, out = sample_store(SAMPLE), f"{address}/exports/out"
    there, base = opened(out)
    for _ in range(2):
        done = rmqstore("export", root, out, "--format", "jsonl")
        assert done.status == 0, done.err
    names = [info.base_name for info in there.get_file_info(fs.FileSelector(base))]
    lines = [line for name in names if name.endswith(".jsonl") for line in there.open_input_stream(f"{base}/{name}").read().splitlines()]
    assert len(lines) == 480
    assert "_SUCCESS" in names
    assert not [name for name in names if name.startswith(".")]

    there.delete_file(f"{base}/_SUCCESS")  # files of a piece are replaced if its record was not written
    there.delete_dir(f"{base}/_pieces")
    again = rmqstore("export", root, out, "--format", "jsonl", "--engine", "spark")
    assert again.status == 0, again.err
    assert sorted(names) == sorted(info.base_name for info in there.get_file_info(fs.FileSelector(base)))


def test_a_rebuild_through_a_work_directory(address: str, tmp_path: Path) -> None:
    root = fresh_store(SAMPLE, tmp_path)
    shutil.rmtree(root / "consumequeue")
    done = rmqstore("recover", root, "--engine", "spark", "--work-dir", f"{address}/work", "--yes")
    assert done.status == 0, done.err
    there, _ = opened(address)
    assert not there.get_file_info(fs.FileSelector("/work"))
    assert rmqstore("verify", root).status == 0


def test_what_cannot_be_reached(address: str) -> None:
    none = rmqstore("info", f"{address}/nothing")
    assert (none.status, none.crashed) == (4, False)
    assert "/nothing is no directory" in none.err
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    silent = rmqstore("info", f"hdfs://localhost:{port}/store")
    assert silent.status == 4
    assert "could not be read: Connection refused" in silent.err
    # In a process of its own: connections of this one belong to another user.
    command = [sys.executable, "-P", "-m", "rmqstore", "export", sample_store(SAMPLE), f"{address}/mine"]
    environment = {**os.environ, "HADOOP_USER_NAME": "stranger"}
    refused = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert refused.returncode == 4
    assert "could not be written: Permission denied: user=stranger, access=WRITE" in refused.stderr
