"""A file that shrinks while it is verified spoils what is said of that file, and of no other."""

from __future__ import annotations

from pathlib import Path

from rmqstore.formats.naming import offset_to_file_name
from tests.scan.samples import encoded
from tests.scan.test_bounds import program

RECORDS = 9000  # of each file, more than two batches


def test_only_the_file_that_shrinks_is_changed(tmp_path: Path) -> None:
    size = len(encoded())
    length = RECORDS * size
    (tmp_path / "commitlog").mkdir()
    for start in (0, length):
        data = b"".join(encoded(physical_offset=start + number * size) for number in range(RECORDS))
        (tmp_path / "commitlog" / offset_to_file_name(start)).write_bytes(data)

    finished = program("tests.verify.shrinking", str(tmp_path))

    assert finished.returncode == 0, finished.stderr
    assert finished.stdout == f"True ['commitlog/{offset_to_file_name(0)}']\n"
