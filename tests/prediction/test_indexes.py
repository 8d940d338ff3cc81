"""Index files that compiled code fills end as if every key had been put in by itself."""

from __future__ import annotations

import struct
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from rmqstore.formats import index as declared
from rmqstore.prediction.changes import Changes
from rmqstore.prediction.checkpoint import Checkpoint
from rmqstore.prediction.indexes import IndexService
from rmqstore.scan.columns import KEY_DTYPE, RECORD_DTYPE
from rmqstore.versions import profile_of

SLOTS, ITEMS = 7, 9
Keys = list[tuple[int, bool]]
"""Hash, and whether the key is a tag."""


@dataclass
class PlainFile:
    """An index file as `IndexFile.putKey` fills it, key by key."""

    header: list[int]
    slots: list[int]
    items: list[tuple[int, int, int, int]] = field(default_factory=list)

    def put(self, key_hash: int, physical_offset: int, store_timestamp: int) -> bool:
        number = self.header[5]
        if number >= ITEMS:
            return False
        slot = key_hash % SLOTS
        if self.slots[slot] <= 0 or self.slots[slot] > number:
            self.header[4] += 1
        self.slots[slot] = number
        if number <= 1:
            self.header[0], self.header[2] = store_timestamp, physical_offset
        self.header[5] += 1
        self.header[1], self.header[3] = store_timestamp, physical_offset
        return True


def plain_build(files: list[PlainFile], records: list[tuple[int, int, Keys]], *, tags: bool) -> None:
    """`IndexService.buildIndex` for one record after the other."""

    def last() -> PlainFile:
        if not files or files[-1].header[5] >= ITEMS:
            header = [0, 0, 0, 0, 0, 1]
            if files:
                _, end_time, _, end_offset, _, _ = files[-1].header
                header[:2], header[2:4] = [max(0, end_time)] * 2, [max(0, end_offset)] * 2
            files.append(PlainFile(header, [0] * SLOTS))
        return files[-1]

    for physical_offset, store_timestamp, keys in records:
        if physical_offset < last().header[3]:
            continue
        for key_hash, is_tag in keys:
            while (tags or not is_tag) and not last().put(key_hash, physical_offset, store_timestamp):
                pass


def columns(records: list[tuple[int, int, Keys]]) -> tuple[npt.NDArray[np.void], npt.NDArray[np.void]]:
    rows = np.zeros(len(records), RECORD_DTYPE)
    rows["physical_offset"] = [record[0] for record in records]
    rows["store_timestamp"] = [record[1] for record in records]
    keys = [(key_hash, row, is_tag) for row, record in enumerate(records) for key_hash, is_tag in record[2]]
    return rows, np.array(keys, KEY_DTYPE)


@st.composite
def logs(draw: st.DrawFn) -> list[tuple[int, int, Keys]]:
    """Records with rising offsets, some of them a second time, some of them out of range."""
    offset, found = draw(st.integers(-6000, 300)), []
    for _ in range(draw(st.integers(1, 30))):
        offset += draw(st.sampled_from([100, 100, 100, 100, -250, -5000]))
        keys = [(draw(st.integers(0, 2**31 - 1)), False) for _ in range(draw(st.integers(0, 12)))]
        keys += [(draw(st.integers(0, 2**31 - 1)), True)] * draw(st.integers(0, 1))
        found.append((offset, draw(st.integers(-5, 2**40)), keys))
    return found


@st.composite
def files_on_disk(draw: st.DrawFn) -> list[PlainFile]:
    if draw(st.booleans()):
        return []
    number = st.integers(-2, ITEMS + 2)
    header = [draw(st.integers(0, 50)), draw(st.integers(0, 50)), 0, draw(st.integers(-6000, 500)), draw(number), draw(number)]
    return [PlainFile(header, draw(st.lists(number, min_size=SLOTS, max_size=SLOTS)))]


@given(logs(), files_on_disk(), st.sampled_from(["5.3.3", "5.4.0"]), st.data())
def test_many_at_a_time_is_one_by_one(
    records: list[tuple[int, int, Keys]], files: list[PlainFile], release: str, data: st.DataObject
) -> None:
    profile = profile_of(release)
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        for number, file in enumerate(files):
            head = struct.pack(f">4q2i{SLOTS}i", *file.header, *file.slots)
            (directory / f"{number + 1:017d}").write_bytes(head.ljust(declared.file_size(SLOTS, ITEMS), b"\0"))
            file.header[5] = max(1, file.header[5])
        service = IndexService(directory, profile, SLOTS, ITEMS, Changes())
        service.load(last_exit_ok=True, index_msg_timestamp=0)
        checkpoint = Checkpoint(directory / "checkpoint", profile, removed=False)
        at = 0
        while at < len(records):
            count = data.draw(st.integers(1, len(records) - at))
            service.build(*columns(records[at : at + count]), checkpoint)
            at += count
        plain_build(files, records, tags=profile.indexes_tags)
        headers = [file.header() for file in service.files]
    assert [
        [one.begin_timestamp, one.end_timestamp, one.begin_phy_offset, one.end_phy_offset, one.hash_slot_count, one.index_count]
        for one in headers
    ] == [file.header for file in files]
