"""Queues from files into a new database: the same entries are in it, and nothing else of the store changes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqstore.formats.consumequeue import UNIT
from rmqstore.formats.rocksdb import QUEUE_END, QUEUE_END_KEY
from rmqstore.store.rocksdb.databases import OFFSETS, is_database_name
from tests.rocksdb.bases import opened
from tests.support import stores
from tests.support.cli import Run, rmqstore
from tests.support.stores import content

OK, REFUSED = 0, 3
BASES = ("5.3.3-plain", "5.3.3-transactions", "5.3.3-cqext", "5.5.1-plain", "5.5.1-lmq", "5.5.1-manyfiles")


def converted(root: Path, base: str, *options: str) -> Run:
    words = options or ("--broker-version", stores.case(base).release)
    return rmqstore("convert", root, "--to", "rocksdb", "--yes", "--json", *words, *stores.case(base).set_options(root))


def queues_of(root: Path, base: str) -> dict[tuple[str, int], tuple[int, int]]:
    """First and next queue offset of each queue."""
    rows = rmqstore("queues", root, "--json", *stores.case(base).set_options(root)).objects
    return {(row["topic"], row["queue_id"]): (row["min_offset"], row["max_offset"]) for row in rows if row["type"] == "queue"}


def own(root: Path) -> dict[str, str]:
    return {name: data for name, data in content(root).items() if not name.startswith(".rmqstore/")}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("base", BASES)
def test_the_queues_are_in_a_database(base: str, tmp_path: Path) -> None:
    root = stores.fresh_store(base, tmp_path)
    before, queues = own(root), queues_of(root, base)
    units = _messages(root, base)

    done = converted(root, base)

    assert done.status == OK, done.err
    assert queues_of(root, base) == queues
    assert _messages(root, base) == units
    changed = {name for name, data in {**before, **own(root)}.items() if before.get(name) != own(root).get(name)}
    assert {name.split("/")[0] for name in changed} <= {"consumequeue", "consumequeue_ext", "checkpoint"}
    assert all(map(is_database_name, (path.name for path in (root / "consumequeue").iterdir())))
    found = rmqstore("verify", root, "--json", *stores.case(base).set_options(root)).objects
    assert [one for one in found if one.get("severity") in ("error", "warning")] == []
    assert rmqstore("undo", root, "--yes", *stores.case(base).set_options(root)).status == OK
    assert own(root) == before


def test_the_first_log_file_has_another_length(tmp_path: Path) -> None:
    """The store times of entries are read from the log, whatever the lengths of its files."""
    root = stores.fresh_store("5.3.3-plain", tmp_path)
    first = min((root / "commitlog").iterdir())
    first.write_bytes(first.read_bytes()[:400])
    settings = stores.case("5.3.3-plain").set_options(root)

    assert not converted(root, "5.3.3-plain").crashed

    times = {
        one["physical_offset"]: one["store_timestamp"]
        for one in rmqstore("dump", root, "--json", *settings).objects
        if "store_timestamp" in one
    }
    entries = [one["value"] for one in rmqstore("dump", root, "--part", "rocksdb", "--json").objects if one.get("entry") == "queue_entry"]
    assert len(entries) > 300
    assert [entry["store_timestamp"] for entry in entries] == [times[entry["physical_offset"]] for entry in entries]


def _messages(root: Path, base: str) -> list[tuple[str, int, int, int]]:
    """Topic, queue id, queue offset and physical offset of the messages in the queues."""
    rows = rmqstore("queues", root, "--json", *stores.case(base).set_options(root)).objects
    asked = [f"{row['topic']}/{row['queue_id']}@{row['min_offset']}..{row['max_offset']}" for row in rows if row["type"] == "queue"]
    found = []
    for one in asked[:6]:
        answers = rmqstore("query", root, "--queue", one, "--json", *stores.case(base).set_options(root)).objects
        found += [
            (row["topic"], row["queue_id"], row["queue_offset"], row["physical_offset"]) for row in answers if "physical_offset" in row
        ]
    assert found
    return found


def test_a_queue_without_a_record_in_the_log_continues_its_numbers(tmp_path: Path) -> None:
    base = "5.3.3-headless-crash"
    root = stores.fresh_store(base, tmp_path)
    queue = root / "consumequeue" / "Gone" / "0"
    queue.mkdir(parents=True)
    units = b"".join(UNIT.build({"physical_offset": place, "size": 100, "tags_code": 0}) for place in (1000, 1100, 1200))
    size = int(stores.case(base).settings(root)["mappedFileSizeConsumeQueue"])
    (queue / f"{0:020d}").write_bytes(units.ljust(size, b"\0"))

    assert converted(root, base).status == OK
    key = {"length": 4, "topic": b"Gone", "queue_id": 0}
    with opened(root / "consumequeue") as families:
        ends = [QUEUE_END.parse(families[OFFSETS][QUEUE_END_KEY.build({**key, "kind": kind})]) for kind in (b"min", b"max")]
    assert [(end.physical_offset, end.queue_offset) for end in ends] == [(0, 3), (0, 2)]


def test_a_second_time_changes_nothing(tmp_path: Path) -> None:
    root = stores.fresh_store("5.5.1-plain", tmp_path)
    assert converted(root, "5.5.1-plain").status == OK
    before = own(root)
    done = converted(root, "5.5.1-plain")
    assert (done.status, own(root)) == (OK, before)
    assert "already" in done.objects[0]["notes"][0]


def _with_json(root: Path) -> None:
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "topics.json").write_text('{"topicConfigTable":{}}')


def _with_compacted_topic(root: Path) -> None:
    (root / "compaction" / "compactionLog" / "compact" / "0").mkdir(parents=True)


def _with_database(root: Path) -> None:
    database = stores.sample_store("5.5.1-rocksdb") / "consumequeue"
    for path in database.iterdir():
        shutil.copy2(path, root / "consumequeue" / path.name)


@pytest.mark.parametrize(
    ("base", "release", "change", "why"),
    [
        ("5.1.4-longtopic", "5.1.4", None, "keeps no queues in RocksDB"),
        ("5.3.3-plain", "5.3.0", _with_json, "ignores the JSON files"),
        ("5.5.1-batchcq", "5.5.1", None, "batch queues"),
        ("5.5.1-plain", "5.5.1", _with_compacted_topic, "compacted topics"),
        ("5.5.1-plain", "5.5.1", _with_database, "in files and in RocksDB"),
    ],
)
def test_what_a_database_does_not_hold_is_refused(
    base: str, release: str, change: Callable[[Path], None] | None, why: str, tmp_path: Path
) -> None:
    root = stores.fresh_store(base, tmp_path)
    if change is not None:
        change(root)
    before = own(root)
    done = converted(root, base, "--broker-version", release)
    assert (done.status, own(root)) == (REFUSED, before)
    assert why in done.err


@pytest.mark.sampled(2)
@pytest.mark.parametrize("base", ["5.3.3-rocksdb", "5.5.1-rocksdb"])
@pytest.mark.parametrize("damage", ["gone", "noise"])
def test_a_database_is_built_from_the_log(base: str, damage: str, tmp_path: Path) -> None:
    root = stores.fresh_store(base, tmp_path)
    queues = queues_of(root, base)
    for path in (root / "consumequeue").iterdir():
        if path.suffix == ".sst":
            if damage == "gone":
                path.unlink()
            else:
                path.write_bytes(b"\x55" * path.stat().st_size)
    words = ["--broker-version", stores.case(base).release, *stores.case(base).set_options(root)]
    assert rmqstore("rebuild-consumequeue", root, "--topic", "TopicA", "--yes", *words).status == REFUSED

    assert rmqstore("rebuild-consumequeue", root, "--yes", *words).status == OK

    assert queues_of(root, base) == queues
    found = rmqstore("verify", root, "--json", *stores.case(base).set_options(root)).objects
    assert [one["code"] for one in found if one.get("severity") == "error"] == []


def test_a_library_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = stores.fresh_store("5.5.1-plain", tmp_path)
    before = own(root)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "rocksdict.py").write_text("raise ImportError('no library')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "broken"))
    done = converted(root, "5.5.1-plain")
    assert (done.status, own(root)) == (4, before)
    assert "did not make the database: ImportError: no library" in done.err
    assert not list((root / ".rmqstore").glob("*"))
