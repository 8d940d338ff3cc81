"""Names and lengths of files: what a load would refuse, delete or ignore (fact sheets commit log §4.2, §4.3, queues §2.7)."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqstore.findings import Severity
from rmqstore.verify.parts import files
from tests.support.builder import StoreBuilder
from tests.verify.one_check import codes, errors, only, run

LOG_FILE = 4096
QUEUE_FILE = 200


def given_store(root: Path, messages: int = 60) -> StoreBuilder:
    builder = StoreBuilder(root, log_file_size=LOG_FILE, queue_file_size=QUEUE_FILE, slots=10, items=20)
    for number in range(messages):
        builder.message(keys=f"k{number}", body=bytes(100))
    builder.build()
    return builder


def name(offset: int) -> str:
    return f"{offset:020d}"


def test_a_sound_store_gives_nothing(tmp_path: Path) -> None:
    builder = given_store(tmp_path)
    assert run(files, tmp_path, builder.settings) == []
    assert run(files, tmp_path) == []


# Commit log


def test_a_missing_file_is_a_gap_with_its_physical_offsets(tmp_path: Path) -> None:
    builder = given_store(tmp_path)
    (tmp_path / "commitlog" / name(LOG_FILE)).unlink()
    found = only(run(files, tmp_path, builder.settings), "RMQ-CL-GAP")
    assert (found.file, found.offset, found.length) == (f"commitlog/{name(2 * LOG_FILE)}", LOG_FILE, LOG_FILE)


def test_a_shorter_last_file(tmp_path: Path) -> None:
    given_store(tmp_path)
    last = max((tmp_path / "commitlog").iterdir())
    with last.open("r+b") as stream:
        stream.truncate(1000)
    found = only(run(files, tmp_path), "RMQ-CL-FILELEN")
    assert (found.file, found.expected, found.found) == (f"commitlog/{last.name}", LOG_FILE, 1000)
    assert found.severity is Severity.ERROR


@pytest.mark.parametrize(("position", "advice"), [(100, "delete it at load"), (1, "no release starts")])
def test_an_empty_file_is_harmless_only_as_the_last_one(position: int, advice: str, tmp_path: Path) -> None:
    builder = given_store(tmp_path)
    path = tmp_path / "commitlog" / name(position * LOG_FILE)
    path.write_bytes(b"")
    assert advice in only(run(files, tmp_path, builder.settings), "RMQ-CL-ZEROLEN").message


def test_an_empty_file_is_a_warning_while_the_store_is_crashed(tmp_path: Path) -> None:
    given_store(tmp_path)
    (tmp_path / "commitlog" / name(100 * LOG_FILE)).write_bytes(b"")
    assert only(run(files, tmp_path), "RMQ-CL-ZEROLEN").severity is Severity.ERROR
    (tmp_path / "abort").write_bytes(b"")
    assert only(run(files, tmp_path), "RMQ-CL-ZEROLEN").severity is Severity.WARNING


def test_a_wrong_setting_is_about_lengths_and_not_about_gaps(tmp_path: Path) -> None:
    builder = given_store(tmp_path, 200)
    count = len(list((tmp_path / "commitlog").iterdir()))
    found = codes(run(files, tmp_path, {**builder.settings, "mappedFileSizeCommitLog": str(2 * LOG_FILE)}))
    assert set(found) == {"RMQ-CL-FILELEN"}
    assert found["RMQ-CL-FILELEN"] == min(count, 21)  # twenty of them, and one finding that counts the rest


def test_foreign_entries_of_the_commit_log(tmp_path: Path) -> None:
    given_store(tmp_path)
    (tmp_path / "commitlog" / ".keep").write_bytes(b"x")
    (tmp_path / "commitlog" / "copy").mkdir()
    found = run(files, tmp_path)
    assert codes(found) == {"RMQ-CL-NAME": 1, "RMQ-ST-FOREIGN": 1}
    assert {(one.code, one.file) for one in found} == {("RMQ-CL-NAME", "commitlog/.keep"), ("RMQ-ST-FOREIGN", "commitlog/copy")}


def test_a_directory_with_the_name_of_a_log_file_stands_in_the_way_of_data(tmp_path: Path) -> None:
    given_store(tmp_path)
    (tmp_path / "commitlog" / name(0)).unlink()
    (tmp_path / "commitlog" / name(0)).mkdir()
    assert only(errors(run(files, tmp_path)), "RMQ-ST-KIND").file == f"commitlog/{name(0)}"


@pytest.mark.parametrize("how", ["emptied", "removed"])
def test_no_commit_log_beside_queues_is_the_worst_case(how: str, tmp_path: Path) -> None:
    given_store(tmp_path)
    for path in (tmp_path / "commitlog").iterdir():
        path.unlink()
    if how == "removed":
        (tmp_path / "commitlog").rmdir()
    assert only(run(files, tmp_path), "RMQ-CL-EMPTY").severity is Severity.ERROR


def test_a_store_that_never_had_a_message(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "consumequeue").mkdir()
    (tmp_path / "checkpoint").write_bytes(bytes(4096))
    found = run(files, tmp_path)
    assert codes(found) == {"RMQ-ST-EMPTY": 1}
    assert errors(found) == []


def test_the_checkpoint_alone_tells_of_lost_messages(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "checkpoint").write_bytes((1_700_000_000_000).to_bytes(8, "big") + bytes(4088))
    assert codes(run(files, tmp_path)) == {"RMQ-CL-EMPTY": 1}


def test_a_configured_directory_that_does_not_exist(tmp_path: Path) -> None:
    given_store(tmp_path)
    settings = {"storePathCommitLog": f"{tmp_path}/commitlog,{tmp_path}/second"}
    assert only(run(files, tmp_path, settings), "RMQ-ST-PATH").file == "second"


def test_a_file_in_place_of_the_commit_log_directory_does_not_end_the_check(tmp_path: Path) -> None:
    given_store(tmp_path)
    for path in (tmp_path / "commitlog").iterdir():
        path.unlink()
    (tmp_path / "commitlog").rmdir()
    (tmp_path / "commitlog").write_bytes(b"x")
    (tmp_path / "index" / "readme").write_bytes(b"x")
    found = codes(list(files.check(_context_without_log(tmp_path))))
    assert found == {"RMQ-CL-EMPTY": 1, "RMQ-IX-NAME": 1}


def _context_without_log(root: Path) -> files.Context:
    from rmqstore.store.root import Store
    from rmqstore.verify.context import Context, Options

    return Context(Store.open(root), Options())


# Queues


def queue(root: Path, topic: str = "TopicA") -> Path:
    return root / "consumequeue" / topic / "0"


def test_a_missing_queue_file(tmp_path: Path) -> None:
    given_store(tmp_path)
    (queue(tmp_path) / name(QUEUE_FILE)).unlink()
    found = only(run(files, tmp_path), "RMQ-CQ-GAP")
    assert (found.topic, found.queue_id, found.expected, found.found) == ("TopicA", 0, QUEUE_FILE, 2 * QUEUE_FILE)


def test_the_length_of_all_queues_speaks_for_the_one_that_was_cut(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path, queue_file_size=QUEUE_FILE)
    for topic in ("TopicA", "TopicB", "TopicC"):
        builder.message(topic)
    builder.build()
    path = queue(tmp_path, "TopicB") / name(0)
    path.write_bytes(path.read_bytes()[:-20])
    found = only(run(files, tmp_path), "RMQ-CQ-FILELEN")
    assert (found.topic, found.expected, found.found) == ("TopicB", QUEUE_FILE, QUEUE_FILE - 20)


def test_a_queue_length_that_is_no_multiple_of_a_unit(tmp_path: Path) -> None:
    directory = tmp_path / "batchconsumequeue" / "TopicA" / "0"
    directory.mkdir(parents=True)
    (directory / name(0)).write_bytes(bytes(50 * 46 + 7))
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / name(0)).write_bytes(bytes(LOG_FILE))
    assert only(run(files, tmp_path), "RMQ-CQ-FILELEN").expected == 51 * 46


def test_foreign_entries_of_queue_directories(tmp_path: Path) -> None:
    given_store(tmp_path)
    (queue(tmp_path) / (name(0) + ".bak")).write_bytes(bytes(QUEUE_FILE))  # no release starts with it
    (queue(tmp_path) / "old").mkdir()
    (tmp_path / "consumequeue" / "note.txt").write_bytes(b"x")  # ignored by all
    (tmp_path / "consumequeue" / "TopicA" / "x").mkdir()
    found = run(files, tmp_path)
    assert codes(found) == {"RMQ-CQ-NAME": 2, "RMQ-ST-FOREIGN": 2}
    assert {one.file for one in errors(found)} == {f"consumequeue/TopicA/0/{name(0)}.bak", "consumequeue/TopicA/0/old"}


def test_only_wanted_topics_are_looked_at(tmp_path: Path) -> None:
    from rmqstore.store.root import Store
    from rmqstore.verify.context import Context, Options

    given_store(tmp_path)
    (queue(tmp_path) / "old").mkdir()
    store = Store.open(tmp_path)
    assert codes(list(files.check(Context(store, Options(topics=frozenset({"TopicB"})))))) == {}
    assert codes(list(files.check(Context(store, Options(topics=frozenset({"TopicA"})))))) == {"RMQ-CQ-NAME": 1}


# Index

INDEX_LENGTH = 40 + 4 * 10 + 20 * 20


@pytest.mark.parametrize("length", [0, 3, INDEX_LENGTH - 20, INDEX_LENGTH + 20])
@pytest.mark.parametrize("known", [True, False])
def test_an_index_file_of_another_length(length: int, known: bool, tmp_path: Path) -> None:
    builder = given_store(tmp_path)
    paths = sorted((tmp_path / "index").iterdir())
    assert len(paths) > 2
    with paths[-1].open("r+b") as stream:
        stream.truncate(length)
    found = only(run(files, tmp_path, builder.settings if known else None), "RMQ-IX-FILELEN")
    assert (found.file, found.expected, found.found) == (f"index/{paths[-1].name}", INDEX_LENGTH, length)


def test_a_single_index_file_without_settings_is_believed_if_its_length_is_possible(tmp_path: Path) -> None:
    given_store(tmp_path, 3)
    path = next((tmp_path / "index").iterdir())
    assert codes(run(files, tmp_path)) == {}
    with path.open("r+b") as stream:
        stream.truncate(INDEX_LENGTH - 1)
    assert codes(run(files, tmp_path)) == {"RMQ-IX-FILELEN": 1}


def test_a_cut_index_file_beside_one_of_the_default_length(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    for number, length in ((1, 420_000_040), (2, 420_000_000), (3, 420_000_000)):
        with (tmp_path / "index" / f"2026010100000000{number}").open("wb") as stream:
            stream.truncate(length)
    (tmp_path / "commitlog").mkdir()
    found = [one for one in run(files, tmp_path) if one.code == "RMQ-IX-FILELEN"]
    assert [(one.expected, one.found) for one in found] == [(420_000_040, 420_000_000)] * 2


def test_names_and_directories_of_the_index(tmp_path: Path) -> None:
    given_store(tmp_path)
    (tmp_path / "index" / "readme.txt").write_bytes(b"x")
    (tmp_path / "index" / "old").mkdir()
    (tmp_path / "index" / "20260101000000000").mkdir()  # 5.x does not start
    found = run(files, tmp_path)
    assert codes(found) == {"RMQ-IX-NAME": 2, "RMQ-ST-KIND": 1}
    assert [one.file for one in errors(found)] == ["index/20260101000000000"]


# Timer log


def test_the_timer_log_has_lengths_and_gaps_too(tmp_path: Path) -> None:
    given_store(tmp_path)
    directory = tmp_path / "timerlog"
    directory.mkdir()
    for offset, length in ((0, 8192), (8192, 8140), (24576, 8192), (32768, 0)):
        (directory / name(offset)).write_bytes(bytes(length))
    found = run(files, tmp_path, {"mappedFileSizeTimerLog": "8192"})
    assert codes(found) == {"RMQ-TM-LOG-FILELEN": 2, "RMQ-TM-LOG-ZEROLEN": 1}
    assert {one.file for one in found} == {f"timerlog/{name(offset)}" for offset in (8192, 24576, 32768)}
