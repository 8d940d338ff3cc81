"""Windows and small reads: exact ranges, no traces, and good errors when a file is not what it was."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from rmqstore.errors import StoreChangedError, UnreadableError
from rmqstore.store.mapped import MappedFile
from rmqstore.store.window import data_extents, map_window, open_read_only, read_at, read_into, read_whole

CONTENT = bytes(number * 7 % 251 for number in range(3 * 65536 + 123))


@pytest.fixture
def file(tmp_path: Path) -> MappedFile:
    path = tmp_path / "00000000000000000000"
    path.write_bytes(CONTENT)
    return MappedFile(path, 0, len(CONTENT), 0)


@pytest.mark.parametrize(
    ("position", "length"), [(0, 1), (0, len(CONTENT)), (1, 65536), (65535, 2), (65536, 65536), (len(CONTENT) - 1, 1), (len(CONTENT), 0)]
)
def test_a_window_is_exactly_the_range(file: MappedFile, position: int, length: int) -> None:
    with map_window(file, position, length) as window:
        assert window.array.tobytes() == CONTENT[position : position + length]
        assert not window.array.flags.writeable
    assert read_at(file, position, length) == CONTENT[position : position + length]
    target = np.zeros(length, np.uint8)
    read_into(file, position, target)
    assert target.tobytes() == CONTENT[position : position + length]


def test_a_window_unmaps_and_a_held_slice_survives(file: MappedFile) -> None:
    with map_window(file, 70000, 1000) as window:
        held = window.array[10:20]
    assert window.array.size == 0
    assert held.tobytes() == CONTENT[70010:70020]


@pytest.mark.parametrize(("position", "length"), [(-1, 4), (0, -1), (0, len(CONTENT) + 1), (len(CONTENT), 1)])
def test_a_range_outside_of_the_file_is_refused(file: MappedFile, position: int, length: int) -> None:
    with pytest.raises(UnreadableError):
        map_window(file, position, length)
    with pytest.raises(UnreadableError):
        read_at(file, position, length)
    with pytest.raises(UnreadableError):
        read_into(file, position, np.zeros(len(CONTENT) + 1, np.uint8))


def test_a_file_that_shrank_since_it_was_listed_is_told(file: MappedFile) -> None:
    os.truncate(file.path, 1000)
    with pytest.raises(StoreChangedError):
        map_window(file, 500, 1000)
    with pytest.raises(StoreChangedError):
        read_at(file, 500, 1000)
    with pytest.raises(StoreChangedError):
        read_into(file, 500, np.zeros(1000, np.uint8))
    assert read_at(file, 500, 500) == CONTENT[500:1000]


def test_what_is_no_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, sentence in (("pipe", "not a regular file"), (".", "is a directory"), ("gone", "does not exist")):
        with pytest.raises(UnreadableError, match=sentence), open_read_only(tmp_path / name):
            pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_told(file: MappedFile) -> None:
    file.path.chmod(0)
    with pytest.raises(UnreadableError, match="permission denied"):
        read_at(file, 0, 1)


def test_read_whole_stops_at_the_limit(file: MappedFile) -> None:
    assert read_whole(file.path, 100) == CONTENT[:100]
    assert read_whole(file.path, 10**9) == CONTENT


def test_extents_leave_out_holes(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000"
    megabyte = 1024 * 1024
    with path.open("wb") as stream:
        stream.seek(4 * megabyte)
        stream.write(b"x" * megabyte)
        stream.truncate(64 * megabyte)
    extents = list(data_extents(MappedFile(path, 0, 64 * megabyte, 0)))
    covered = sum(end - begin for begin, end in extents)
    assert any(begin <= 4 * megabyte and 5 * megabyte <= end for begin, end in extents)
    if path.stat().st_blocks * 512 < 8 * megabyte:  # a file system without holes allocates everything
        assert covered < 8 * megabyte


def test_reading_leaves_times_as_they_are(file: MappedFile) -> None:
    os.utime(file.path, ns=(1_000_000_000, 2_000_000_000))
    with map_window(file, 0, 10) as window:
        assert window.array[0] == CONTENT[0]
    read_at(file, 0, 10)
    assert file.path.stat().st_mtime_ns == 2_000_000_000
