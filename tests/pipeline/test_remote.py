"""Stores behind URIs: verified as a copy with the same findings, nothing left behind, and clear words when they cannot be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqstore.errors import NotAStoreError, RmqstoreError, UnreadableError
from rmqstore.pipeline import remote
from rmqstore.pipeline.job import StoreAt
from tests.support import stores
from tests.support.cli import rmqstore


def test_a_copy_is_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_BLOCK", 1000)
    root = stores.sample_store("5.3.3-plain-crash")

    with remote.at_hand(StoreAt.of(root.as_uri())) as here:
        copy = Path(here.path)
        assert stores.content(copy) == stores.content(root)
        times = {path.relative_to(root): path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}
        assert {path.relative_to(copy): path.stat().st_mtime_ns for path in copy.rglob("*") if path.is_file()} == times

    assert not copy.exists()


def test_the_same_findings() -> None:
    root = stores.sample_store("5.3.3-plain-crash")
    options = ("--part", "commitlog", "--part", "checkpoint", "--part", "store", "--format", "json")

    here, there = rmqstore("verify", root, *options), rmqstore("verify", root.as_uri(), "--engine", "local", *options)

    assert there.status == here.status == 0
    expected = [{**finding, "store": root.as_uri()} for finding in here.objects[:-1]]
    assert there.objects[:-1] == expected
    assert there.objects[-1]["stores"] == 1


def test_what_cannot_be_had_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for uri, kind in (((tmp_path / "nothing").as_uri(), NotAStoreError), ("nonsense://there/store", RmqstoreError)):
        with pytest.raises(kind), remote.at_hand(StoreAt.of(uri)):
            pass
    monkeypatch.setattr(remote.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 10}))
    with pytest.raises(UnreadableError, match="room for 10"), remote.at_hand(StoreAt.of(stores.sample_store("5.3.3-plain").as_uri())):
        pass


def test_the_command_tells_it_as_a_finding(tmp_path: Path) -> None:
    run = rmqstore("verify", (tmp_path / "nothing").as_uri(), "--engine", "local", "--format", "json")
    assert (run.status, run.crashed) == (1, False)
    assert [finding["code"] for finding in run.objects[:-1]] == ["RMQ-ST-UNREADABLE"]


def test_paths_are_no_uris() -> None:
    assert remote.is_remote("s3://bucket/store")
    assert not remote.is_remote("/data/s3://store")
    assert not remote.is_remote("store")
