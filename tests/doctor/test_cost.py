"""What the triage costs: it follows the number of files and the scan range, not the bytes stored."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmqstore.doctor.diagnosis import diagnose
from rmqstore.doctor.nextsteps import Commands
from rmqstore.scan.compilation import compile_kernels
from rmqstore.store.root import Store
from tests.support.builder import StoreBuilder

FILE_SIZE = 1 << 30
FILES = 1024
MOST_PER_FILE = 64 << 10
"""Bytes that may be read for each file: names, heads and the pages around them."""
MOST = 96 << 20
PAGE = resource.getpagesize()


def sparse_store(root: Path) -> Path:
    """A store of 1 TiB: 1,024 files of 1 GiB, of which the first and the last begin with records and the others are holes."""
    for first_file, where in ((0, root), (FILES - 1, root.parent / "tail")):
        # Written as small files and then made long: what a longer file would have in its place are zeros.
        builder = StoreBuilder(where, log_file_size=64 << 10, first_offset=first_file * FILE_SIZE)
        for number in range(100):
            builder.message(topic="TopicA", queue_id=number % 4, tags="TagA", keys=f"key{number}", body=b"hello")
        builder.build()
    last = f"{(FILES - 1) * FILE_SIZE:020d}"
    (root.parent / "tail" / "commitlog" / last).rename(root / "commitlog" / last)
    for number in range(FILES):
        path = root / "commitlog" / f"{number * FILE_SIZE:020d}"
        with path.open("ab") as file:
            file.truncate(FILE_SIZE)
    return root


def cost(work: Callable[[], Any]) -> int:
    """Bytes that `work` reads through the system, and pages it touches in mapped files and in its own memory."""

    def spent() -> int:
        counted = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
        return int(counted["rchar"]) + resource.getrusage(resource.RUSAGE_SELF).ru_minflt * PAGE

    before = spent()
    work()
    return spent() - before


@pytest.mark.limited(4)
@pytest.mark.sampled(1)
@pytest.mark.parametrize("release", ["4.9.8", "5.3.3", "5.4.0", "5.5.1"])
@pytest.mark.parametrize("abort", [True, False])
def test_a_store_of_a_tebibyte(release: str, abort: bool, tmp_path: Path) -> None:
    root = sparse_store(tmp_path / "store")
    if abort:
        (root / "abort").touch()
    store = Store.open(root)
    assert store.commitlog.length == FILES * FILE_SIZE
    compile_kernels(quiet=True)
    diagnose(store, release, Commands(root))  # what is loaded and compiled at the first use is not the store's
    assert cost(lambda: diagnose(Store.open(root), release, Commands(root))) < FILES * MOST_PER_FILE + MOST


def test_counting_notices_a_file_that_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(32 << 20))
    assert cost(path.read_bytes) >= 32 << 20
