"""What `info` gathers: ends of log and queues, the releases that can have written a store, who uses it."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqstore.formats.checkpoint import parse_checkpoint
from rmqstore.scan.tail import tail_records
from rmqstore.store import ends
from rmqstore.store.ends import log_ends, queue_ends
from rmqstore.store.kinds.writer import RELEASES, release_key
from rmqstore.store.liveness import Liveness, liveness, parse_locks, store_users
from rmqstore.store.root import Store
from rmqstore.store.summary import State, StoreSummary, summarize
from tests.store.test_writer import admits
from tests.support import stores
from tests.support.builder import StoreBuilder

CASES = stores.cases()
NAMES = [case.name for case in CASES]
FreshStore = Callable[[str], Path]


def summary_of(name: str) -> StoreSummary:
    return summarize(Store.open(stores.sample_store(name)))


@pytest.mark.parametrize("name", NAMES)
def test_the_real_release_is_in_the_range(name: str) -> None:
    writer = summary_of(name).writer
    assert admits(writer, stores.case(name).release), writer
    assert writer.contradicting == ()


@pytest.mark.parametrize(
    ("name", "lowest", "highest"),
    [
        ("4.9.8-plain", "4.9.1", "4.9.8"),
        ("5.1.4-plain", "5.1.0", "5.1.4"),
        ("5.2.0-lmq", "5.2.0", "5.3.0"),
        ("5.3.3-plain", "5.2.0", "5.3.4"),
        ("5.4.0-plain", "5.4.0", "5.5.1"),
        ("5.5.1-plain", "5.5.0", "5.5.1"),
        ("broker-5.3.3-cqext-crash", "5.3.1", "5.3.4"),
        ("broker-4.9.7-lmq-crash", "4.9.3", "4.9.8"),
    ],
)
def test_signs_narrow_the_range(name: str, lowest: str, highest: str) -> None:
    writer = summary_of(name).writer
    assert (writer.lowest, writer.highest) == (lowest, highest)


def test_a_sign_of_a_newer_release_overrules_what_is_merely_missing(fresh_store: FreshStore) -> None:
    root = fresh_store("5.5.1-plain")
    shutil.rmtree(root / "rocksdbstore")
    writer = summarize(Store.open(root)).writer
    assert (writer.lowest, writer.highest) == ("5.5.0", "5.5.1")
    assert ["rocksdbstore" in sign.text for sign in writer.contradicting] == [True]


def test_a_copied_log_tells_what_its_records_tell() -> None:
    writer = summarize(Store.open(stores.sample_store("5.1.4-longtopic") / "commitlog")).writer
    assert (writer.lowest, writer.highest) == ("5.1.0", "5.1.4")


def test_releases_are_in_order() -> None:
    assert sorted(RELEASES, key=release_key) == list(RELEASES)


@pytest.mark.parametrize("name", [case.name for case in CASES if case.max_phy_offset])
def test_the_log_ends_behind_the_last_whole_record(name: str) -> None:
    case = stores.case(name)
    log = summary_of(name).log
    assert (log.min_offset, log.end_offset) == (case.min_phy_offset, case.max_phy_offset)
    # The same without the help of the queues.
    assert log_ends(Store.open(stores.sample_store(name)).commitlog).end_offset == case.max_phy_offset


def test_the_dledger_log_ends_where_its_queues_say() -> None:
    store = Store.open(stores.sample_store("broker-5.3.3-dledger-clean"))
    ends = max((queue_ends(queue.files) for queue in store.queue_directories()), key=lambda ends: ends.last_physical_offset)
    summary = summarize(store)
    assert summary.dledger
    assert summary.log.directories == ("dledger-n0/data",)
    assert summary.log.end_offset == ends.last_physical_offset + ends.last_size


@pytest.mark.parametrize("name", ["4.9.8-plain", "5.3.3-plain-crash", "5.5.1-plain"])
def test_queues_hold_what_was_written(name: str) -> None:
    truth = Counter((line["topic"], line["queueId"]) for line in stores.case(name).truth())
    summary = summary_of(name)
    assert (summary.queues.topics, summary.queues.queues) == (len({topic for topic, _ in truth}), len(truth))
    assert summary.queues.entries == sum(truth.values())
    assert {(queue.topic, queue.queue_id): queue.entries for queue in summary.queues.top} == {
        key: truth[key] for key in sorted(truth, key=lambda key: (-truth[key], key))[:10]
    }


@pytest.mark.parametrize("name", ["4.9.8-plain", "5.5.1-plain"])
def test_times_are_those_of_the_first_and_last_record(name: str) -> None:
    times = [line["storeTimestamp"] for line in stores.case(name).truth()]
    log = summary_of(name).log
    assert (log.first_store_timestamp, log.last_store_timestamp) == (times[0], times[-1])


def test_expired_queues_begin_with_their_first_file() -> None:
    case = stores.case("4.9.8-headless")
    offsets = {
        (line["topic"], line["queueId"]): line["queueOffset"] for line in case.truth() if line["physicalOffset"] >= case.min_phy_offset
    }
    store = Store.open(stores.sample_store(case.name))
    ends = {(queue.topic, queue.queue_id): queue_ends(queue.files) for queue in store.queue_directories()}
    assert {key: ends[key].max_offset for key in offsets} == {key: last + 1 for key, last in offsets.items()}
    assert any(found.min_offset > 0 for found in ends.values())
    assert all(found.min_offset * 20 % int(case.settings(".")["mappedFileSizeConsumeQueue"]) == 0 for found in ends.values())


def test_pre_blank_units_are_no_entries(tmp_path: Path) -> None:
    StoreBuilder(tmp_path, queue_file_size=200).message(queue_offset=7).message(queue_offset=8).build()
    (queue,) = Store.open(tmp_path).queue_directories()
    ends = queue_ends(queue.files)
    assert (ends.min_offset, ends.max_offset, ends.entries) == (7, 9, 2)


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 99, 100, 101, 200, 250])
def test_ends_of_queues_of_any_length(count: int, tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path, queue_file_size=2000)
    builder.message(topic="Other")
    for _ in range(count):
        builder.message(body=b"")
    builder.build()
    ends = {queue.topic: queue_ends(queue.files).max_offset for queue in Store.open(tmp_path).queue_directories()}
    assert ends == {"Other": 1, **({"TopicA": count} if count else {})}


def test_a_torn_last_record_is_not_counted(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path, log_file_size=4096)
    builder.message(body=b"a" * 100)
    end = builder.offset
    builder.message(body=b"b" * 100).build()
    with (tmp_path / "commitlog" / "00000000000000000000").open("r+b") as stream:
        stream.seek(end + 120)
        stream.write(bytes(20))
    shutil.rmtree(tmp_path / "consumequeue")
    assert log_ends(Store.open(tmp_path).commitlog).end_offset == end


def test_a_log_that_ends_with_a_blank_ends_with_its_file(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path, log_file_size=1024)
    builder.message(body=b"a" * 600)
    builder.message(body=b"b" * 600).build()
    (tmp_path / "commitlog" / "00000000000000001024").unlink()
    assert log_ends(Store.open(tmp_path).commitlog).end_offset == 1024


def test_a_hint_that_points_at_no_record_is_ignored() -> None:
    log = Store.open(stores.sample_store("5.3.3-plain")).commitlog
    end = stores.case("5.3.3-plain").max_phy_offset
    assert [log_ends(log, hint=hint).end_offset for hint in (end - 7, end + 5, 10**12, 3)] == [end] * 4


@pytest.mark.parametrize("name", NAMES)
def test_compiled_code_that_walks_on_finds_the_same_end(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.open(stores.sample_store(name))
    log = store.message_log
    header = store.entry_header(log.files[-1]) if log.files else 0
    stepped = log_ends(log, entry_header=header)
    monkeypatch.setattr(ends, "_NEAR", 2)
    assert bool(stepped.tail) == bool(log.files)
    assert log_ends(log, entry_header=header, far=tail_records) == stepped


@pytest.mark.parametrize("at", [4, 28, 84], ids=["magic", "physical offset", "body length"])
def test_compiled_code_stops_where_the_chain_of_records_does(at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = StoreBuilder(tmp_path, log_file_size=1 << 16)
    places = []
    for number in range(40):
        places.append(builder.offset)
        builder.message(body=b"a" * number)
    builder.build()
    shutil.rmtree(tmp_path / "consumequeue")
    with (tmp_path / "commitlog" / "00000000000000000000").open("r+b") as stream:
        stream.seek(places[25] + at)
        stream.write(b"\xff" * 4)
    monkeypatch.setattr(ends, "_NEAR", 3)
    found = log_ends(Store.open(tmp_path).commitlog, far=tail_records)
    assert found.end_offset == places[25]
    assert [offset for offset, _ in found.tail] == places[:25]


@pytest.mark.parametrize("name", ["5.3.3-plain", "5.3.3-plain-crash"])
def test_clean_or_crashed(name: str) -> None:
    assert summary_of(name).state is (State.CRASHED if stores.case(name).crashed else State.CLEAN)


def test_the_checkpoint_is_told_field_by_field() -> None:
    fields = parse_checkpoint((stores.sample_store("5.5.1-plain") / "checkpoint").read_bytes())
    told = summary_of("5.5.1-plain").checkpoint
    assert told is not None
    assert told["logics_physical_offset"] == fields.logics_physical_offset != 0
    assert told["physic_msg_timestamp"] == fields.physic_msg_timestamp


def test_an_exclusive_record_lock_in_the_kernels_list_is_understood() -> None:
    text = (
        "1: FLOCK  ADVISORY  WRITE 100 08:01:5 0 EOF\n"
        "2: POSIX  ADVISORY  READ 101 08:01:6 0 EOF\n"
        "3: POSIX  ADVISORY  WRITE 102 fd:1a:7 0 0\n"
        "3: -> POSIX  ADVISORY  WRITE 103 fd:1a:7 0 0\n"
    )
    assert list(parse_locks(text)) == [(102, 0xFD, 0x1A, 7)]


HOLDER = """
import fcntl, mmap, os, sys
lock = open(sys.argv[1] + "/lock", "r+b")
fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
log = os.open(sys.argv[1] + "/commitlog/00000000000000000000", os.O_RDWR)
mapping = mmap.mmap(log, 4096)
os.close(log)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="needs the kernel's list of locks")
def test_a_process_that_holds_the_lock_is_seen(fresh_store: FreshStore) -> None:
    root = fresh_store("5.3.3-plain")
    before = stores.snapshot(root)
    assert not _used_now(root).in_use
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n"
        seen = _used_now(root)
        summary = summarize(Store.open(root))
        # Looking must not have taken the lock away: closing any descriptor of a file drops a process's own locks on it.
        with (root / "lock").open("r+b") as stream, pytest.raises(OSError):
            fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        holder.communicate(b"", timeout=20)
    assert seen.in_use
    assert seen.lock_holder == holder.pid
    assert [(user.pid, user.files, user.writes) for user in seen.users] == [(holder.pid, 2, True)]
    assert summary.state is State.IN_USE
    assert not _used_now(root).in_use
    assert stores.snapshot(root) == before


def _used_now(root: Path) -> Liveness:
    store = Store.open(root)
    return liveness(store, store_users(store))


def test_processes_are_inspected_once_in_a_second(fresh_store: FreshStore, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    monkeypatch.setattr("rmqstore.store.liveness._processes", lambda: looks.append(1) or iter(()))
    first, second = fresh_store("5.3.3-plain"), fresh_store("5.3.2-plain")
    for root in (first, first, second, second):
        liveness(Store.open(root))
    assert len(looks) == 2
    monkeypatch.setattr("rmqstore.store.liveness._RECENT", 0.0)
    liveness(Store.open(second))
    assert len(looks) == 3


def test_the_process_of_abort_is_looked_up(fresh_store: FreshStore) -> None:
    root = fresh_store("5.3.3-plain-crash")
    (root / "abort").write_text(str(os.getpid()))
    alive = liveness(Store.open(root))
    assert (alive.abort_pid, alive.abort_pid_alive) == (os.getpid(), True)
    (root / "abort").write_text("")
    assert liveness(Store.open(root)).abort_pid is None


def test_a_process_younger_than_abort_did_not_write_it(fresh_store: FreshStore) -> None:
    root = fresh_store("5.3.3-plain-crash")
    (root / "abort").write_text(str(os.getpid()))
    os.utime(root / "abort", (1_700_000_000, 1_700_000_000))
    assert not liveness(Store.open(root)).abort_pid_alive


def test_a_thread_is_no_process(fresh_store: FreshStore) -> None:
    root = fresh_store("5.3.3-plain-crash")
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        (root / "abort").write_text(str(thread.native_id))
        seen = liveness(Store.open(root))
    finally:
        done.set()
        thread.join()
    assert (seen.abort_pid, seen.abort_pid_alive) == (thread.native_id, False)
