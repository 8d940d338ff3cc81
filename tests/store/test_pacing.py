"""Slow reads: as many bytes a second as asked for, idle I/O priority, and a page cache that stays as it was."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
from pathlib import Path

import numpy as np
import pytest

from rmqstore.store import pacing
from rmqstore.store.mapped import MappedFile
from rmqstore.store.window import map_window, read_into
from tests.support.cli import rmqstore
from tests.support.stores import sample_store

SIZE = 8 << 20
STORE = "5.3.3-plain"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0
        self.waits: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(pacing.time, "monotonic", lambda: clock.now)
    monkeypatch.setattr(pacing.time, "sleep", clock.sleep)
    return clock


@pytest.fixture
def file(tmp_path: Path) -> MappedFile:
    path = tmp_path / "file"
    with path.open("wb") as stream:
        stream.write(os.urandom(SIZE))
        os.fsync(stream.fileno())
    return MappedFile(path, 0, SIZE, 0)


def resident(file: MappedFile) -> list[int]:
    """Pages of the file that are in the page cache."""
    with file.path.open("rb") as stream:
        return np.flatnonzero(np.unpackbits(pacing._resident(stream.fileno()))).tolist()


def test_bytes_wait_for_their_time(file: MappedFile, clock: Clock) -> None:
    with pacing.paced(1 << 20):
        for begin in range(0, SIZE, 2 << 20):
            with map_window(file, begin, 2 << 20):
                pass
        read_into(file, 0, np.empty(1 << 20, np.uint8))
    assert clock.waits == [0, 2, 2, 2, 2]
    with map_window(file, 0, SIZE):
        pass
    assert len(clock.waits) == 5


def test_the_page_cache_stays_as_it_was(file: MappedFile) -> None:
    with file.path.open("rb") as stream:
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        os.pread(stream.fileno(), 100, 3 << 20)
    before = resident(file)
    if len(before) == SIZE // mmap.PAGESIZE:
        pytest.skip("this file system keeps all files in memory")
    with pacing.paced(1 << 40):
        for begin in range(0, SIZE, 2 << 20):
            with map_window(file, begin, 2 << 20) as window:
                assert window.array.max() == 255
        read_into(file, 0, np.empty(SIZE, np.uint8))
    assert (3 << 20) // mmap.PAGESIZE in before
    assert resident(file) == before
    read_into(file, 0, np.empty(SIZE, np.uint8))
    assert len(resident(file)) == SIZE // mmap.PAGESIZE


@pytest.mark.skipif(platform.machine() not in pacing._IOPRIO_CALLS, reason="the system calls have other numbers")
def test_the_priority_is_idle_meanwhile() -> None:
    ask = pacing._IOPRIO_CALLS[platform.machine()][1]
    libc = ctypes.CDLL(None)
    before = libc.syscall(ask, 1, 0)
    with pacing.paced(1):
        assert libc.syscall(ask, 1, 0) == 3 << 13
    assert libc.syscall(ask, 1, 0) == before


def _verified(*options: str) -> list[dict[str, object]]:
    run = rmqstore("verify", sample_store(STORE), "--format", "json", "--quiet", *options)
    assert run.status == 0
    return [{name: value for name, value in each.items() if "second" not in name and "engine" not in name} for each in run.objects]


def test_a_slow_verification_finds_the_same() -> None:
    assert _verified("--rate-limit", "1000000") == _verified()


def test_all_threads_share_the_limit(clock: Clock) -> None:
    """At 1 TB/s a store of some MiB takes microseconds, but each read waits for the ones before."""
    _verified("--rate-limit", "1000000")
    assert sum(clock.waits) > 0


def test_slow_export_and_stats(tmp_path: Path) -> None:
    assert rmqstore("export", sample_store(STORE), tmp_path / "out", "--rate-limit", "1000000").status == 0
    assert list((tmp_path / "out").glob("*.jsonl"))
    assert rmqstore("stats", sample_store(STORE), "--rate-limit", "1000000").status == 0


def test_spark_has_no_limit() -> None:
    run = rmqstore("verify", sample_store(STORE), "--rate-limit", "5", "--engine", "spark")
    assert run.status == 2
    assert "local engine" in run.err
