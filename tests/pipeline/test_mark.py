"""The mark of a store: what a broker does later does not change it, and another store does not have it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rmqstore.errors import RefusedError
from rmqstore.pipeline.job import StoreAt
from tests.support.builder import StoreBuilder
from tests.support.stores import case, cases, sample_store


def built(root: Path, count: int) -> StoreBuilder:
    builder = StoreBuilder(root, log_file_size=4096)
    for number in range(count):
        builder.message("TopicA", f"body {number}".encode() * 9)
    builder.build()
    return builder


@pytest.mark.parametrize("name", [one.name for one in cases()])
def test_every_sample_store_has_its_own_mark(name: str) -> None:
    at = StoreAt.of(sample_store(name), settings=case(name).settings(sample_store(name))).marked()

    at.require()
    assert at.mark is not None
    if at.open().message_log.files:
        assert len(at.mark.places) == 3


def test_what_is_written_and_deleted_later_does_not_matter(tmp_path: Path) -> None:
    builder = built(tmp_path / "store", 60)
    at = StoreAt.of(builder.root).marked()
    for number in range(60):
        builder.message("TopicA", f"later {number}".encode() * 9)
    builder.build()
    for file in sorted((builder.root / "commitlog").iterdir())[:2]:
        file.unlink()

    at.require()


@pytest.mark.parametrize("how", ["other", "shorter", "empty", "gone", "first"])
def test_what_is_not_the_store_is_refused_with_the_host(how: str, tmp_path: Path) -> None:
    root = tmp_path / "store"
    builder = built(root, 60)
    at = StoreAt.of(root).marked()
    files = sorted((root / "commitlog").iterdir())
    if how == "other":
        shutil.rmtree(root)
        other = StoreBuilder(root, log_file_size=4096)
        for number in range(60):
            other.message("TopicB", f"body {number}".encode() * 9)
        other.build()
    elif how == "shorter":
        files[-1].unlink()
    elif how == "empty":
        shutil.rmtree(root)
        root.mkdir()
    elif how == "gone":
        shutil.rmtree(root)
    else:
        data = bytearray(files[0].read_bytes())
        data[60] ^= 1
        files[0].write_bytes(data)

    with pytest.raises(RefusedError) as error:
        at.require()

    assert error.value.message.startswith("Host ") and str(root) in error.value.message
    assert builder.root == root
