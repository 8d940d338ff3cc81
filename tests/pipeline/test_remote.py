"""Stores behind URIs: verified as a copy with the same findings, nothing left behind, and clear words when they cannot be had."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyarrow import fs

from rmqstore.errors import NotAStoreError, RmqstoreError, UnreadableError
from rmqstore.pipeline import fetching, remote
from rmqstore.pipeline.filesystems import is_remote
from rmqstore.pipeline.job import StoreAt
from tests.support import stores
from tests.support.cli import rmqstore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_copy_is_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "_BLOCK", 1000)
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


@pytest.mark.parametrize("others", [(), ("broker-5.3.3-dledger-clean",)])
def test_the_same_counts(others: tuple[str, ...]) -> None:
    root, more = stores.sample_store("5.3.3-plain-crash"), [stores.sample_store(name) for name in others]
    options = ("--engine", "local", "--format", "json")

    here, there = rmqstore("stats", root, *more, *options), rmqstore("stats", root.as_uri(), *more, *options)

    assert there.status == here.status == 0
    told = [{**one, "value": root.as_uri()} if one.get("value") == str(root) else one for one in here.objects[:-1]]
    assert there.objects[:-1] == told
    assert there.objects[-1]["stores"] == 1 + len(others)


def test_the_same_export(tmp_path: Path) -> None:
    root = stores.sample_store("5.3.3-plain-crash")

    here = rmqstore("export", root, tmp_path / "here", "--engine", "local", "--quiet")
    there = rmqstore("export", root.as_uri(), tmp_path / "there", "--engine", "local", "--quiet")

    assert (here.status, there.status) == (0, 0)
    exported = {path.name: path.read_bytes() for path in (tmp_path / "here").glob("*.jsonl")}
    assert exported
    assert {path.name: path.read_bytes() for path in (tmp_path / "there").glob("*.jsonl")} == exported


def test_a_stopped_export_of_a_copy_goes_on(tmp_path: Path) -> None:
    """The copy of the second run lies elsewhere, and is the same store."""
    root = stores.sample_store("5.3.3-plain-crash")
    words = ("export", root.as_uri(), tmp_path / "out", "--engine", "local", "--no-progress")
    assert rmqstore(*words).status == 0
    again = rmqstore(*words)
    assert (again.status, again.crashed) == (0, False)
    assert "nothing is left to do" in again.err


def test_the_same_answer(session: SparkSession) -> None:
    root = stores.sample_store("5.3.3-plain-crash")
    words = ("select topic, count(*) n, sum(size) bytes from messages group by topic order by topic", "--format", "json")

    here, there = rmqstore("sql", root, *words), rmqstore("sql", root.as_uri(), *words)

    assert (there.status, there.err) == (0, "")
    assert there.objects == here.objects != []


@pytest.mark.parametrize("command", [("stats",), ("sql", "select 1"), ("export", "OUT")])
def test_a_uri_without_a_store_ends_with_a_sentence(command: tuple[str, ...], tmp_path: Path) -> None:
    name, *more = [str(tmp_path / word) if word == "OUT" else word for word in command]
    run = rmqstore(name, (tmp_path / "nothing").as_uri(), *more)
    assert (run.status, run.crashed) == (4, False)
    assert "is no directory" in run.err
    assert list(tmp_path.iterdir()) == []


def test_names_that_leave_the_store_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An object store takes any name: that of a file must not be a path to another place of this machine."""

    class Objects:
        def get_file_info(self, what: object) -> object:
            if isinstance(what, str):
                return fs.FileInfo(what, fs.FileType.Directory)
            return [fs.FileInfo("bucket/store/commitlog/../../../outside", fs.FileType.File, size=1)]

    monkeypatch.setattr(fetching, "opened", lambda uri: (Objects(), "bucket/store"))

    with pytest.raises(NotAStoreError, match="outside of the store"), remote.at_hand(StoreAt.of("s3://bucket/store")):
        pass


def test_what_is_wrong_with_a_copy_is_told_of_the_store(tmp_path: Path) -> None:
    run = rmqstore("stats", tmp_path.as_uri(), "--engine", "local")
    assert (run.status, run.crashed) == (4, False)
    assert f"{tmp_path.as_uri()} is empty" in run.err


def test_what_cannot_be_had_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for uri, kind in (((tmp_path / "nothing").as_uri(), NotAStoreError), ("nonsense://there/store", RmqstoreError)):
        with pytest.raises(kind), remote.at_hand(StoreAt.of(uri)):
            pass
    monkeypatch.setattr(fetching.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 10}))
    with pytest.raises(UnreadableError, match="room for 10"), remote.at_hand(StoreAt.of(stores.sample_store("5.3.3-plain").as_uri())):
        pass


def test_the_command_tells_it_as_a_finding(tmp_path: Path) -> None:
    run = rmqstore("verify", (tmp_path / "nothing").as_uri(), "--engine", "local", "--format", "json")
    assert (run.status, run.crashed) == (1, False)
    assert [finding["code"] for finding in run.objects[:-1]] == ["RMQ-ST-UNREADABLE"]


def test_paths_are_no_uris() -> None:
    assert is_remote("s3://bucket/store")
    assert not is_remote("/data/s3://store")
    assert not is_remote("store")


def test_what_hdfs_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    monkeypatch.delitem(sys.modules, "rmqstore.pipeline.hdfs", raising=False)
    done = rmqstore("info", "hdfs://host:9000/store")

    assert done.status == 2
    assert done.err == "error: hdfs:// needs the package hdfs-native.\nhint: Run pip install 'rmqstore[hdfs]'.\n"


@pytest.mark.parametrize(
    ("uri", "cause"),
    [
        ("hdfs://host:port/x", "Port could not be cast to integer value as 'port'"),
        ("hdfs://service/x", "No NameNode hosts found"),
        ("hdfs:///x", "No fs.defaultFS setting found"),
        ("hdfs://host:9000/x?user=me", "user is no setting of Hadoop"),
    ],
)
def test_uris_of_hdfs_that_name_nothing(uri: str, cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    root = stores.fresh_store("5.3.3-plain-crash", tmp_path)
    for verb, words in (
        ("read", ("info", uri)),
        ("written", ("export", root, uri)),
        ("written", ("recover", root, "--dry-run", "--engine", "spark", "--work-dir", uri)),
    ):
        done = rmqstore(*words)
        assert (done.status, done.crashed) == (4, False), done.err
        assert f"error: {uri} could not be {verb}: {cause}.\n" in done.err
