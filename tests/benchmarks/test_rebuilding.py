"""The rebuild that is measured makes the files of the store it is measured on."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import rebuilding, report
from benchmarks.generator import Made, Shape, make_store

LOG_FILE = 1 << 18


@pytest.fixture
def made(tmp_path: Path) -> Made:
    shape = Shape(5 * LOG_FILE // 2, 128, log_file_size=LOG_FILE, queue_file_size=100, slots=500, items=400)
    return make_store(tmp_path / "store", shape)


def test_rebuilt_files_are_those_of_the_store(made: Made) -> None:
    runs = rebuilding.ours(made, 2)
    assert runs.amount == made.records
    assert len(runs.seconds) == len(runs.processor_seconds) == 2
    assert [path.name for path in made.root.parent.iterdir()] == ["store"]
    beside = list(report.rebuild_lines(128, {"rebuild": runs, "4.9.8": runs}))
    assert (beside[0].met, beside[-1].ratio, beside[-1].met) == (None, "1 : 1", False)
    alone = list(report.rebuild_lines(128, {"rebuild": runs}))
    assert alone[0].met is (runs.rate >= 4_500_000)


def test_other_files_are_noticed(made: Made) -> None:
    path = next((made.root / "index").iterdir())
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(RuntimeError, match="is not index/"):
        rebuilding.ours(made, 1)
