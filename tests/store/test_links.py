"""Parts that are links to other disks, and settings that name where they lead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rmqstore.store.root import Store
from tests.support import stores

SAMPLE = "5.3.3-plain"


@pytest.fixture
def root(fresh_store: Callable[[str], Path]) -> Path:
    return fresh_store(SAMPLE)


def linked(root: Path, part: str, target: Path) -> Path:
    (root / part).rename(target)
    (root / part).symlink_to(target)
    return root / part


def unnamed(root: Path, **settings: str) -> list[tuple[Path, str]]:
    return [(link.path, link.setting) for link in Store.open(root, settings=settings).unnamed_links()]


def test_directories_and_other_links_are_none(root: Path, tmp_path: Path) -> None:
    (root / "mine").symlink_to(tmp_path)
    (root / ".rmqstore").symlink_to(tmp_path)
    (root / "abort").symlink_to(tmp_path / "nowhere")
    assert unnamed(root) == []
    assert Store.open(stores.sample_store(SAMPLE)).part_links() == []


@pytest.mark.parametrize(
    ("part", "setting"),
    [
        ("commitlog", "storePathCommitLog"),
        ("consumequeue", "storePathConsumeQueue"),
        ("index", "storePathIndex"),
        ("compaction", "storePathCompaction"),
    ],
)
def test_a_link_is_named_by_its_setting(root: Path, tmp_path: Path, part: str, setting: str) -> None:
    path = linked(root, part, tmp_path / "disk")
    assert unnamed(root) == [(path, setting)]
    assert unnamed(root, **{setting: str(tmp_path)}) == [(path, setting)]
    assert unnamed(root, **{setting: str(path)}) == [(path, setting)]
    assert unnamed(root, **{setting: str(tmp_path / "disk")}) == []


def test_a_setting_may_name_the_target_by_another_link_of_the_operator(root: Path, tmp_path: Path) -> None:
    linked(root, "index", tmp_path / "disk")
    (tmp_path / "other").symlink_to(tmp_path / "disk")
    assert unnamed(root, storePathIndex=str(tmp_path / "other")) == []


def test_a_further_directory_of_the_log_is_named_in_the_list(root: Path, tmp_path: Path) -> None:
    last = max((root / "commitlog").iterdir())
    (tmp_path / "disk").mkdir()
    last.rename(tmp_path / "disk" / last.name)
    (root / "commitlog2").symlink_to(tmp_path / "disk")
    assert unnamed(root) == [(root / "commitlog2", "storePathCommitLog")]
    assert unnamed(root, storePathCommitLog=f"{root}/commitlog,{tmp_path}/disk") == []
