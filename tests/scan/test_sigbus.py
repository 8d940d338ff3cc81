"""A file that shrinks while it is mapped is an error with a name, not the end of the process."""

from __future__ import annotations

from pathlib import Path

from tests.scan.samples import encoded
from tests.scan.test_bounds import program

RECORDS = 9000  # more than two batches


def log_file(path: Path) -> int:
    """Writes records that fill more than two batches; returns the length."""
    size = len(encoded())
    path.write_bytes(b"".join(encoded(physical_offset=number * size) for number in range(RECORDS)))
    return RECORDS * size


def test_a_file_that_shrinks_under_the_mapping(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000"
    length = log_file(path)

    finished = program("tests.scan.shrinking", str(path), str(length * 3 // 4 // 4096 * 4096))

    assert finished.returncode == 0, finished.stderr
    assert finished.stdout == "changed fault\n"


def test_a_file_that_keeps_its_length_is_no_change(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000"
    length = log_file(path)

    finished = program("tests.scan.shrinking", str(path), str(length))

    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")
