"""Listings of directories: shared by all checks of one look, and made again for the next one."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from rmqstore.store.mapped import Skipped, list_directory, listing_once, with_listings
from rmqstore.store.root import Store
from rmqstore.store.summary import summarize
from rmqstore.verify.engine import verify
from rmqstore.verify.horizon import mark_of
from tests.store.trees import offset_name, put
from tests.support.stores import sample_store

STORE = "5.5.1-plain"


def names(directory: Path) -> list[str]:
    return [entry.name for entry in list_directory(directory)]


def test_a_look_sees_one_state_of_a_directory_and_the_next_one_the_changes(tmp_path: Path) -> None:
    put(tmp_path, (0, 20))
    with listing_once():
        assert names(tmp_path) == [offset_name(0)]
        put(tmp_path, (20, 20))
        assert names(tmp_path) == [offset_name(0)]
        with listing_once():
            assert names(tmp_path) == [offset_name(0)]
        with listing_once(afresh=True):
            assert names(tmp_path) == [offset_name(0), offset_name(20)]
    assert names(tmp_path) == [offset_name(0), offset_name(20)]
    with listing_once():
        assert names(tmp_path) == [offset_name(0), offset_name(20)]


def test_another_thread_shares_the_listings_if_it_is_given_them(tmp_path: Path) -> None:
    found: list[list[str]] = []
    with listing_once():
        list_directory(tmp_path)
        put(tmp_path, (0, 20))
        for function in (with_listings(lambda: found.append(names(tmp_path))), lambda: found.append(names(tmp_path))):
            thread = Thread(target=function)
            thread.start()
            thread.join()
    assert found == [[], [offset_name(0)]]


def test_what_is_skipped_does_not_change_what_other_readers_get(tmp_path: Path) -> None:
    put(tmp_path, (0, 20))
    with listing_once():
        for skips in (Skipped.FILES, Skipped.DIRECTORIES, Skipped.NOTHING):
            assert [entry.name for entry in list_directory(tmp_path, skips=skips)] == [offset_name(0)]


def test_links_count_as_their_targets(tmp_path: Path) -> None:
    put(tmp_path / "queue", (0, 20))
    (tmp_path / "directory").symlink_to("queue")
    (tmp_path / "file").symlink_to(Path("queue") / offset_name(0))
    (tmp_path / "itself").symlink_to("itself")
    (tmp_path / "missing").symlink_to("nothing")
    os.mkfifo(tmp_path / "pipe")
    found = {entry.name: (entry.is_symlink(), entry.is_dir(), entry.is_file(), entry.length) for entry in list_directory(tmp_path)}
    assert found.pop("queue")[:3] == (False, True, False)
    assert found.pop("directory")[:3] == (True, True, False)
    assert found == {
        "file": (True, False, True, 20),
        "itself": (True, False, False, 0),
        "missing": (True, False, False, 0),
        "pipe": (False, False, False, 0),
    }


@contextmanager
def listings(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Count how often each directory is listed."""
    counts: Counter[str] = Counter()
    scandir = os.scandir

    def counted(path: str) -> object:
        counts[str(path)] += 1
        return scandir(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", counted)
        yield counts


@pytest.mark.parametrize("look", [verify, summarize], ids=["verify", "info"])
def test_a_queue_is_listed_once_and_once_for_each_mark(look: Callable[[Store], object], monkeypatch: pytest.MonkeyPatch) -> None:
    root = sample_store(STORE)
    queues = [str(queue.directory) for queue in Store.open(root).queue_directories()]
    with listings(monkeypatch) as counts:
        look(Store.open(root))
    assert len(queues) > 3
    marks = 2 if look is verify and verify(Store.open(root)) else look is verify
    assert {counts[queue] for queue in queues} == {1 + marks}


def test_a_mark_lists_only_the_queues_it_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for topic in range(20):
        for queue in range(8):
            put(tmp_path / "consumequeue" / f"t{topic:02}" / str(queue), (0, 20))
    (tmp_path / "checkpoint").write_bytes(bytes(4096))
    put(tmp_path / "commitlog", (0, 1024))
    with listings(monkeypatch) as counts:
        assert mark_of(Store.open(tmp_path)) is not None
    assert sum("/consumequeue/" in path and path.count("/", len(str(tmp_path))) == 3 for path in counts) == 64
