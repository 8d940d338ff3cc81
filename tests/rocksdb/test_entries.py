"""Queue entries in RocksDB against the log: what is changed in a database of a broker is found, repaired, and nothing else is reported."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rocksdict import Rdict

from rmqstore.findings import Finding, Severity
from rmqstore.formats import rocksdb
from rmqstore.formats.javahash import decode_java_utf8
from rmqstore.store.rocksdb.framing import OFFSET_SIZE
from rmqstore.store.rocksdb.queuefiles import key_of
from rmqstore.store.root import Store
from rmqstore.verify.context import Options
from rmqstore.verify.engine import Verification
from tests.repair.recovering import Damaged
from tests.rocksdb.bases import QUEUES, STORES, opened, set_reached
from tests.support import stores
from tests.support.cli import rmqstore
from tests.support.operations import Zero

TOPIC, QUEUE = "topic-b_2", 0
Families = Mapping[str, Rdict]


def _prefix(topic: str) -> bytes:
    return len(topic.encode()).to_bytes(4, "big") + b"\x01" + topic.encode() + b"\x01"


def entry(number: int, queue_id: int = QUEUE) -> bytes:
    """Return the key of an entry (fact sheet queues §8.2)."""
    return _prefix(TOPIC) + struct.pack(">i", queue_id) + b"\x01" + struct.pack(">q", number)


def end(kind: bytes, queue_id: int = QUEUE) -> bytes:
    """Return the key of the first or last offset of a queue (fact sheet queues §8.3)."""
    return _prefix(TOPIC) + kind + b"\x01" + struct.pack(">i", queue_id)


def _delete(families: Families) -> None:
    del families["default"][entry(5)]


def _size(families: Families) -> None:
    value = families["default"][entry(5)]
    families["default"][entry(5)] = value[:8] + struct.pack(">i", 7) + value[12:]


def _tag(families: Families) -> None:
    value = families["default"][entry(5)]
    families["default"][entry(5)] = value[:12] + struct.pack(">q", 7) + value[20:]


def _place(families: Families) -> None:
    families["default"][entry(5)] = families["default"][entry(9)]


def _nowhere(families: Families) -> None:
    value = families["default"][entry(5)]
    families["default"][entry(5)] = struct.pack(">q", struct.unpack(">q", value[:8])[0] + 1) + value[8:]


def _shorter(families: Families) -> None:
    families["offset"][end(b"max")] = families["default"][entry(4)][:8] + struct.pack(">q", 4)


def _whole_queue(families: Families) -> None:
    del families["offset"][end(b"max")]


def _begins_later(families: Families) -> None:
    families["offset"][end(b"min")] = families["default"][entry(7)][:8] + struct.pack(">q", 7)


def _other_queue(families: Families) -> None:
    value = families["default"][entry(5)]
    families["default"][entry(0, 9)] = value
    families["offset"][end(b"max", 9)] = value[:8] + bytes(8)


CHANGES: Mapping[str, tuple[Callable[[Families], None], str, int, int]] = {
    "deleted": (_delete, "RMQ-RD-MISSING", QUEUE, 5),
    "size": (_size, "RMQ-RD-ENTRY", QUEUE, 5),
    "tag": (_tag, "RMQ-RD-ENTRY", QUEUE, 5),
    "place of another": (_place, "RMQ-RD-ENTRY", QUEUE, 5),
    "no record there": (_nowhere, "RMQ-RD-ENTRY", QUEUE, 5),
    "ends earlier": (_shorter, "RMQ-RD-MISSING", QUEUE, 5),
    "no end": (_whole_queue, "RMQ-RD-MISSING", QUEUE, 0),
    "begins later": (_begins_later, "RMQ-RD-ENTRY", QUEUE, 0),
    "surplus queue": (_other_queue, "RMQ-RD-ENTRY", 9, 0),
}
"""Change, code, queue id and first queue offset of the finding."""


def _changed(base: str, tmp_path: Path, change: Callable[[Families], None]) -> Path:
    root = stores.fresh_store(base, tmp_path)
    with opened(root / QUEUES) as families:
        change(families)
    return root


def _found(root: Path) -> tuple[list[Finding], Verification]:
    verification = Verification(Store.open(root), Options())
    return [one for one in verification.run() if one.severity is not Severity.INFO], verification


@pytest.mark.parametrize("base", STORES)
def test_the_entries_of_a_broker_are_compared_and_fit(base: str, tmp_path: Path) -> None:
    found, verification = _found(_changed(base, tmp_path, lambda families: None))

    assert found == []
    assert verification.context.database_reached == verification.context.log.end_offset
    assert not any(one.area == "RocksDB queues" for one in verification.totals.not_checked)
    assert verification.totals.queues == len({(line["topic"], line["queueId"]) for line in stores.case(base).truth()})


@pytest.mark.parametrize("base", STORES)
@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_entry_is_found_at_its_place(base: str, name: str, tmp_path: Path) -> None:
    change, code, queue_id, first = CHANGES[name]

    found, _ = _found(_changed(base, tmp_path, change))

    assert {(one.code, one.severity, one.file) for one in found} == {(code, Severity.ERROR, QUEUES)}
    assert {(one.topic, one.queue_id) for one in found} == {(TOPIC, queue_id)}
    assert found[0].queue_offset == first


@pytest.mark.parametrize("name", CHANGES)
def test_recover_lets_the_next_start_build_the_queues(name: str, tmp_path: Path) -> None:
    base = "5.3.3-rocksdb"
    root = _changed(base, tmp_path, CHANGES[name][0])
    before = stores.content(root)

    result = Damaged(base, root).recover()

    assert sorted(path.name for path in (root / QUEUES).iterdir()) == ["IDENTITY", "LOCK"]
    assert (root / "abort").exists()
    assert (result.errors, result.left) == ({}, 0)

    undone = rmqstore("undo", root, "--yes", *stores.case(base).set_options(root))

    assert undone.status == 0, undone.err
    assert {path: digest for path, digest in stores.content(root).items() if not path.startswith(".rmqstore")} == before


@pytest.mark.parametrize("name", CHANGES)
def test_doctor_does_not_call_it_lossless(name: str, tmp_path: Path) -> None:
    root = _changed("5.3.3-rocksdb", tmp_path, CHANGES[name][0])

    sick, sound = (rmqstore("doctor", place).out for place in (root, stores.sample_store("5.3.3-rocksdb")))

    assert sick.startswith("STARTS, BUT")
    assert sound.startswith("STARTS, NOTHING LOST")


@pytest.mark.parametrize("base", STORES)
def test_doctor_is_not_sure_where_a_start_searches_the_ends_of_queues(base: str, tmp_path: Path) -> None:
    """After a crash: the log ends before the queues do, and the search of a broker can find an end that is too early."""
    root = stores.fresh_store(base, tmp_path)
    set_reached(root / QUEUES, 1 << 20)
    (root / "abort").touch()

    (diagnosis,) = (one for one in rmqstore("doctor", root, "--format", "json").objects if one["type"] == "doctor")
    assert {"area": "queues", "reason": "RocksDB queues were not read"} in diagnosis["not_checked"]


def test_what_no_broker_writes_is_a_warning(tmp_path: Path) -> None:
    def strange(families: Families) -> None:
        families["default"][b"key"] = b"value"
        families["default"][entry(1 << 50)] = families["default"][entry(5)]
        families["offset"][end(b"max")] = families["default"][entry(5)][:8] + struct.pack(">q", 1 << 51)
        families["offset"][b"max"] = bytes(16)

    found, _ = _found(_changed("5.3.3-rocksdb", tmp_path, strange))

    assert [(one.code, one.severity) for one in found] == [("RMQ-RD-OTHER", Severity.WARNING)]
    assert found[0].message.startswith("3 ")


def test_messages_that_the_database_does_not_know_yet_are_one_finding(tmp_path: Path) -> None:
    """A broker that was killed leaves that; the entries that are there all the same are compared."""
    root = stores.fresh_store("5.3.3-rocksdb", tmp_path)
    with opened(root / QUEUES) as families:
        last = max(number for number in range(100) if families["default"].get(entry(number)) is not None)
        position = struct.unpack(">q", families["default"][entry(last)][:8])[0]
        del families["default"][entry(last)]
        families["offset"][end(b"max")] = families["default"][entry(last - 1)][:8] + struct.pack(">q", last - 1)
    set_reached(root / QUEUES, position)

    found, _ = _found(root)

    assert [one.code for one in found] == ["RMQ-RD-BEHIND"]


@given(topic=st.text(max_size=40), queue_id=st.integers(-(2**31), 2**31 - 1), number=st.integers(0, 2**63 - 1))
def test_keys_are_read_as_they_are_declared(topic: str, queue_id: int, number: int) -> None:
    encoded = topic.encode("utf-8", "surrogatepass")
    fields = {"length": len(encoded), "topic": encoded, "queue_id": queue_id}
    key = rocksdb.QUEUE_KEY.build({**fields, "queue_offset": number})

    assert key_of(key[:-OFFSET_SIZE]) == (decode_java_utf8(encoded), queue_id)
    assert key_of(key) is None
    assert key_of(b"\x00" + key[:-OFFSET_SIZE]) is None


@pytest.mark.parametrize("base", STORES)
def test_dump_shows_the_entries_of_all_messages(base: str) -> None:
    root = stores.sample_store(base)
    names = ("topic", "queue_id", "queue_offset", "physical_offset", "size")
    units = rmqstore("dump", root, "--part", "consumequeue", "--json").objects
    messages = rmqstore("dump", root, "--json").objects

    assert {one["type"] for one in units} == {"unit"}
    assert {one["file"] for one in units} == {QUEUES}
    queued = [one for one in messages if one["type"] == "message"]
    assert sorted(tuple(one[name] for name in names) for one in units) == sorted(tuple(one[name] for name in names) for one in queued)


def test_dump_shows_a_gap_as_damage(tmp_path: Path) -> None:
    root = _changed("5.3.3-rocksdb", tmp_path, _delete)

    objects = rmqstore("dump", root, "--part", "consumequeue", "--topic", TOPIC, "--queue", str(QUEUE), "--json").objects

    assert [one["position"] for one in objects if one["type"] == "damage"] == [5 * 20]


@pytest.mark.parametrize("base", STORES)
def test_entries_of_lost_messages_stay_after_a_repair_of_the_log(base: str, tmp_path: Path) -> None:
    root = stores.fresh_store(base, tmp_path)
    with opened(root / QUEUES) as families:
        positions = [struct.unpack(">q", families["default"][entry(number)][:8])[0] for number in (3, 6, 7)]
    for position in positions:
        Zero(f"commitlog/{position // 65536 * 65536:020d}", position % 65536 + 60, 40).apply(root)

    result = Damaged(base, root).recover()

    assert (result.errors, result.left) == ({}, 0)
    assert len(result.plan.lost) == len(positions)
    assert not [one for one in _found(root)[0] if one.code.startswith("RMQ-RD")]
    codes = {one.code for one in Verification(Store.open(root), Options()).run()}
    assert "RMQ-RD-REPLACED" in codes
