"""Stores in Google Cloud Storage, as an emulator of it has them: results equal those of the directory, and an export arrives."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from gcp_storage_emulator.server import create_server
from pyarrow import fs

from tests.pipeline.by_uri import assert_the_same_results
from tests.support.cli import rmqstore
from tests.support.stores import sample_store

SAMPLE = "5.3.3-plain"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    with create_server("localhost", port, in_memory=True, default_bucket="bucket"):
        yield f"localhost:{port}"


def uri(address: str, name: str) -> str:
    return f"gs://anonymous@bucket/{name}?scheme=http&endpoint_override={address}"


def test_results_are_those_of_the_directory(address: str) -> None:
    root = sample_store(SAMPLE)
    there, _ = fs.FileSystem.from_uri(uri(address, "store"))
    fs.copy_files(str(root), "bucket/store", source_filesystem=fs.LocalFileSystem(), destination_filesystem=there)
    assert_the_same_results(root, uri(address, "store"))

    done = rmqstore("export", root, uri(address, "out"), "--format", "jsonl")
    assert done.status == 0, done.err
    found = [info.path for info in there.get_file_info(fs.FileSelector("bucket/out", recursive=True)) if info.is_file]
    lines = [line for path in found if path.endswith(".jsonl") for line in there.open_input_stream(path).read().splitlines()]
    assert len(lines) == 480
    assert "bucket/out/_SUCCESS" in found
