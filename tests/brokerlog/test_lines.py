"""Reading log files: heads, continuations, encodings, compression, and files that are no logs."""

from __future__ import annotations

import gzip
import os
import tracemalloc
from pathlib import Path

import pytest

from rmqstore.brokerlog.lines import LONGEST_LINE, LogFile, entries, split_head
from tests.support.cli import rmqstore

CRASH = "2026-11-21 10:00:00 INFO main - last shutdown abnormally"
HALF = "2026-11-21 10:00:01 WARN main - found a half message at 4711, it will be truncated."


@pytest.mark.parametrize(
    "text",
    [
        HALF,
        "2026-11-21 10:00:01,123 WARN main - found a half message at 4711, it will be truncated.",
        "2026-11-21 10:00:01 WARN [RocketmqStore] main - found a half message at 4711, it will be truncated.\r\n",
        "2026-11-21T09:00:01.000000001Z stderr F 2026-11-21 10:00:01 WARN Thread - 1 - found a half message at 4711, it will be truncated.",
        "Nov 21 10:00:01 host mqbroker[99]: 2026-11-21 10:00:01 WARN main - found a half message at 4711, it will be truncated.",
    ],
)
def test_time_level_and_message_are_told_apart(text: str) -> None:
    line = split_head(text)
    assert line.level == "WARN"
    assert line.time is not None and line.time.startswith("2026-11-21 10:00:01")
    assert line.message.endswith("found a half message at 4711, it will be truncated.")


def test_a_stack_trace_belongs_to_its_line() -> None:
    text = [
        "2026-11-21 10:00:00 ERROR main - load exception",
        "java.lang.RuntimeException: outer",
        "\tat org.apache.rocketmq.store.X.y(X.java:1)",
        "Caused by: java.io.IOException: No space left on device",
        "\t... 3 more",
        CRASH,
    ]
    first, second = entries(text)
    assert (first.lines, first.exceptions) == (5, ["java.lang.RuntimeException: outer", "java.io.IOException: No space left on device"])
    assert (second.lines, second.exceptions) == (1, [])


def test_without_heads_every_line_stands_for_itself() -> None:
    text = ["load exception", 'java.lang.NumberFormatException: For input string: "a"', "\tat x", "last shutdown abnormally"]
    assert [(line.message, line.lines) for line in entries(text)] == [("load exception", 3), ("last shutdown abnormally", 1)]


@pytest.mark.parametrize(
    "content",
    [
        f"{CRASH}\n{HALF}\n".encode(),
        f"\ufeff{CRASH}\n{HALF}".encode(),
        f"{CRASH}\r\n{HALF}\r\n".encode("utf-16"),
        gzip.compress(f"{CRASH}\n{HALF}\n".encode()),
        f"{CRASH}\n2026-11-21 10:00:00 INFO main - 主题\n{HALF}\n".encode("gb18030"),
        f"\0\0{CRASH}\n{HALF}\0\0\0".encode(),
    ],
    ids=["plain", "utf-8 mark", "utf-16", "gzip", "gb18030", "zeros of a crash"],
)
def test_any_encoding_is_read(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "store.log"
    path.write_bytes(content)
    run = rmqstore("explain", "--log", path, "--format", "json")
    half, crash, summary = run.objects
    assert run.status == 0
    assert (half["code"], half["values"]) == ("LOG-HALF-MESSAGE", {"physical_offset": ["4711"]})
    assert (crash["code"], crash["first_time"]) == ("LOG-SHUTDOWN-ABNORMAL", "2026-11-21 10:00:00")
    assert summary["explained"] == 2


def test_a_compressed_log_that_ends_in_damage_is_told_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "store.log.gz"
    path.write_bytes(gzip.compress(f"{HALF}\n".encode() + os.urandom(200_000).hex().encode())[:-5000])
    run = rmqstore("explain", "--log", path, "--format", "json")
    assert run.status == 4
    assert run.objects[0]["code"] == "LOG-HALF-MESSAGE"
    assert "the compressed file is damaged" in run.err
    assert not run.crashed


@pytest.mark.parametrize("content", [b"", b"\n\n\n", os.urandom(300_000), b"\0" * 300_000], ids=["empty", "blank", "binary", "zeros"])
def test_a_file_that_is_no_log_has_nothing_to_explain(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "store.log"
    path.write_bytes(content)
    run = rmqstore("explain", "--log", path, "--format", "json")
    assert run.status == 0
    assert [found["type"] for found in run.objects] == ["summary"]


def test_a_line_without_end_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "store.log"
    path.write_bytes(f"{HALF}\n{CRASH} ".encode())
    with path.open("r+b") as stream:
        stream.truncate(64 << 20)
        stream.seek(0, os.SEEK_END)
        stream.write(f"\n{HALF}\n".encode())
    tracemalloc.start()
    try:
        lengths = [len(text) for text in LogFile(path).texts()]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert lengths == [len(HALF) + 1, LONGEST_LINE, len(HALF) + 1]
    assert peak < 8 << 20


def test_a_directory_and_a_missing_file_cannot_be_read(tmp_path: Path) -> None:
    directory = rmqstore("explain", "--log", tmp_path)
    missing = rmqstore("explain", "--log", tmp_path / "store.log")
    assert (directory.status, missing.status) == (4, 4)
    assert "is a directory, not a log file" in directory.err
    assert "does not exist" in missing.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "store.log"
    path.write_text(HALF)
    path.chmod(0)
    run = rmqstore("explain", "--log", path)
    assert run.status == 4
    assert "permission denied" in run.err


def test_a_pipe_is_read_like_a_file(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, f"{HALF}\n".encode())
    os.close(writer)
    try:
        run = rmqstore("explain", "--log", f"/dev/fd/{reader}", "--format", "json")
    finally:
        os.close(reader)
    assert run.objects[0]["code"] == "LOG-HALF-MESSAGE"
