"""Queue files of the size of brokers, 6 MB, with a few entries: repairs read and compare the entries, not the hole after them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks.wide import WideShape, make_wide_store
from rmqstore.repair.derived import consumequeue, queue_files
from rmqstore.store import window
from rmqstore.store.mapped import MappedFile
from tests.support.cli import rmqstore

FILE_SIZE = 6_000_000
ENTRIES = 60  # bytes of the three entries of a queue


def test_the_hole_of_a_queue_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = make_wide_store(tmp_path / "store", WideShape(topics=2, queues=2, messages=3))
    entries = {path: path.read_bytes() for path in (store.root / "consumequeue").glob("*/*/*")}
    shutil.rmtree(store.root / "consumequeue")
    settings = [word.replace(f"Queue={store.queue_file_size}", f"Queue={FILE_SIZE}") for word in store.settings]
    lengths: list[int] = []

    def watched(file: MappedFile, position: int, length: int) -> window.Window:
        lengths.append(length)
        return window.map_window(file, position, length)

    monkeypatch.setattr(consumequeue, "map_window", watched)
    monkeypatch.setattr(queue_files, "map_window", watched)

    assert rmqstore("rebuild-consumequeue", store.root, "--yes", *settings).status == 0
    rebuilt = {path: path.read_bytes() for path in entries}
    assert rebuilt == {path: data + bytes(FILE_SIZE - ENTRIES) for path, data in entries.items()}
    for path in entries:
        with path.open("r+b") as stream:
            stream.seek(ENTRIES - 20)
            stream.write(bytes(20))
    assert rmqstore("recover", store.root, "--yes", *settings).status == 0
    assert {path: path.read_bytes() for path in entries} == rebuilt
    assert lengths
    assert max(lengths) < FILE_SIZE // 10
