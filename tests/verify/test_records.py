"""Findings about single records of the commit log: where they are told, and what is none."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rmqstore
from rmqstore.findings import Severity
from tests.scan.samples import fields
from tests.support.builder import FIRST_TIMESTAMP, StoreBuilder
from tests.support.stores import case, sample_store
from tests.support.verifying import errors, verify
from tests.verify.small_stores import SIZE, codes, filled, log_name, patch, place, verified

SECOND = 2 * SIZE  # the third record, in the middle of the log
WHERE = ("file", "position", "length", "offset")


def given(tmp_path: Path, position: int, data: bytes, count: int = 6) -> StoreBuilder:
    """Six records, bytes of the third one overwritten."""
    builder = filled(StoreBuilder(tmp_path), count)
    patch(builder.build() / log_name(), SECOND + position, data)
    return builder


def test_a_sound_store_has_no_findings(tmp_path: Path) -> None:
    builder = filled(StoreBuilder(tmp_path, log_file_size=500), 9)
    builder.build()

    assert verified(builder) == []


@pytest.mark.parametrize(
    ("position", "data", "code", "found"),
    [
        (4, b"\0", "CL-MAGIC", SIZE),
        (4, b"\xda\xa3\x20\xa8", "CL-MAGIC", SIZE),
        (0, b"\0\0\0\0", "CL-SIZE", 0),
        (0, b"\xff\xff\xff\xff", "CL-SIZE", -1),
        (0, b"\x7f\xff\xff\xff", "CL-SIZE", 2**31 - 1),
        (0, (90).to_bytes(4, "big"), "CL-SIZE", 90),
        (3, b"\x75", "CL-LENGTHS", SIZE + 1),
        (84, b"\xff", "CL-LENGTHS", SIZE),
        (92, b"\x07", "CL-LENGTHS", SIZE),
        (39, b"\x10", "CL-LENGTHS", SIZE),
    ],
)
def test_a_record_that_cannot_be_read(tmp_path: Path, position: int, data: bytes, code: str, found: int) -> None:
    findings = verified(given(tmp_path, position, data))

    lost = next(finding for finding in findings if finding.code == "RMQ-CQ-LOST")
    assert codes(findings) == sorted([code, "CQ-LOST"])
    assert place(findings[0], *WHERE, "found") == (code, log_name(), SECOND, SIZE, SECOND, found)
    assert place(lost, "queue_offset", "offset", "position") == ("CQ-LOST", 2, SECOND, 40)


def test_zeros_in_front_of_newer_records_are_damage(tmp_path: Path) -> None:
    first = verified(given(tmp_path, 0, bytes(SIZE)))[0]

    assert place(first, *WHERE) == ("CL-DAMAGE", log_name(), SECOND, SIZE, SECOND)


def test_two_damaged_neighbours_are_one_range(tmp_path: Path) -> None:
    findings = verified(given(tmp_path, 0, b"\xee" * (SIZE + 50)))

    assert place(findings[0], *WHERE) == ("CL-MAGIC", log_name(), SECOND, 2 * SIZE, SECOND)
    assert place(findings[1], "queue_offset", "length") == ("CQ-LOST", 2, 40)
    assert len(findings) == 2


CRC_FIELD, QUEUE_ID, QUEUE_OFFSET, PHYSICAL_OFFSET, SYS_FLAG, BORN_TIME = 8, 12, 20, 28, 36, 40
BORN_PORT, STORE_TIME, STORE_HOST, RECONSUMED, PREPARED, BODY = 52, 56, 64, 72, 76, 88


@pytest.mark.parametrize(
    ("position", "data", "code"),
    [
        (CRC_FIELD, b"\1", "CL-CRC"),
        (BODY, b"\1", "CL-CRC"),
        (PHYSICAL_OFFSET, b"\1", "CL-PHYOFFSET"),
        (SYS_FLAG, b"\x80", "CL-FIELD"),
        (BORN_TIME, b"\x80", "CL-FIELD"),
        (BORN_PORT, b"\1", "CL-FIELD"),
        (RECONSUMED, b"\x80", "CL-FIELD"),
        (PREPARED, b"\1", "CL-FIELD"),
        (SYS_FLAG + 3, b"\1", "CL-COMPRESSION"),
        (STORE_HOST, b"\1", "CL-HOST"),
    ],
)
def test_a_record_with_one_wrong_field(tmp_path: Path, position: int, data: bytes, code: str) -> None:
    findings = verified(given(tmp_path, position, data))

    assert [place(finding, *WHERE) for finding in findings] == [(code, log_name(), SECOND, SIZE, SECOND)]


@pytest.mark.parametrize(("position", "data"), [(16, b"\x12"), (48, b"\x7f"), (BORN_TIME + 7, b"\0"), (RECONSUMED + 3, b"\3")])
def test_fields_that_may_hold_anything(tmp_path: Path, position: int, data: bytes) -> None:
    assert verified(given(tmp_path, position, data)) == []


def test_a_topic_with_an_illegal_character(tmp_path: Path) -> None:
    findings = verified(given(tmp_path, BODY + 4 + 1, b"T/pic"))

    assert place(findings[0], "topic", "queue_offset", "offset") == ("CL-FIELD", "T/picA", 2, SECOND)


def test_store_time_that_goes_back(tmp_path: Path) -> None:
    builder = filled(StoreBuilder(tmp_path), 3)
    filled(builder, 1, store_timestamp=FIRST_TIMESTAMP - 60_000)
    builder.build()

    findings = [finding for finding in verified(builder) if finding.code == "RMQ-CL-TIME"]

    assert [place(finding, "offset", "expected", "found") for finding in findings] == [
        ("CL-TIME", 3 * SIZE, FIRST_TIMESTAMP + 3, FIRST_TIMESTAMP - 60_000)
    ]
    assert findings[0].severity is Severity.WARNING


def test_equal_store_times_are_in_order(tmp_path: Path) -> None:
    builder = filled(StoreBuilder(tmp_path), 5, store_timestamp=FIRST_TIMESTAMP)
    builder.build()

    assert verified(builder) == []


def test_a_new_store_host_stays(tmp_path: Path) -> None:
    builder = filled(StoreBuilder(tmp_path), 3)
    filled(builder, 3, store_host="10.9.8.8:10911")
    builder.build()

    assert verified(builder) == []


@pytest.mark.parametrize("changes", [{"born_host": "[fe80::1]:1", "store_host": "[fe80::2]:2"}, {"body": b""}, {"topic": "T" * 200}])
def test_records_of_other_kinds(tmp_path: Path, changes: dict[str, Any]) -> None:
    builder = filled(StoreBuilder(tmp_path), 5, **changes)
    builder.build()

    assert verified(builder) == []


# Transactions


def transaction(tmp_path: Path) -> StoreBuilder:
    """A half message, its commit, a rolled back one."""
    builder = StoreBuilder(tmp_path)
    builder.message(topic="RMQ_SYS_TRANS_HALF_TOPIC", keys="half")
    builder.message(sys_flag=8, prepared_transaction_offset=0, keys="committed")
    builder.message(sys_flag=12, prepared_transaction_offset=0, keys="rolled")
    return builder


def test_a_commit_that_points_at_its_half_message(tmp_path: Path) -> None:
    builder = transaction(tmp_path)
    builder.build()

    assert verified(builder) == []


def test_a_commit_that_points_nowhere(tmp_path: Path) -> None:
    builder = transaction(tmp_path)
    commit = builder.offset
    builder.message(sys_flag=8, prepared_transaction_offset=11, queue_offset=1, keys="x")
    builder.build()

    assert [place(finding, "offset", "found") for finding in verified(builder)] == [("CL-TRANSACTION", commit, 11)]


def test_a_commit_whose_half_message_has_expired(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path, first_offset=64 * 1024)
    builder.message(sys_flag=8, prepared_transaction_offset=11, keys="x")
    builder.build()

    assert verified(builder) == []


# Queue offsets along the log


def test_queue_offsets_that_jump(tmp_path: Path) -> None:
    builder = filled(StoreBuilder(tmp_path), 3)
    jump = builder.offset
    filled(builder, 2, queue_offset=None, queue_id=0)
    builder.build()
    assert verified(builder) == []

    builder = filled(StoreBuilder(tmp_path / "jumped"), 3)
    builder.message(queue_offset=7, tags="T", keys="k")
    builder.build()
    told = verified(builder)[0]
    assert place(told, "offset", "queue_offset", "expected", "found") == ("CL-QOFFSET-GAP", jump, 7, 3, 7)


@pytest.mark.parametrize("jump", [5000, 1 << 40, -2, 1])
@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("log_file_size", [400, 64 * 1024])
def test_queue_offsets_that_the_records_around_contradict(tmp_path: Path, log_file_size: int, count: int, jump: int) -> None:
    builder = filled(StoreBuilder(tmp_path, log_file_size=log_file_size), 6)
    for number in range(6, 6 + count):
        builder.message(queue_offset=number + jump, tags="T", keys="k")
    builder.message(queue_offset=6 + count, tags="T", keys="k")
    builder.build()
    told = [finding for finding in verified(builder) if "QOFFSET" in finding.code]
    assert codes(told) == ["CL-QOFFSET-JUMP"]
    assert (told[0].severity, told[0].expected, told[0].found) == (Severity.ERROR, 6, 6 + jump)


def test_a_single_message_after_a_lost_queue_is_no_jump(tmp_path: Path) -> None:
    """A broker built the queue again and counted the message that has 0 in it."""
    builder = filled(StoreBuilder(tmp_path), 4)
    for offset in (0, 5, 6):
        builder.message(queue_offset=offset, tags="T", keys="k")
    builder.build()
    assert [finding.severity for finding in verified(builder) if "QOFFSET" in finding.code] == [Severity.WARNING] * 2


def test_a_queue_offset_used_twice(tmp_path: Path) -> None:
    builder = filled(StoreBuilder(tmp_path), 3)
    builder.message(queue_offset=2, tags="T", keys="k")
    builder.build()

    told = verified(builder)[0]

    assert place(told, "offset", "queue_offset", "expected", "found") == ("CL-QOFFSET-REPEAT", 3 * SIZE, 2, 3, 2)


@pytest.mark.parametrize("log_file_size", [400, 64 * 1024])
def test_a_gap_behind_a_damage_is_the_damage(tmp_path: Path, log_file_size: int) -> None:
    builder = filled(StoreBuilder(tmp_path, log_file_size=log_file_size), 6)
    patch(builder.build() / log_name(), SIZE + 4, b"\0")

    assert codes(verified(builder)) == ["CL-MAGIC", "CQ-LOST"]


@pytest.mark.parametrize("log_file_size", [400, 64 * 1024])
def test_a_gap_elsewhere_is_told_beside_a_damage(tmp_path: Path, log_file_size: int) -> None:
    builder = filled(StoreBuilder(tmp_path, log_file_size=log_file_size), 6)
    builder.message(queue_offset=8, tags="T", keys="k")
    patch(builder.build() / log_name(), SIZE + 4, b"\0")

    assert "CL-QOFFSET-GAP" in codes(verified(builder))


@pytest.mark.parametrize("offset", [2**61, 2**62, 2**63 - 1, -1, -(2**62), -(2**63)])
@pytest.mark.parametrize("with_queue", [True, False])
def test_queue_offsets_far_outside_of_the_queue(tmp_path: Path, offset: int, with_queue: bool) -> None:
    builder = given(tmp_path, QUEUE_OFFSET, offset.to_bytes(8, "big", signed=True))
    if not with_queue:
        (tmp_path / "consumequeue/TopicA/0/00000000000000000000").unlink()
        (tmp_path / "consumequeue/TopicA/0").rmdir()

    odd = [finding for finding in verified(builder) if "QOFFSET" in finding.code]

    assert place(odd[0], "offset", "found")[1:] == (SECOND, offset)


# Store times against the last write to the store

HOUR = 3600


def stored_at(root: Path, *seconds: int, written_at: int) -> StoreBuilder:
    """One message for each time; every file of the store was last written at the given second."""
    builder = StoreBuilder(root, log_file_size=500)
    for second in seconds:
        builder.message(tags="T", store_timestamp=second * 1000, born_timestamp=second * 1000)
    builder.build()
    for path in sorted(root.rglob("*")):
        os.utime(path, (written_at, written_at))
    return builder


@pytest.mark.parametrize(
    ("seconds", "first", "count"),
    [
        ((0, 1, 2), None, 0),
        ((0, 1, HOUR - 1), None, 0),
        ((0, 1, HOUR + 5), 2, 1),
        ((0, 2 * HOUR, 2 * HOUR + 1), 1, 2),
        ((9 * HOUR, 9 * HOUR, 9 * HOUR), 0, 3),
    ],
)
def test_messages_stored_after_the_last_write(seconds: tuple[int, ...], first: int | None, count: int, tmp_path: Path) -> None:
    written = FIRST_TIMESTAMP // 1000
    builder = stored_at(tmp_path, *(written + second for second in seconds), written_at=written)

    late = [finding for finding in verified(builder) if finding.code == "RMQ-CL-FUTURE"]

    if first is None:
        assert late == []
    else:
        (finding,) = late
        assert (finding.severity, finding.offset) == (Severity.WARNING, first * (builder.offset // 3))
        assert (finding.expected, finding.found) == (written * 1000, (written + seconds[-1]) * 1000)
        assert finding.message.startswith(f"{count} records ")


def test_a_single_late_record_in_the_middle_is_told_by_the_next_one(tmp_path: Path) -> None:
    written = FIRST_TIMESTAMP // 1000
    builder = stored_at(tmp_path, written, written + 9 * HOUR, written, written_at=written)

    assert [code for code in codes(verified(builder)) if code.startswith("CL")] == ["CL-TIME"]


def test_files_written_later_speak_for_the_log(tmp_path: Path) -> None:
    """A mapped file may be marked as modified late; the configuration is written every few seconds."""
    written = FIRST_TIMESTAMP // 1000
    builder = stored_at(tmp_path, written + 9 * HOUR, written_at=written)
    os.utime(tmp_path / "checkpoint", (written + 9 * HOUR, written + 9 * HOUR))

    assert "CL-FUTURE" not in codes(verified(builder))


# Text


@pytest.mark.parametrize(
    ("topic", "properties"),
    [(b"Topic\xff", {}), (b"TopicB", {"TAGS": b"\xc3"}), (b"TopicB", {"KEYS": b"a\xff b"}), (b"TopicB", {"UNIQ_KEY": b"\xed\xa0\x80"})],
)
def test_text_that_is_not_utf8(topic: bytes, properties: dict[str, bytes], tmp_path: Path) -> None:
    builder = filled(StoreBuilder(tmp_path), 1)
    block = b"".join(name.encode() + b"\1" + value + b"\2" for name, value in properties.items())
    for number in range(3):
        builder.put(fields(topic=topic, properties=block, queue_offset=number, store_timestamp=FIRST_TIMESTAMP + 9))
    builder.build()

    (finding,) = [finding for finding in verified(builder) if finding.code == "RMQ-CL-TEXT"]

    assert (finding.severity, finding.offset, finding.found) == (Severity.INFO, SIZE, 3)


@pytest.mark.parametrize("base", ["5.2.0-propcrc", "5.5.1-propcrc"])
def test_a_changed_record_with_a_property_crc(base: str, fresh_store: Callable[[str], Path]) -> None:
    """Of what a broker wrote, the born time is in no checksum but the one that the properties store."""
    root = fresh_store(base)
    settings = case(base).settings(root)
    log = rmqstore.open(root, settings=settings).log
    record = next(log.records())
    path = sorted((root / "commitlog").iterdir())[0]
    patch(path, record.physical_offset - log.min_offset + BORN_TIME + 7, bytes([path.read_bytes()[BORN_TIME + 7] ^ 1]))

    (found,) = errors(verify(root, settings))

    assert place(found, *WHERE) == ("CL-PROPCRC", f"commitlog/{path.name}", 0, record.size, 0)


def test_a_damage_costs_the_same_in_a_file_of_any_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A search for holes costs as much as the file is long on some file systems.
    searches: list[int] = []
    seek = os.lseek
    monkeypatch.setattr(os, "lseek", lambda *arguments: (searches.append(1), seek(*arguments))[1])

    def cost(count: int) -> int:
        builder = StoreBuilder(tmp_path / str(count))
        for _ in range(90):
            builder.message("TopicA", body=b"body")
        path = builder.build() / log_name()
        size = int.from_bytes(path.read_bytes()[:4], "big")
        for number in range(count):
            patch(path, 2 * number * size + 4, b"bad!")
        searches.clear()
        assert sum(finding.code == "RMQ-CL-MAGIC" for finding in verified(builder)) == count
        return len(searches)

    assert cost(40) == cost(4) > 0


def test_zeros_that_brokers_leave_after_the_properties_are_no_finding() -> None:
    """Multi-dispatched messages of 5.2.0 have them, after their last property."""
    assert "RMQ-CL-PROPZERO" not in {finding.code for finding in verify(sample_store("5.2.0-lmq"))}
