"""A DLedger store that a real broker wrote: records inside of entries, queues and index are verified as in any other store."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqstore.formats.dledger import ENTRY_HEADER, ENTRY_HEADER_SIZE
from rmqstore.formats.layout import fixed_layout
from rmqstore.formats.record import RECORD_PREFIX
from tests.support.stores import case, fresh_store, sample_store
from tests.support.verifying import DATA_PARTS, errors, new_findings, verify

STORE = "broker-5.3.3-dledger-clean"
HEADER = fixed_layout(ENTRY_HEADER)
PREFIX = fixed_layout(RECORD_PREFIX)


def log_file(root: Path) -> Path:
    return min(root.glob("dledger-*/data/*"))


def entries(data: bytes) -> list[int]:
    """Positions of all entry headers of a data file."""
    positions = []
    position = 0
    while int.from_bytes(data[position : position + 4], "big") == 1:
        positions.append(position)
        position += int.from_bytes(data[position + 4 : position + 8], "big")
    return positions


def body(data: bytes, entry: int) -> int:
    """Position of the first body byte of the first entry from `entry` on that has one (hosts of four bytes)."""
    for position in (place for place in entries(data) if place >= entry):
        record = position + ENTRY_HEADER_SIZE
        if int.from_bytes(data[record + 84 : record + 88], "big") > 0:
            return record + 88
    raise AssertionError("no body")


def test_the_sound_store(tmp_path: Path) -> None:
    root = sample_store(STORE)
    findings = verify(root, case(STORE).settings(root))

    assert errors(findings) == []
    assert [finding.code for finding in findings if finding.code == "RMQ-ST-DLEDGER"] == ["RMQ-ST-DLEDGER"]


@pytest.mark.parametrize(
    ("place", "code", "at_record"),
    [
        (body, "RMQ-CL-CRC", True),
        (lambda data, entry: entry + ENTRY_HEADER_SIZE + PREFIX["magic_code"].offset, "RMQ-CL-MAGIC", False),
        (lambda data, entry: entry + HEADER["magic"].offset, "RMQ-DL-ENTRY", False),
        (lambda data, entry: entry + HEADER["pos"].end - 1, "RMQ-DL-ENTRY", False),
        (lambda data, entry: entry + HEADER["body_len"].end - 1, "RMQ-DL-ENTRY", False),
    ],
    ids=["body", "record magic", "entry magic", "entry position", "entry body length"],
)
def test_a_flipped_bit(tmp_path: Path, place: Callable[[bytes, int], int], code: str, at_record: bool) -> None:
    root = fresh_store(STORE, tmp_path)
    settings = case(STORE).settings(root)
    before = verify(root, settings, DATA_PARTS)
    path = log_file(root)
    data = bytearray(path.read_bytes())
    middle = entries(data)[len(entries(data)) // 2]
    position = place(data, middle)
    data[position] ^= 1
    path.write_bytes(data)
    entry = max(start for start in entries(sample_store_log()) if start <= position)

    found = [finding for finding in new_findings(before, verify(root, settings, DATA_PARTS)) if finding.code == code]

    assert [finding.offset for finding in found] == [int(path.name) + entry + (ENTRY_HEADER_SIZE if at_record else 0)]


def sample_store_log() -> bytes:
    return log_file(sample_store(STORE)).read_bytes()


def test_a_queue_that_is_not_there(tmp_path: Path) -> None:
    root = fresh_store(STORE, tmp_path)
    settings = case(STORE).settings(root)
    before = verify(root, settings, DATA_PARTS)
    queue = max((path for path in root.glob("consumequeue/*/*/*") if any(path.read_bytes())), key=lambda path: path.parent.parent.name)
    queue.unlink()

    codes = {finding.code for finding in new_findings(before, verify(root, settings, DATA_PARTS))}

    assert codes & {"RMQ-CQ-MISSING", "RMQ-CQ-BEHIND"}


def test_units_that_point_at_records_of_another_queue(tmp_path: Path) -> None:
    root = fresh_store(STORE, tmp_path)
    settings = case(STORE).settings(root)
    before = verify(root, settings, DATA_PARTS)
    shutil.copytree(root / "consumequeue/orders/0", root / "consumequeue/orders/9")

    fresh = new_findings(before, verify(root, settings, DATA_PARTS))
    (found,) = (one for one in fresh if one.code != "RMQ-CF-QUEUES")  # topics.json has four queues

    assert (found.code, found.queue_id, found.queue_offset) == ("RMQ-CQ-SURPLUS", 9, 0)
    assert found.message.endswith("belongs to orders/0")
