"""Opening stores: whole roots, copied parts, and paths that are neither."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from rmqstore.errors import NotAStoreError, UnreadableError
from rmqstore.store.mapped import ProblemKind
from rmqstore.store.parts import PartKind
from rmqstore.store.root import Store
from tests.store.trees import offset_name, put
from tests.support import stores


@pytest.mark.parametrize("name", [case.name for case in stores.cases()])
def test_lengths_are_inferred_as_they_were_configured(name: str) -> None:
    root = stores.sample_store(name)
    inferred = Store.open(root)
    configured = Store.open(root, settings=stores.case(name).settings(root))
    assert inferred.commitlog.files == configured.commitlog.files
    if configured.commitlog.files:
        assert inferred.commitlog.file_size == configured.commitlog.file_size
    for queues in ("queue_directories", "batch_queue_directories", "ext_queue_directories"):
        assert list(getattr(inferred, queues)()) == list(getattr(configured, queues)())


@pytest.mark.parametrize("name", [case.name for case in stores.cases()])
def test_a_store_of_a_real_broker_has_nothing_odd(name: str) -> None:
    store = Store.open(stores.sample_store(name))
    queues = [*store.queue_directories(), *store.batch_queue_directories(), *store.ext_queue_directories()]
    problems = [problem for files in [store.commitlog, *(queue.files for queue in queues)] for problem in files.problems()]
    # Queues below the first log file expire file by file; nothing else may be odd.
    assert problems == []
    assert [stray for kind in (PartKind.CONSUMEQUEUE, PartKind.BATCHCONSUMEQUEUE) for stray in store.strays(kind)] == []
    assert [part.path.name for part in store.parts() if part.kind is PartKind.OTHER] == []
    assert store.abort_present == stores.case(name).crashed


def test_queues_come_by_topic_and_number(tmp_path: Path) -> None:
    for topic, queue_id in (("b", 10), ("b", 2), ("a", 0)):
        put(tmp_path / "consumequeue" / topic / str(queue_id), (0, 400))
    queues = list(Store.open(tmp_path).queue_directories())
    assert [(queue.topic, queue.queue_id) for queue in queues] == [("a", 0), ("b", 2), ("b", 10)]


def test_one_cut_queue_file_is_judged_by_the_other_queues(tmp_path: Path) -> None:
    for queue_id in range(3):
        put(tmp_path / "consumequeue" / "T" / str(queue_id), (0, 400))
    put(tmp_path / "consumequeue" / "T" / "3", (0, 100))
    cut = list(Store.open(tmp_path).queue_directories())[3]
    assert [problem.kind for problem in cut.files.problems()] == [ProblemKind.WRONG_LENGTH]


def test_strays_among_queues_are_listed(tmp_path: Path) -> None:
    put(tmp_path / "consumequeue" / "T" / "0", (0, 400))
    (tmp_path / "consumequeue" / "T" / "old").mkdir()
    (tmp_path / "consumequeue" / "T" / "note").write_text("x")
    (tmp_path / "consumequeue" / "file").write_text("x")
    strays = {stray.path.relative_to(tmp_path).as_posix() for stray in Store.open(tmp_path).strays(PartKind.CONSUMEQUEUE)}
    assert strays == {"consumequeue/T/old", "consumequeue/T/note", "consumequeue/file"}


def test_index_files_with_a_foreign_name_are_marked(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    for name in ("20240101000000000", "20240101000000000.bak"):
        (tmp_path / "index" / name).write_bytes(bytes(40))
    (tmp_path / "index" / "20240101000000001").mkdir()
    store = Store.open(tmp_path)
    assert [(file.path.name, file.named_right) for file in store.index_files()] == [
        ("20240101000000000", True),
        ("20240101000000000.bak", False),
    ]
    assert [(found.path.name, found.found) for found in store.index_obstacles()] == [("20240101000000001", "directory")]


def test_sizes_of_parts_are_logical_and_allocated(tmp_path: Path) -> None:
    put(tmp_path / "commitlog", (0, 1 << 26))
    (tmp_path / "notes.txt").write_text("hello")
    parts = {part.kind: part for part in Store.open(tmp_path).parts()}
    log = parts[PartKind.COMMITLOG]
    assert (log.files, log.length) == (1, 1 << 26)
    assert log.allocated < 1 << 20
    assert parts[PartKind.OTHER].path.name == "notes.txt"


COPIES = [
    ("5.3.3-plain", "commitlog", PartKind.COMMITLOG),
    ("5.3.3-plain", "index", PartKind.INDEX),
    ("5.3.3-plain", "consumequeue", PartKind.CONSUMEQUEUE),
    ("5.3.3-plain", "consumequeue/TopicA", PartKind.CONSUMEQUEUE),
    ("5.3.3-plain", "consumequeue/TopicA/1", PartKind.CONSUMEQUEUE),
    ("5.3.3-cqext", "consumequeue_ext/TopicA/0", PartKind.CONSUMEQUEUE_EXT),
    ("5.5.1-batchcq", "batchconsumequeue", PartKind.BATCHCONSUMEQUEUE),
    ("broker-5.3.3-cqext-crash", "timerlog", PartKind.TIMERLOG),
    ("broker-5.3.3-dledger-clean", "dledger-n0", PartKind.DLEDGER),
    ("broker-5.3.3-dledger-clean", "dledger-n0/data", PartKind.DLEDGER),
]


@pytest.mark.parametrize(("name", "part", "kind"), COPIES, ids=[f"{name}/{part}" for name, part, _ in COPIES])
def test_a_copied_part_opens_under_any_name(name: str, part: str, kind: PartKind, tmp_path: Path) -> None:
    copied = tmp_path / "copied"
    shutil.copytree(stores.sample_store(name) / part, copied)
    store = Store.open(copied)
    assert store.only is kind
    logs = [store.commitlog, store.timerlog, *([store.dledger.data] if store.dledger else [])]
    queues = [*store.queue_directories(), *store.batch_queue_directories(), *store.ext_queue_directories()]
    held = {file.path for files in [*logs, *(queue.files for queue in queues)] for file in files.files}
    held |= {file.path for file in store.index_files()}
    expected = {path for path in copied.rglob("*") if path.is_file() and path.name.isdigit()}
    if part == "dledger-n0":
        expected = {path for path in expected if path.parent.name == "data"}
    assert held == expected
    assert not store.abort_present


def test_a_queue_copied_with_its_name_keeps_it(tmp_path: Path) -> None:
    shutil.copytree(stores.sample_store("5.3.3-plain") / "consumequeue" / "TopicA" / "1", tmp_path / "TopicA" / "1")
    (queue,) = Store.open(tmp_path / "TopicA" / "1").queue_directories()
    assert (queue.topic, queue.queue_id) == ("TopicA", 1)


def test_the_dledger_log_is_found(tmp_path: Path) -> None:
    store = Store.open(stores.sample_store("broker-5.3.3-dledger-clean"))
    assert store.commitlog.files == ()
    assert store.dledger is not None
    assert store.dledger.self_id == "n0"
    assert [file.start for file in store.dledger.data.files] == [0, 1048576]


def test_the_member_named_by_the_configuration_is_taken(tmp_path: Path) -> None:
    for member in ("n0", "n1"):
        put(tmp_path / f"dledger-{member}" / "data", (0, 1024))
    opened = Store.open(tmp_path, settings={"dLegerSelfId": "n1"})
    assert opened.dledger is not None
    assert opened.dledger.self_id == "n1"


def test_a_mistyped_path_has_the_one_that_was_meant(tmp_path: Path) -> None:
    (tmp_path / "broker-a" / "store").mkdir(parents=True)
    with pytest.raises(UnreadableError, match="no such directory") as error:
        Store.open(tmp_path / "brokr-a" / "store")
    assert error.value.hint == f"Did you mean {tmp_path / 'broker-a' / 'store'}?"


def test_paths_that_are_no_store_are_told(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="no such directory"):
        Store.open(tmp_path / "gone")
    with pytest.raises(NotAStoreError, match="is empty"):
        Store.open(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotAStoreError, match="is a file") as error:
        Store.open(tmp_path / "file")
    assert "rmqstore dump" in error.value.hint
    with pytest.raises(NotAStoreError, match="no commitlog"):
        Store.open(tmp_path)


def test_the_store_inside_is_pointed_at(tmp_path: Path) -> None:
    put(tmp_path / "store" / "commitlog", (0, 1024))
    with pytest.raises(NotAStoreError, match="store in it looks like one") as error:
        Store.open(tmp_path)
    assert str(tmp_path / "store") in error.value.hint


@pytest.mark.parametrize("name", ["index", "checkpoint", "transaction", "config", "lock", "abort"])
def test_a_common_word_alone_is_no_store(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "readme.txt").write_text("x")
    with pytest.raises(NotAStoreError):
        Store.open(tmp_path)


def test_a_file_in_place_of_the_commit_log_holds_no_log(tmp_path: Path) -> None:
    (tmp_path / "commitlog").write_bytes(b"x")
    assert Store.open(tmp_path).commitlog.files == ()


def test_a_single_directory_elsewhere_is_enough_when_configured(tmp_path: Path) -> None:
    root = tmp_path / "store"
    root.mkdir()
    put(tmp_path / "log", (0, 1024))
    store = Store.open(root, settings={"storePathCommitLog": str(tmp_path / "log")})
    assert [file.path.name for file in store.commitlog.files] == [offset_name(0)]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_root_without_permission_is_told(tmp_path: Path) -> None:
    put(tmp_path / "store" / "commitlog", (0, 1024))
    (tmp_path / "store").chmod(0)
    try:
        with pytest.raises(UnreadableError, match="permission denied"):
            Store.open(tmp_path / "store")
    finally:
        (tmp_path / "store").chmod(0o755)
