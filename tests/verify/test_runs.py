"""Runs of sound records in a file: where each belongs, and that hostile bytes end the search."""

from __future__ import annotations

from pathlib import Path

from rmqstore.formats import record
from rmqstore.formats.crc import body_crc
from rmqstore.store.mapped import MappedFile
from rmqstore.verify.log.runs import blank_after, runs_of

FIELDS = {
    "magic_code": record.MESSAGE_MAGIC_V1,
    "queue_id": 0,
    "flag": 0,
    "queue_offset": 0,
    "sys_flag": 0,
    "born_timestamp": 1_700_000_000_000,
    "born_host": "10.1.2.3:50000",
    "store_timestamp": 1_700_000_000_001,
    "store_host": "10.9.8.7:10911",
    "reconsume_times": 0,
    "prepared_transaction_offset": 0,
    "topic": b"TopicA",
    "properties": b"",
}


def built(body: bytes, position: int, *, sound: bool = True) -> bytes:
    """A record of a place; one that is not sound has another body CRC."""
    fields = {**FIELDS, "body": body, "physical_offset": position, "body_crc": body_crc(body) ^ (0 if sound else 1)}
    return bytes(record.MESSAGE.build(fields))


def file_of(path: Path, data: bytes, start: int = 0) -> MappedFile:
    path.write_bytes(data)
    return MappedFile(path, start, len(data), len(data))


def test_runs_part_where_the_shift_changes(tmp_path: Path) -> None:
    one, two = built(b"one", 4096), built(b"two", 4096 + len(built(b"one", 4096)))
    moved = built(b"three", 9000)
    file = file_of(tmp_path / "log", one + two + moved, 4096)
    first, second = runs_of(file)
    assert (first.position, first.start, first.records, first.shift) == (0, 4096, 2, 0)
    assert (second.position, second.start, second.records) == (len(one + two), 9000, 1)
    assert blank_after(second, 16384) == 0


def test_a_record_inside_of_one_that_is_not_sound_is_found(tmp_path: Path) -> None:
    inner = built(b"inner", 70_000)
    file = file_of(tmp_path / "log", built(bytes(300) + inner + bytes(300), 0, sound=False))
    (run,) = runs_of(file)
    assert (run.start, run.length) == (70_000, len(inner))


def test_records_that_nest_without_end_are_not_followed_without_end(tmp_path: Path) -> None:
    data = b"x" * 100
    for number in range(2000):
        data = built(data, 1000 + number, sound=False)
    assert list(runs_of(file_of(tmp_path / "log", data))) == []
