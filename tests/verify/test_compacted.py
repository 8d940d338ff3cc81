"""Messages of compacted logs and the entries of their queues, in the store of a real broker and in files laid out as brokers do."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rmqstore.formats.batchconsumequeue import SPARSE_END, UNIT, UNIT_SIZE
from rmqstore.formats.message import BLANK_MAGIC
from rmqstore.scan.walk import LogScanner
from rmqstore.store.root import Store
from rmqstore.verify.parts import compacted
from rmqstore.verify.parts.compacted import compacted_faults
from tests.support import stores
from tests.verify.one_check import codes, patch, run

BROKER = "broker-5.5.1-crash"
LOG, QUEUE = (f"compaction/{tree}/compact/0/{0:020d}" for tree in ("compactionLog", "compactionCq"))
RECORD, ENTRY, MISSING, GONE = "RMQ-CM-RECORD", "RMQ-CM-ENTRY", "RMQ-CM-MISSING", "RMQ-CM-GONE"


def records_of(root: Path) -> list[bytes]:
    """The messages of the compacted log, as bytes."""
    file = next(iter(Store.open(root).compaction_log_directories())).files.files[0]
    return [batch.record_bytes(row) for batch in LogScanner().batches(file) for row in range(len(batch.records))]


def entry(number: int, name: str, value: int) -> Callable[[Path], None]:
    """Give a field of an entry another value."""

    def change(root: Path) -> None:
        data = (root / QUEUE).read_bytes()[number * UNIT_SIZE :][:UNIT_SIZE]
        patch(root / QUEUE, number * UNIT_SIZE, UNIT.build({**UNIT.parse(data), name: value}))

    return change


def log(position: int, data: bytes) -> Callable[[Path], None]:
    return lambda root: patch(root / LOG, position, data)


def of_message(number: int, position: int, data: bytes) -> Callable[[Path], None]:
    """Overwrite bytes at a position of a message; the last one for -1."""

    def change(root: Path) -> None:
        sizes = [len(record) for record in records_of(root)]
        start = sum(sizes[:number] if number >= 0 else sizes[:-1])
        patch(root / LOG, start + position, data)

    return change


def append_message(count: int) -> Callable[[Path], None]:
    """Add messages at the end of the log without entries, as a broker has it that is killed between the two writes."""

    def change(root: Path) -> None:
        records = records_of(root)
        end = sum(map(len, records))
        last = struct.unpack(">q", records[-1][20:28])[0]
        for number in range(1, count + 1):
            record = bytearray(records[-1])
            record[20:36] = struct.pack(">qq", last + number, end)
            patch(root / LOG, end, bytes(record))
            end += len(record)

    return change


def replaced(root: Path, old: bytes, new: bytes) -> None:
    """Replace the first occurrence in the log."""
    data = (root / LOG).read_bytes()
    assert old in data
    (root / LOG).write_bytes(data.replace(old, new, 1))


def emptied(root: Path) -> None:
    for name in (LOG, QUEUE):
        (root / name).write_bytes(bytes((root / name).stat().st_size))


NOISE = np.random.default_rng(5).bytes(1000)
CHANGES: dict[str, tuple[Callable[[Path], None], dict[str, int]]] = {
    "the body of a message": (of_message(70, 95, b"\xa5\x5a"), {RECORD: 1}),
    "the size of a message": (of_message(70, 0, struct.pack(">i", 99)), {RECORD: 1}),
    "the type of the last message": (of_message(-1, 4, b"\0\0\0\1"), {RECORD: 1}),
    "another queue in a message": (of_message(70, 12, struct.pack(">i", 3)), {RECORD: 1}),
    "another QUEUEOFFSET in a message": (of_message(70, 20, struct.pack(">q", 3)), {ENTRY: 1}),
    "random bytes": (log(30_000, NOISE), {RECORD: 1}),
    "a page of zeros": (log(8192, bytes(4096)), {RECORD: 1}),
    "zeros from the middle on": (log(30_000, bytes(40_000)), {RECORD: 1}),
    "random bytes after the end": (log(900_000, NOISE), {}),
    "an entry of another place": (entry(9, "physical_offset", 17), {ENTRY: 1}),
    "an entry of another size": (entry(9, "size", 17), {ENTRY: 1}),
    "an entry of another time": (entry(9, "store_time", 17), {ENTRY: 1}),
    "an entry of another queue offset": (entry(9, "msg_base_offset", 17), {ENTRY: 1}),
    "entries of zeros": (lambda root: patch(root / QUEUE, 9 * UNIT_SIZE, bytes(5 * UNIT_SIZE)), {ENTRY: 1}),
    "the last entries gone": (lambda root: patch(root / QUEUE, 150 * UNIT_SIZE, bytes(50 * UNIT_SIZE)), {ENTRY: 1}),
    "another key in a message": (lambda root: replaced(root, b"KEYS\x01", b"KEYT\x01"), {RECORD: 1}),
    "both files of zeros": (emptied, {MISSING: 1}),
    "one message without entry": (append_message(1), {}),
    "two messages without entry": (append_message(2), {ENTRY: 1}),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_damage_of_a_log_or_its_queue(what: str, tmp_path: Path) -> None:
    root = stores.fresh_store(BROKER, tmp_path)
    settings = stores.case(BROKER).settings(root)
    change, expected = CHANGES[what]
    change(root)

    found = run(compacted, root, settings)

    assert codes(found) == expected, found
    assert all((one.topic, one.queue_id) == ("compact", 0) for one in found)


def test_messages_that_a_damage_takes_are_counted_once(tmp_path: Path) -> None:
    root = stores.fresh_store(BROKER, tmp_path)
    sizes = np.cumsum([len(record) for record in records_of(root)])
    CHANGES["a page of zeros"][0](root)
    within = int(((sizes > 8192) & (sizes - np.diff(sizes, prepend=0) < 12288)).sum())

    assert [fault.count for fault in compacted_faults(Store.open(root))] == [within]


def laid_out(root: Path, *, per_file: int, closed: bool = True) -> int:
    """Write the messages of queue 0 into files that roll after so many of them; return the length of a log file."""
    queue_length = (per_file + 2) * UNIT_SIZE
    records = records_of(root)
    length = -(-(per_file + 1) * max(map(len, records)) // queue_length) * queue_length
    for tree in (LOG, QUEUE):
        (root / tree).unlink()
    for number in range(0, len(records), per_file):
        start = number // per_file * length
        data, units = bytearray(), bytearray()
        for record in records[number : number + per_file]:
            offset, place = struct.unpack(">q", record[20:28])[0], start + len(data)
            units += UNIT.build(
                {
                    **UNIT.parse(bytes(UNIT_SIZE)),
                    "physical_offset": place,
                    "size": len(record),
                    "msg_base_offset": offset,
                    "batch_size": 1,
                    "compacted_offset": -1,
                    "store_time": struct.unpack(">q", record[56:64])[0],
                }
            )
            data += record[:28] + struct.pack(">q", place) + record[36:]
        if closed and number + per_file < len(records):
            data += struct.pack(">iI", length - len(data), BLANK_MAGIC)
            units += SPARSE_END
        for tree, content, size in ((LOG, data, length), (QUEUE, units, queue_length)):
            (root / tree).with_name(f"{start:020d}").write_bytes(content.ljust(size, b"\0"))
    return length


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("per_file", [7, 40, 50])
def test_files_that_rolled(per_file: int, closed: bool, tmp_path: Path) -> None:
    root = stores.fresh_store(BROKER, tmp_path)
    length = laid_out(root, per_file=per_file, closed=closed)
    assert list(compacted_faults(Store.open(root))) == []

    second = (root / LOG).with_name(f"{length:020d}")
    patch(second, 95, b"\xa5\x5a")

    fault = next(iter(compacted_faults(Store.open(root))))
    assert (fault.file.path, fault.position, fault.code) == (second, 0, RECORD)


def test_a_file_of_older_messages(tmp_path: Path) -> None:
    """The third file has the messages of the second one, in their place there: only their QUEUEOFFSETs are wrong."""
    root = stores.fresh_store(BROKER, tmp_path)
    length = laid_out(root, per_file=40)
    for tree in (LOG, QUEUE):
        source, target = ((root / tree).with_name(f"{number * length:020d}") for number in (1, 2))
        data = bytearray(source.read_bytes())
        if tree == LOG:
            for record in records_of_file(data):
                data[record + 28 : record + 36] = struct.pack(">q", 2 * length + record)
        else:
            for unit in range(40):
                place = struct.unpack_from(">q", data, unit * UNIT_SIZE)[0]
                struct.pack_into(">q", data, unit * UNIT_SIZE, place + length)
        target.write_bytes(data)

    found = list(compacted_faults(Store.open(root)))

    assert found
    assert [fault.code for fault in found][-1] == MISSING
    assert {fault.file.start for fault in found[:-1]} == {2 * length}
    assert all("QUEUEOFFSET" in fault.message for fault in found[:-1])


def records_of_file(data: bytes) -> list[int]:
    """The positions of the messages of a log file."""
    positions, at = [], 0
    while struct.unpack_from(">I", data, at + 4)[0] not in (0, BLANK_MAGIC):
        positions.append(at)
        at += struct.unpack_from(">i", data, at)[0]
    return positions


def test_a_log_that_is_gone(tmp_path: Path) -> None:
    root = stores.fresh_store(BROKER, tmp_path)
    shutil.rmtree(root / "compaction")
    found = run(compacted, root, stores.case(BROKER).settings(root))
    assert codes(found) == {GONE: 2}
    assert [(one.topic, one.queue_id, one.found) for one in found] == [("compact", 0, 150), ("compact", 1, 50)]


def dropped(root: Path, numbers: set[int]) -> None:
    """Take messages out of log and queue, as if they had never been there."""
    data, units, position = bytearray(), bytearray(), 0
    of_queue = (root / QUEUE).read_bytes()
    for number, record in enumerate(records_of(root)):
        if number not in numbers:
            unit = {**UNIT.parse(of_queue[number * UNIT_SIZE :][:UNIT_SIZE]), "physical_offset": position}
            data += record[:28] + struct.pack(">q", position) + record[36:]
            units += UNIT.build(unit)
            position += len(record)
    for name, content in ((LOG, data), (QUEUE, units)):
        (root / name).write_bytes(content.ljust((root / name).stat().st_size, b"\0"))


@pytest.mark.parametrize(("numbers", "expected"), [({0, 1, 2, 61, 91}, {}), ({60, 177}, {MISSING: 1}), ({199}, {}), ({198}, {MISSING: 1})])
def test_messages_that_a_log_lacks(numbers: set[int], expected: dict[str, int], tmp_path: Path) -> None:
    """Of the 200 messages those of odd numbers below 100 have a later one of their key; a killed broker may not have reached the last."""
    root = stores.fresh_store(BROKER, tmp_path)
    dropped(root, numbers)
    found = run(compacted, root, stores.case(BROKER).settings(root))
    assert codes(found) == expected, found
    assert all(one.queue_offset in numbers for one in found)


def test_the_end_counts_where_the_broker_stopped(tmp_path: Path) -> None:
    root = stores.fresh_store(BROKER, tmp_path)
    (root / "abort").unlink()
    dropped(root, {199})
    (found,) = run(compacted, root, stores.case(BROKER).settings(root))
    assert (found.code, found.queue_offset) == (MISSING, 199)
