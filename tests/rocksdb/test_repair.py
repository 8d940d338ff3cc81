"""Queues in RocksDB that cannot be used: moved away, built by the next start, and taken back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rmqstore.findings import Severity
from rmqstore.formats.naming import PLACEHOLDER
from rmqstore.repair.recover import Strategy
from rmqstore.store.rocksdb.configuration import configuration_in_database
from rmqstore.store.root import Store
from tests.repair.damaged_queues import described
from tests.repair.recovering import Damaged, damaged, view_of
from tests.rocksdb.bases import QUEUES, STORES, damaged_store, set_reached
from tests.rocksdb.damages import DATABASE_DAMAGES
from tests.support import stores
from tests.support.cli import rmqstore
from tests.support.operations import Delete, Special, Write, Zero
from tests.support.storeview import LogRecord
from tests.support.verifying import verify

BROKEN = (
    "current-missing",
    "current-and-wal-missing",
    "manifest-missing",
    "manifest-half",
    "manifest-flip-03",
    "sst-all-missing",
    "sst-long-missing",
    "sst-long-flip-00",
    "sst-short-flip-00",
)
SOUND = ("intact", "options-missing", "identity-missing", "wal-missing")
_REFUSED = 3


def _damaged(base: str, damage: str, tmp_path: Path) -> Damaged:
    return Damaged(base, damaged_store(base, damage, tmp_path))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("base", STORES)
@pytest.mark.parametrize("damage", BROKEN)
def test_the_database_leaves_the_store_and_abort_is_set(base: str, damage: str, tmp_path: Path) -> None:
    store = _damaged(base, damage, tmp_path)
    before = stores.content(store.root)

    result = store.recover()

    kinds = {kind for kind, path in described(result.plan) if path.startswith(QUEUES)}
    assert kinds == {"quarantine"}
    assert ("create", "abort") in described(result.plan)
    assert sorted(path.name for path in (store.root / QUEUES).iterdir()) == ["IDENTITY", "LOCK"]
    assert (result.errors, result.left) == ({}, 0)
    assert any("a gap in a queue" in note for note in result.plan.notes)
    assert store.recover().plan.empty
    assert store.predict().starts is True

    undone = rmqstore("undo", store.root, "--yes", *stores.case(base).set_options(store.root))

    assert undone.status == 0, undone.err
    after = {path: digest for path, digest in stores.content(store.root).items() if not path.startswith(".rmqstore")}
    assert after == before


@pytest.mark.parametrize("kind", ["directory", "fifo", "dangling-link"])
def test_what_is_in_the_place_of_a_table_leaves_the_store_too(kind: str, tmp_path: Path) -> None:
    """RocksDB deletes tables that it does not know, and does not open where one is a directory."""
    store = _damaged("5.2.0-rocksdb", "intact", tmp_path)
    table = min((store.root / QUEUES).glob("*.sst"))
    Special(f"{QUEUES}/{table.name}", kind).apply(store.root)

    result = store.recover()

    assert sorted(path.name for path in (store.root / QUEUES).iterdir()) == ["IDENTITY", "LOCK"]
    assert (result.errors, result.left) == ({}, 0)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("base", STORES)
@pytest.mark.parametrize("damage", SOUND)
def test_a_database_that_brokers_read_stays(base: str, damage: str, tmp_path: Path) -> None:
    assert _damaged(base, damage, tmp_path).recover().plan.empty


def test_the_least_repair_does_it_too(tmp_path: Path) -> None:
    store = _damaged("5.3.3-rocksdb", "manifest-missing", tmp_path)

    plan = store.recover(Strategy.MINIMAL).plan

    assert ("quarantine", "consumequeue/CURRENT") in described(plan)
    assert ("create", "abort") in described(plan)


def test_no_setting_is_needed(tmp_path: Path) -> None:
    """What stays in the directory tells the next commands that the queues are in RocksDB."""
    root = damaged_store("5.5.1-rocksdb", "manifest-missing", tmp_path)

    assert rmqstore("recover", root, "--yes", "--broker-version", "5.5.1").status == 0
    assert rmqstore("verify", root).status == 0


def test_after_the_repair_of_the_log(tmp_path: Path) -> None:
    """Damage of log and queues at once: a lost message gets a placeholder in the log, the database goes as without it."""
    store = damaged("5.3.3-rocksdb", "body-flip-mid", tmp_path)
    DATABASE_DAMAGES["sst-long-flip-00"](store.root / QUEUES)

    result = store.recover()

    assert len(result.plan.lost) == 1
    assert {path.partition("/")[0] for _, path in described(result.plan)} >= {QUEUES, "commitlog", "abort"}
    assert (result.errors, result.left) == ({}, 0)
    assert store.recover().plan.empty


@pytest.mark.sampled(3)
@pytest.mark.parametrize("base", STORES)
@pytest.mark.parametrize("abort", [False, True])
def test_queues_that_end_before_the_log_need_a_start_after_a_crash(base: str, abort: bool, tmp_path: Path) -> None:
    store = _damaged(base, "intact", tmp_path)
    set_reached(store.root / QUEUES, 40_000)
    if abort:
        (store.root / "abort").touch()

    found = [finding for finding in verify(store.root) if finding.code == "RMQ-RD-BEHIND"]
    result = store.recover()

    assert [finding.severity for finding in found] == [Severity.INFO if abort else Severity.ERROR]
    assert described(result.plan) == ([] if abort else [("create", "abort")])
    assert (result.errors, result.left) == ({}, 0)
    assert store.recover().plan.empty
    assert (store.root / "abort").exists()


def _cut(base: str, root: Path) -> int:
    """Take the last records of the log away; the queues keep their entries. Returns where the log ends then."""
    view = view_of(base)
    cut = view.records[-20]
    for path in {record.path for record in view.records[-20:]} - {cut.path}:
        Delete(path).apply(root)
    Zero(cut.path, cut.position, view.log_file_size - cut.position).apply(root)
    return cut.offset


@pytest.mark.sampled(3)
@pytest.mark.parametrize("base", STORES)
@pytest.mark.parametrize("abort", [False, True])
def test_queues_that_go_on_after_the_end_of_the_log_are_built_again(base: str, abort: bool, tmp_path: Path) -> None:
    """Brokers do not always find the last entry before that end: of 18 stores cut so, 10 did not serve what they should have."""
    store = _damaged(base, "intact", tmp_path)
    if abort:
        (store.root / "abort").touch()
    end = _cut(base, store.root)

    found = [finding for finding in verify(store.root) if finding.code == "RMQ-RD-AHEAD"]
    result = store.recover()

    assert [(finding.severity, finding.expected) for finding in found] == [(Severity.WARNING if abort else Severity.ERROR, end)]
    assert ("quarantine", f"{QUEUES}/CURRENT") in described(result.plan)
    assert (result.errors, result.left) == ({}, 0)
    assert (store.root / "abort").exists()
    assert store.recover().plan.empty


@pytest.mark.parametrize("place", ["end", "last of their queues"])
@pytest.mark.parametrize("base", STORES)
def test_the_database_names_lost_messages(base: str, place: str, tmp_path: Path) -> None:
    """No record after them, and often no key, says what these messages were: only the entries of the database do."""
    store = _damaged(base, "intact", tmp_path)
    records = view_of(base).records
    if place == "end":
        _cut(base, store.root)
        gone = records[-20:]
    else:
        last = {(one.record.topic, one.record.queue_id): one for one in records}
        gone = sorted(last.values(), key=lambda one: one.offset)[:6]
        for one in gone:
            Zero(one.path, one.position, one.size).apply(store.root)

    result = store.recover()

    assert sorted((lost.topic, lost.queue_id, lost.queue_offset, lost.physical_offset, lost.size) for lost in result.plan.lost) == sorted(
        (one.record.topic, one.record.queue_id, one.record.queue_offset, one.offset, one.size) for one in gone
    )
    assert (result.errors, result.left) == ({}, 0)
    # Brokers do not serve what comes before a queue offset that the log leaves out: placeholders take the places.
    assert place == "end" or any(PLACEHOLDER.encode() in path.read_bytes() for path in (store.root / "commitlog").iterdir())


def test_a_corrected_field_does_not_hide_other_queues(tmp_path: Path) -> None:
    """QUEUEOFFSETs at the end of a queue are as after lost messages, a field in another queue is wrong: one plan repairs both."""
    store = _damaged("5.3.3-rocksdb", "intact", tmp_path)
    records = view_of(store.base).records
    of_queue: dict[tuple[str, int], list[LogRecord]] = {}
    for one in records:
        of_queue.setdefault((one.record.topic, one.record.queue_id), []).append(one)
    jumping = max(of_queue.values(), key=len)
    for one in jumping[-5:]:
        Write(one.path, one.fields["queue_offset"].offset, (one.record.queue_offset + 7).to_bytes(8, "big")).apply(store.root)
    other = next(one for one in records if one not in jumping and one.offset > 20_000)
    Write(other.path, other.fields["sys_flag"].offset, b"\xff\xff\xff\xff").apply(store.root)

    result = store.recover()

    assert [action.reason for action in result.plan.actions if "SYSFLAG" in action.reason]
    assert ("quarantine", f"{QUEUES}/CURRENT") in described(result.plan)
    assert (result.errors, result.left) == ({}, 0)
    assert store.recover().plan.empty


def test_a_log_that_is_cut_takes_the_queues_along(tmp_path: Path) -> None:
    store = _damaged("5.3.3-rocksdb", "intact", tmp_path)
    cut = view_of(store.base).records[-20].offset

    done = rmqstore("truncate", store.root, "--at", str(cut), "--yes", *stores.case("5.3.3-rocksdb").set_options(store.root))

    assert done.status == 0, done.err
    assert sorted(path.name for path in (store.root / QUEUES).iterdir()) == ["IDENTITY", "LOCK"]
    assert (store.root / "abort").exists()


@pytest.mark.parametrize("base", STORES)
def test_abort_goes_where_the_queues_know_the_whole_log(base: str, tmp_path: Path) -> None:
    store = _damaged(base, "intact", tmp_path)
    (store.root / "abort").touch()

    assert ("quarantine", "abort") in described(store.recover().plan)


@pytest.mark.parametrize("release", ["5.4.0", "5.5.1"])
def test_a_start_that_does_not_reach_the_first_file_is_refused(release: str, tmp_path: Path) -> None:
    """From 5.4.0 on 249 of these 480 messages would be served: a start looks at ten files."""
    root = stores.fresh_store("5.5.1-manyfiles", tmp_path)
    shutil.rmtree(root / QUEUES)
    options = [*stores.case("5.5.1-manyfiles").set_options(root), "--set", "storeType=defaultRocksDB", "--broker-version", release]

    refused = rmqstore("recover", root, "--yes", *options)
    reaching = rmqstore("recover", root, "--yes", *options, "--set", "commitLogRecoverMaxNum=19")

    assert refused.status == _REFUSED
    assert "commitLogRecoverMaxNum=19" in refused.err
    assert reaching.status == 0, reaching.err
    assert (root / "abort").exists()


CONFIGURATION = "broker-5.5.1-rocksdb-clean"
FILES = {"topics": "topics.json", "subscriptionGroups": "subscriptionGroup.json", "consumerOffsets": "consumerOffset.json"}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("database", FILES)
@pytest.mark.parametrize("damage", ["current-missing", "manifest-missing", "manifest-half", "sst-long-flip-00", "sst-all-missing"])
def test_what_is_left_of_a_configuration_becomes_files(damage: str, database: str, tmp_path: Path) -> None:
    """The next start takes them over: tests/broker/test_rocksdb_configuration.py."""
    whole = configuration_in_database(Store.open(stores.sample_store(CONFIGURATION)))
    assert whole is not None
    root = damaged_store(CONFIGURATION, damage, tmp_path, f"config/{database}")
    before = stores.content(root / "config")
    store = Damaged(CONFIGURATION, root)

    result = store.recover()

    assert (result.errors, result.left) == ({}, 0)
    assert not any((root / "config" / name).exists() for name in FILES)
    for name in FILES.values():
        path = root / "config" / name
        if not path.exists():
            assert (name, damage) == ("subscriptionGroup.json", "sst-all-missing")
            continue
        found = json.loads(path.read_bytes())
        assert found["dataVersion"]["counter"] > 0  # else no start takes it over
        table = next(table for table in whole.objects[name] if table != "dataVersion")
        if name != FILES[database]:
            assert found[table] == whole.objects[name][table]
        elif damage in ("current-missing", "manifest-missing", "manifest-half"):
            assert found[table].items() >= whole.objects[name][table].items()
    assert store.predict().starts is True

    undone = rmqstore("undo", root, "--yes", *stores.case(CONFIGURATION).set_options(root))
    assert undone.status == 0, undone.err
    assert stores.content(root / "config") == before


def test_a_damaged_configuration_stays_where_no_start_takes_files_over(tmp_path: Path) -> None:
    root = damaged_store(CONFIGURATION, "manifest-missing", tmp_path, "config/topics")
    before = stores.content(root / "config" / "topics")

    result = Damaged(CONFIGURATION, root).recover(release="5.3.0")

    assert any("config/topics cannot be read" in note for note in result.plan.notes)
    assert stores.content(root / "config" / "topics") == before


@pytest.mark.sampled(3)
@pytest.mark.parametrize("damage", ["current-missing", "manifest-missing", "manifest-half", "sst-long-flip-00", "sst-all-missing"])
def test_a_database_of_v2_is_made_from_what_is_left(damage: str, tmp_path: Path) -> None:
    """A start with configManagerVersion=v2 takes over no files."""
    intact = stores.fresh_store(CONFIGURATION, tmp_path / "intact")
    options = ["--broker-version", "5.5.1", *stores.case(CONFIGURATION).set_options(intact), "--set", "configManagerVersion=v2"]
    assert rmqstore("convert", intact, "--to", "config-v2", "--yes", *options).status == 0
    whole = configuration_in_database(Store.open(intact))
    assert whole is not None
    root = tmp_path / "damaged"
    shutil.copytree(intact, root)
    shutil.rmtree(root / ".rmqstore")
    DATABASE_DAMAGES[damage](root / "config" / "rdb")
    before = stores.content(root / "config")

    done = rmqstore("recover", root, "--yes", "--format", "json", *options)

    assert done.status == 0, done.err
    found = configuration_in_database(Store.open(root))
    assert found is not None and not found.others
    assert not list((root / "config").glob("topics*")) and not list((root / "config").glob("consumerOffset.json*"))
    topics = found.objects["topics.json"]["topicConfigTable"]
    if damage in ("current-missing", "manifest-missing", "manifest-half"):
        for name, table in (("topics.json", "topicConfigTable"), ("subscriptionGroup.json", "subscriptionGroupTable")):
            assert found.objects[name][table].items() >= whole.objects[name][table].items()
        assert found.objects["consumerOffset.json"]["offsetTable"] == whole.objects["consumerOffset.json"]["offsetTable"]
    assert {"orders", "batch"} & topics.keys()  # the queues have them in any case
    verified = rmqstore("verify", root, "--format", "json", *options[2:]).objects
    assert not [one for one in verified if one["type"] == "finding" and one["code"].startswith("RMQ-RD") and one["severity"] == "error"]

    assert rmqstore("undo", root, "--yes", *options[2:]).status == 0
    assert stores.content(root / "config") == before
