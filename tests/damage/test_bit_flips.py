"""One flipped bit anywhere in live data of log, queues or index of a small store is found, or listed here as invisible with the reason.

Every byte gets one flipped bit, another one from byte to byte; with RMQSTORE_ALL_BITS=1 in the environment every bit of every byte.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rmqstore.findings import Finding, Severity
from rmqstore.formats import consumequeue, index
from rmqstore.formats.layout import fixed_layout
from rmqstore.formats.record import BLANK_SIZE
from tests.support.builder import StoreBuilder
from tests.support.storeview import LogRecord, StoreView
from tests.support.verifying import DATA_PARTS, new_findings, verify

ALL_BITS = os.environ.get("RMQSTORE_ALL_BITS") == "1"
SLICES = 8

# field: why no reader of the store can see a change of it
INVISIBLE = {
    "flag": "belongs to the application, every value is valid",
    "born_timestamp": "the clock of a client; only values far from the store time are implausible",
    "born_host": "any address may have sent the message",
    "reconsume_times": "every small number is valid, and no other place repeats it",
    "store_timestamp": "index items count seconds and neighbours only order it, so milliseconds stay unseen",
    "sys_flag 0x2": "MULTI_TAGS changes nothing on disk",
    "sys_flag 0x40": "NEED_UNWRAP is for consumers only",
    "sys_flag 0x80": "INNER_BATCH alone makes no batch of a record, only INNER_NUM and INNER_BASE do",
    "sys_flag 0x100": "the kind of compression, which nobody looks at without the bit COMPRESSED",
    "sys_flag 0x200": "the kind of compression, which nobody looks at without the bit COMPRESSED",
    "store_host at an edge": "the first and last record of a file have one neighbour: what differs may be the address after a restart",
    "user property": "nothing is derived from it, and only the optional property CRC covers it",
}


@dataclass(frozen=True, slots=True)
class Byte:
    """One byte of live data: where it lies, what it belongs to, and the physical offset of its record if it is in the log."""

    path: str
    position: int
    field: str
    offset: int | None = None


def build(root: Path) -> tuple[Path, dict[str, str]]:
    """Twenty records in two queues and three log files, one index file."""
    builder = StoreBuilder(root, log_file_size=1536, queue_file_size=400, slots=20, items=60)
    for number in range(20):
        builder.message(
            "TopicA",
            f"body of {number}".encode(),
            queue_id=number % 2,
            tags="TagA" if number % 3 else "TagB",
            keys=f"k{number} shared",
            unique_key=f"7F000001{number:08X}",
            properties={"u": f"v{number}"},
            store_timestamp=1_700_000_000_000 + 1500 * number,
            born_timestamp=1_700_000_000_000 + 1500 * number - 5,
        )
    return builder.build(), builder.settings


def live_bytes(view: StoreView) -> Iterator[Byte]:
    """Every byte of the log's records and BLANKs, of the used queue units, and of header, slots and used items of the index."""
    for target in view.records:
        user = user_property(view, target)
        for position in range(target.position, target.end):
            yield Byte(target.path, position, "user property" if position in user else target.field_at(position), target.offset)
    for file in view.log_files:
        if file.blank is not None:
            yield from (
                Byte(file.path, position, "blank", file.start + file.blank) for position in range(file.blank, file.blank + BLANK_SIZE)
            )
    for key in view.queues:
        for unit in view.units(key):
            for name, field in fixed_layout(consumequeue.UNIT).items():
                yield from (Byte(unit.path, unit.position + at, f"unit {name}") for at in range(field.offset, field.end))
    for path in view.index_files:
        data = view.read(path)
        used = index.HEADER.parse(data).index_count
        for position in range(index.item_position(used, view.slots)):
            if not index.item_position(0, view.slots) <= position < index.item_position(1, view.slots):
                yield Byte(path, position, "index")


def user_property(view: StoreView, target: LogRecord) -> range:
    """The bytes of the property `u` and of the separator behind its name."""
    field = target.fields["properties"]
    block = view.read(target.path)[field.offset : field.end]
    start = block.index(b"u\x01v")
    return range(field.offset + start, field.offset + block.index(b"\x02", start))


@pytest.fixture(scope="module")
def small_store(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    return build(tmp_path_factory.mktemp("flips") / "store")


def test_the_small_store_has_nothing_to_find(small_store: tuple[Path, dict[str, str]]) -> None:
    root, settings = small_store
    view = StoreView(root, settings)

    assert len(view.records) == 20
    assert len([file for file in view.log_files if file.blank is not None]) >= 2
    assert [finding for finding in verify(root, settings, DATA_PARTS) if finding.severity is not Severity.INFO] == []


@pytest.mark.limited(2)
@pytest.mark.sampled(0)
@pytest.mark.parametrize("part", range(SLICES))
def test_every_flipped_bit_is_found_or_listed(part: int, small_store: tuple[Path, dict[str, str]]) -> None:
    root, settings = small_store
    view = StoreView(root, settings)
    before = verify(root, settings, DATA_PARTS)
    missed = []

    for number, byte in enumerate(live_bytes(view)):
        if number % SLICES != part:
            continue
        for bit in range(8) if ALL_BITS else [(number // SLICES + number) % 8]:
            with flipped(root / byte.path, byte.position, 1 << bit):
                findings = [
                    finding for finding in new_findings(before, verify(root, settings, DATA_PARTS)) if finding.severity is not Severity.INFO
                ]
            if not any(points_at(finding, byte, view) for finding in findings) and not listed(byte, bit, view):
                missed.append(f"{byte.field} bit {bit} at {byte.path}:{byte.position}, found {sorted({f.code for f in findings})}")

    assert not missed, "\n".join(missed)


class flipped:
    """Within the block one bit of the file is inverted."""

    def __init__(self, path: Path, position: int, mask: int) -> None:
        self.path, self.position, self.mask = path, position, mask

    def __enter__(self) -> None:
        self._flip()

    def __exit__(self, *_: object) -> None:
        self._flip()

    def _flip(self) -> None:
        with self.path.open("r+b") as stream:
            stream.seek(self.position)
            (value,) = stream.read(1)
            stream.seek(self.position)
            stream.write(bytes([value ^ self.mask]))


def points_at(finding: Finding, byte: Byte, view: StoreView) -> bool:
    """Whether a finding leads to the byte: by its file, its record or queue offset, or by what the index made of the record."""
    if finding.file == byte.path or (byte.offset is not None and finding.offset == byte.offset):
        return True
    if finding.file in view.index_files and byte.offset is not None:
        return True
    return (finding.topic, finding.queue_id, finding.queue_offset) == entry_of(byte, view)


def entry_of(byte: Byte, view: StoreView) -> tuple[str, int, int] | None:
    """Topic, queue id and queue offset of the record or unit that the byte belongs to."""
    for target in view.records:
        if target.offset == byte.offset:
            return target.record.topic, target.record.queue_id, target.record.queue_offset
    if byte.path.startswith("consumequeue/"):
        _, topic, queue_id, start = byte.path.split("/")
        return topic, int(queue_id), (int(start) + byte.position) // consumequeue.UNIT_SIZE
    return None


def listed(byte: Byte, bit: int, view: StoreView) -> bool:
    """Whether the table of invisible fields names the bit."""
    if byte.field == "sys_flag":
        field = next(r.fields["sys_flag"] for r in view.records if r.offset == byte.offset)
        return f"sys_flag {1 << bit + 8 * (field.end - 1 - byte.position):#x}" in INVISIBLE
    if byte.field == "store_host":
        edges = {record.offset for file in view.log_files for record in (file.records[0], file.records[-1])}
        return byte.offset in edges and "store_host at an edge" in INVISIBLE
    return byte.field in INVISIBLE
