"""The stores that benchmarks are measured on are right: verified without a finding, and what was said to be written is there."""

from __future__ import annotations

import functools
import itertools
from pathlib import Path

import pytest

from benchmarks.generator import FIRST_TIMESTAMP, STORE_HOST, TAG_NAMES, TOPICS, Made, Shape, make_store
from rmqstore.formats.record import BLANK_SIZE, Record, decode_record
from rmqstore.store.root import Store
from rmqstore.verify.context import Options
from rmqstore.verify.engine import Verification

# Small files of every kind, so that each rolls several times.
LOG_FILE = 1 << 18
SMALL = {"log_file_size": LOG_FILE, "queue_file_size": 100, "slots": 500, "items": 400}


@pytest.fixture(scope="module", params=[128, 1024])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make_store(tmp_path_factory.mktemp("made") / "store", Shape(5 * LOG_FILE // 2, request.param, **SMALL))


@functools.cache
def records(made: Made) -> list[Record]:
    """All records, decoded one by one by the declarations."""
    found = []
    for path in made.log_files:
        data, position = path.read_bytes(), 0
        while int(path.name) + position < made.log_bytes:
            if data[position + 4 : position + 8] == bytes.fromhex("CBD43194"):
                break
            found.append(decode_record(data, position))
            position += found[-1].size
    return found


def test_verify_finds_nothing_in_the_store(made: Made) -> None:
    verification = Verification(Store.open(made.root, settings=made.shape.settings), Options())

    assert list(verification.run()) == []
    assert verification.totals.records == made.records
    assert verification.totals.indexed_keys == made.keys == 2 * made.records
    assert verification.totals.queues == 64


def test_every_kind_of_file_rolls(made: Made) -> None:
    assert [path.name for path in made.log_files] == [f"{start:020d}" for start in range(0, made.shape.size, LOG_FILE)]
    assert len(list((made.root / "index").iterdir())) == -(-made.keys // (SMALL["items"] - 1))
    assert all(len(list(queue.iterdir())) > 1 for queue in (made.root / "consumequeue" / TOPICS[0]).iterdir())


def test_records_are_what_the_shape_says(made: Made) -> None:
    found = records(made)

    assert len(found) == made.records
    assert found[-1].physical_offset + found[-1].size == made.log_bytes <= made.shape.size
    assert {record.body_length for record in found} == {made.shape.body_length}
    assert all(record.body_crc_matches for record in found)
    assert {record.topic for record in found} == set(TOPICS)
    assert {record.tags for record in found} == set(TAG_NAMES)
    assert {record.queue_id for record in found} == set(range(8))
    assert {record.store_host for record in found} == {STORE_HOST}
    assert [record.keys for record in found] == [f"order-{number:012d}" for number in range(made.records)]
    assert len({record.unique_key for record in found}) == made.records
    assert all(len(record.unique_key or "") == 32 for record in found)
    assert found[0].store_timestamp == FIRST_TIMESTAMP


def test_queue_offsets_count_from_zero_in_every_queue(made: Made) -> None:
    offsets: dict[tuple[str, int], list[int]] = {}
    for record in records(made):
        offsets.setdefault((record.topic, record.queue_id), []).append(record.queue_offset)

    assert len(offsets) == 64
    assert all(found == list(range(len(found))) for found in offsets.values())


def test_full_log_files_end_with_a_blank(made: Made) -> None:
    neighbours = itertools.pairwise(records(made))
    ends = [(last, first) for last, first in neighbours if first.physical_offset % LOG_FILE == 0]

    assert len(ends) == len(made.log_files) - 1
    for last, first_of_next in ends:
        end = last.physical_offset + last.size
        left = first_of_next.physical_offset - end
        file = made.root / "commitlog" / f"{first_of_next.physical_offset - LOG_FILE:020d}"
        assert file.read_bytes()[-left:][:BLANK_SIZE] == left.to_bytes(4, "big") + bytes.fromhex("CBD43194")
        assert left < BLANK_SIZE + first_of_next.size


def test_the_limit_may_lie_inside_of_a_file(tmp_path: Path) -> None:
    made = make_store(tmp_path / "store", Shape(200_000, 128, **SMALL))

    assert len(made.log_files) == 1
    assert 199_000 < made.log_bytes <= 200_000
    assert not any(made.log_files[0].read_bytes()[made.log_bytes :])
