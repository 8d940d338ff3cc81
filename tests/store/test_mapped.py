"""Mapped file queues: what is a file of the queue, what is odd, and which length the files should have."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqstore.store.mapped import MappedFileQueue, ProblemKind, parse_offset_name
from tests.store.trees import offset_name, problems, put


def test_contiguous_files_of_one_length_have_no_problems(tmp_path: Path) -> None:
    queue = MappedFileQueue.scan(put(tmp_path, (2048, 1024), (0, 1024), (1024, 1024)))
    assert [file.start for file in queue.files] == [0, 1024, 2048]
    assert (queue.file_size, queue.min_offset, queue.max_offset, queue.length) == (1024, 0, 3072, 3072)
    assert problems(queue) == {}


def test_find_gives_the_file_that_holds_an_offset(tmp_path: Path) -> None:
    queue = MappedFileQueue.scan(put(tmp_path, (1024, 1024), (3072, 1024)))
    found = {offset: queue.find(offset) for offset in (0, 1023, 1024, 2047, 2048, 3072, 4095, 4096)}
    assert {offset: file.start for offset, file in found.items() if file is not None} == {1024: 1024, 2047: 1024, 3072: 3072, 4095: 3072}


def test_missing_and_empty_directories_are_empty_queues(tmp_path: Path) -> None:
    for directory in (tmp_path, tmp_path / "missing"):
        queue = MappedFileQueue.scan(directory)
        assert (queue.files, queue.odd, queue.file_size, queue.min_offset, queue.max_offset) == ((), (), None, 0, 0)


def test_a_gap_is_reported_behind_the_hole(tmp_path: Path) -> None:
    gap = problems(MappedFileQueue.scan(put(tmp_path, (0, 1024), (1024, 1024), (4096, 1024))))[ProblemKind.GAP]
    assert (gap.path.name, gap.expected, gap.found) == (offset_name(4096), 2048, 4096)


def test_an_overlap_is_also_a_misaligned_name(tmp_path: Path) -> None:
    found = problems(MappedFileQueue.scan(put(tmp_path, (0, 1024), (1024, 1024), (2000, 1024))))
    overlap, misaligned = found[ProblemKind.OVERLAP], found[ProblemKind.MISALIGNED_NAME]
    assert (overlap.expected, overlap.found) == (2048, 2000)
    assert (misaligned.expected, misaligned.found) == (1024, 2000)


@pytest.mark.parametrize("short", [0, 1, 2], ids=["first", "middle", "last"])
def test_one_file_of_another_length_is_wrong_wherever_it_lies(tmp_path: Path, short: int) -> None:
    lengths = [1024, 1024, 1024]
    lengths[short] = 700
    found = problems(MappedFileQueue.scan(put(tmp_path, *((number * 1024, length) for number, length in enumerate(lengths)))))
    assert set(found) == {ProblemKind.WRONG_LENGTH}
    wrong = found[ProblemKind.WRONG_LENGTH]
    assert (wrong.path.name, wrong.expected, wrong.found) == (offset_name(short * 1024), 1024, 700)


def test_names_tell_the_length_when_every_file_is_cut(tmp_path: Path) -> None:
    assert MappedFileQueue.scan(put(tmp_path, (0, 500), (65536, 700), (131072, 300))).file_size == 65536


def test_the_configured_length_wins(tmp_path: Path) -> None:
    queue = MappedFileQueue.scan(put(tmp_path, (0, 1024), (1024, 1024)), configured_size=2048)
    assert queue.file_size == 2048
    assert {problem.kind for problem in queue.problems()} == {ProblemKind.WRONG_LENGTH, ProblemKind.OVERLAP, ProblemKind.MISALIGNED_NAME}


def test_the_expected_length_decides_where_one_cut_file_says_nothing(tmp_path: Path) -> None:
    assert MappedFileQueue.scan(put(tmp_path, (65536, 700)), expected_size=65536).file_size == 65536


def test_odd_entries_are_kept_apart(tmp_path: Path) -> None:
    put(tmp_path, (0, 1024), (1024, 1024), (2048, 0))
    (tmp_path / offset_name(4096)).mkdir()
    (tmp_path / "3072").write_bytes(bytes(1024))
    (tmp_path / (offset_name(3072) + ".bak")).write_bytes(bytes(1024))
    queue = MappedFileQueue.scan(tmp_path)
    assert [file.start for file in queue.files] == [0, 1024]
    assert {(entry.path.name, entry.kind) for entry in queue.odd} == {
        (offset_name(2048), ProblemKind.ZERO_LENGTH),
        (offset_name(4096), ProblemKind.DIRECTORY),
        ("3072", ProblemKind.FOREIGN_NAME),
        (offset_name(3072) + ".bak", ProblemKind.FOREIGN_NAME),
    }
    zero = next(problem for problem in queue.problems() if problem.kind is ProblemKind.ZERO_LENGTH)
    assert (zero.expected, zero.found) == (1024, 0)


def test_a_pipe_and_a_dangling_link_are_foreign(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / offset_name(0))
    (tmp_path / offset_name(1024)).symlink_to(tmp_path / "gone")
    queue = MappedFileQueue.scan(tmp_path)
    assert queue.files == ()
    assert [entry.kind for entry in queue.odd] == [ProblemKind.FOREIGN_NAME] * 2


def test_two_directories_are_one_queue_and_a_repeated_name_is_odd(tmp_path: Path) -> None:
    first = put(tmp_path / "a", (0, 1024), (2048, 1024))
    second = put(tmp_path / "b", (1024, 1024), (2048, 1024))
    queue = MappedFileQueue.scan([first, second])
    assert [file.path for file in queue.files] == [first / offset_name(0), second / offset_name(1024), first / offset_name(2048)]
    assert [problem.path for problem in queue.problems() if problem.kind is ProblemKind.DUPLICATE_NAME] == [second / offset_name(2048)]


def test_a_sparse_file_is_long_and_not_allocated(tmp_path: Path) -> None:
    queue = MappedFileQueue.scan(put(tmp_path, (0, 64 * 1024 * 1024)))
    assert queue.length == 64 * 1024 * 1024
    assert queue.allocated < 1024 * 1024


@pytest.mark.parametrize("make", [lambda path: path.write_bytes(b""), lambda path: path.symlink_to(path.name), os.mkfifo])
def test_what_takes_the_place_of_the_directory_has_no_entries(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "commitlog")
    assert MappedFileQueue.scan(tmp_path / "commitlog") == MappedFileQueue(())


@pytest.mark.parametrize("name", ["0", "0000000000000000001", "000000000000000000001", "9" * 20, "0000000000000000000x", "٠" * 20, ""])
def test_only_twenty_digits_below_two_to_63_are_a_name(name: str) -> None:
    assert parse_offset_name(name) is None
