"""Several commit log directories: configured, from another machine, detected, and copies that must not be mistaken for data."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqstore.store.root import Store
from tests.store.trees import put

FILE = 1024


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "store"
    put(root / "commitlog", (0, FILE), (2 * FILE, FILE))
    put(root / "consumequeue")
    return root


def starts(store: Store) -> list[int]:
    return [file.start // FILE for file in store.commitlog.files]


def test_without_configuration_a_sibling_that_fills_the_gaps_is_found(root: Path) -> None:
    put(root / "commitlog2", (FILE, FILE))
    store = Store.open(root)
    assert starts(store) == [0, 1, 2]
    assert list(store.commitlog.problems()) == []
    assert any("commitlog2" in note for note in store.commitlog_directories.notes)


def test_a_copy_of_the_log_is_no_part_of_it(root: Path) -> None:
    put(root / "commitlog.old", (0, FILE), (FILE, FILE))
    store = Store.open(root)
    assert starts(store) == [0, 2]
    assert any("copy" in note for note in store.commitlog_directories.notes)


def test_files_of_another_length_are_no_part_of_the_log(root: Path) -> None:
    put(root / "queue-copy", (FILE, 400))
    assert starts(Store.open(root)) == [0, 2]


@pytest.mark.parametrize("separator", [",", ";"])
def test_configured_directories_are_joined_at_the_separator(root: Path, tmp_path: Path, separator: str) -> None:
    other = put(tmp_path / "disk2" / "log", (FILE, FILE))
    settings = {"storePathCommitLog": f"{{root}}/commitlog{separator}{other}", "multiPathSplitter": separator}
    store = Store.open(root, settings=settings)
    assert starts(store) == [0, 1, 2]
    assert store.relative(other / "x") == f"{other}/x"
    assert store.relative(root / "commitlog" / "x") == "commitlog/x"


def test_read_only_directories_count_only_with_a_separator(root: Path) -> None:
    archive = put(root / "archive", (FILE, FILE))
    several = {"storePathCommitLog": "{root}/commitlog,{root}/new", "readOnlyCommitLogStorePaths": str(archive)}
    assert starts(Store.open(root, settings=several)) == [0, 1, 2]
    assert Store.open(root, settings=several).commitlog_directories.read_only == (archive,)
    single = {"storePathCommitLog": "{root}/commitlog", "readOnlyCommitLogStorePaths": str(archive)}
    assert starts(Store.open(root, settings=single)) == [0, 2]


def test_paths_of_another_machine_are_found_below_the_root(root: Path) -> None:
    put(root / "logs" / "b", (FILE, FILE))
    settings = {"storePathRootDir": "/nowhere/store", "storePathCommitLog": "/nowhere/store/commitlog,/nowhere/store/logs/b"}
    store = Store.open(root, settings=settings)
    assert starts(store) == [0, 1, 2]
    assert len(store.commitlog_directories.notes) == 2


def test_a_directory_that_is_nowhere_is_told(root: Path) -> None:
    store = Store.open(root, settings={"storePathCommitLog": "{root}/commitlog,/nowhere/gone"})
    assert starts(store) == [0, 2]
    assert any("/nowhere/gone" in note and "neither" in note for note in store.commitlog_directories.notes)
