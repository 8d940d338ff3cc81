"""Access below a directory that is opened once: no link is followed, whatever changes meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rmqstore.errors import UnreadableError
from rmqstore.repair.files import beneath


@pytest.fixture(params=["openat2", "component by component"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if request.param != "openat2":
        monkeypatch.setattr(beneath, "open_directory", lambda here, names: None)
    root = tmp_path / "root"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "file").write_bytes(b"inside")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_bytes(b"outside")
    return root


def test_everything_below_is_listed_and_links_are_not_entered(root: Path) -> None:
    (root / "link").symlink_to(root.parent / "outside")
    (root / "skipped").mkdir()
    (root / "skipped" / "file").write_bytes(b"")
    names = {os.path.relpath(path, root) for path, _ in beneath.walk(root, without=root / "skipped")}
    assert names == {"a", "a/b", "a/b/file", "link", "skipped"}
    assert list(beneath.walk(root / "missing")) == []


def test_directories_without_an_end_are_an_error(root: Path) -> None:
    here = os.open(root, os.O_RDONLY)
    for _ in range(100):
        os.mkdir("deeper", dir_fd=here)
        following = os.open("deeper", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = following
    os.close(here)
    with pytest.raises(UnreadableError, match="directories deep"):
        list(beneath.walk(root))


@pytest.mark.parametrize("linked", ["a", "a/b", "a/b/file"])
def test_a_link_in_any_component_is_refused(root: Path, linked: str) -> None:
    (root / linked).rename(root.parent / "moved")
    (root / linked).symlink_to(root.parent / "moved")
    with beneath.pinned({root: root}), pytest.raises(beneath.LinkError), beneath.reading(root / "a" / "b" / "file"):
        pass


def test_a_way_upwards_is_refused(root: Path) -> None:
    with beneath.pinned({root: root}), pytest.raises(beneath.LinkError), beneath.reading(root / "a" / ".." / ".." / "outside" / "file"):
        pass


def test_a_root_that_is_exchanged_stays_the_one_that_was_opened(root: Path) -> None:
    with beneath.pinned({root: root}):
        root.rename(root.with_name("away"))
        (root.parent / "outside" / "a").mkdir()
        (root.parent / "outside" / "a" / "b").symlink_to(root.parent / "outside")
        root.symlink_to(root.parent / "outside")
        with beneath.reading(root / "a" / "b" / "file") as descriptor:
            assert os.read(descriptor, 10) == b"inside"


def test_descriptors_are_closed(root: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with beneath.pinned({root: root, root / "a": root / "a", root / "missing": root / "missing"}):
        for _ in range(20):
            list(beneath.walk(root))
            beneath.status(root / "a" / "b" / "file")
            with pytest.raises(UnreadableError), beneath.reading(root / "a"):
                pass
    assert len(list(Path("/proc/self/fd").iterdir())) == before
