"""What is rebuilt from the log of a sample store is what its broker wrote, byte for byte, or unit by unit where bytes cannot be the same.

Names of index files are the broker's clock and are not compared.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from rmqstore.formats import consumequeue, consumequeue_ext, index
from rmqstore.prediction.queues.units import UNIT
from rmqstore.rebuild import Mode, QueueKind, RebuiltQueue, clean_checkpoint
from rmqstore.scan.kernels.index import ITEM_ROWS
from tests.rebuild.rebuilding import Rebuilt, rebuilt
from tests.support.stores import Case, case, cases, sample_store

PARTS = ("consumequeue", "consumequeue_ext", "batchconsumequeue")


class Reason(Enum):
    """Why bytes cannot be the same (fact sheet queues §2.15, §6.9)."""

    BITMAPS = "ext units hold filter bitmaps, which are not in the log, so units have other lengths and addresses"
    EXPIRED = "the first log files are gone: units and items of their messages are pre-blanks or missing"
    CUT_SHORT = "the broker was killed before it dispatched the last messages of the log"
    ROCKSDB = "the queues are in RocksDB"


REASONS = {
    "4.9.8-cqext": {Reason.BITMAPS},
    "5.3.3-cqext": {Reason.BITMAPS},
    "broker-5.3.3-cqext-crash": {Reason.BITMAPS, Reason.CUT_SHORT},
    "4.9.8-headless": {Reason.EXPIRED},
    "5.3.3-headless": {Reason.EXPIRED},
    "5.3.3-headless-crash": {Reason.EXPIRED},
    "5.5.1-headless": {Reason.EXPIRED},
    "broker-5.5.1-crash": {Reason.CUT_SHORT},
    "5.2.0-rocksdb": {Reason.ROCKSDB},
    "5.3.3-rocksdb": {Reason.ROCKSDB},
    "5.5.1-rocksdb": {Reason.ROCKSDB},
    "broker-5.3.3-rocksdb-crash": {Reason.ROCKSDB},
    "broker-5.5.1-rocksdb-clean": {Reason.ROCKSDB},
}
NAMES = [each.name for each in cases()]
EXACT = [name for name in NAMES if name not in REASONS]


def _because_of(reason: Reason) -> list[str]:
    return [name for name in NAMES if reason in REASONS.get(name, ())]


def _rebuilt(sample: Case, mode: Mode) -> tuple[Path, Rebuilt]:
    root = sample_store(sample.name)
    topics = frozenset(topic for topic in sample.data.get("topics", {}) if sample.topic_attributes(topic).get("queue.type") == "BatchCQ")
    return root, rebuilt(root, sample.settings(root), sample.release, mode, batch_topics=topics)


def _queue_files(root: Path) -> dict[str, bytes]:
    paths = (path for part in PARTS for path in (root / part).rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}


def _index_files(root: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted((root / "index").glob("*"))]


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("name", EXACT)
def test_bytes_are_those_of_the_broker(name: str, mode: Mode) -> None:
    root, made = _rebuilt(case(name), mode)
    assert made.files() == _queue_files(root)
    assert made.index_files() == _index_files(root)
    assert made.queues.refused == made.index.refused == 0
    assert not any(queue.restarts or queue.repeated or queue.misnumbered or queue.shifted for queue in made.queues.queues)


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("name", _because_of(Reason.ROCKSDB))
def test_index_files_beside_queues_in_rocksdb(name: str, mode: Mode) -> None:
    root, made = _rebuilt(case(name), mode)
    assert made.files() != _queue_files(root)
    assert made.index_files() == _index_files(root)


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("name", _because_of(Reason.BITMAPS))
def test_units_and_what_their_ext_units_hold(name: str, mode: Mode) -> None:
    root, made = _rebuilt(case(name), mode)
    theirs, mine = _queue_files(root), made.files()
    assert mine != theirs
    for queue in made.queues.queues:
        if queue.kind is QueueKind.BATCH:
            assert all(mine[path] == theirs[path] for path in queue.files)
            continue
        units, expected = _units(queue, mine), _units(queue, theirs)
        if Reason.CUT_SHORT in REASONS[name]:
            expected = expected[expected["size"] > 0]
            units = units[: len(expected)]
        assert (units["physical_offset"] == expected["physical_offset"]).all()
        assert (units["size"] == expected["size"]).all()
        assert [_extended(queue, mine, code) for code in units["tags_code"].tolist()] == [
            _extended(queue, theirs, code) for code in expected["tags_code"].tolist()
        ]


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("name", _because_of(Reason.EXPIRED))
def test_what_follows_the_expired_part(name: str, mode: Mode) -> None:
    sample = case(name)
    root, made = _rebuilt(sample, mode)
    theirs, mine = _queue_files(root), made.files()
    assert mine != theirs
    for queue in made.queues.queues:
        units, expected = (_units(queue, files, queue.first_offset) for files in (mine, theirs))
        assert (units == expected).all()
        before = _units(queue, theirs)[: -len(units)]
        assert (before["physical_offset"] < sample.min_phy_offset).all()
    slots = int(sample.settings(root)["maxHashSlotNum"])
    live = _items(_index_files(root), slots)
    live = live[live["phy_offset"] >= sample.min_phy_offset]
    assert (_items(made.index_files(), slots)[["key_hash", "phy_offset"]] == live[["key_hash", "phy_offset"]]).all()


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("name", _because_of(Reason.CUT_SHORT))
def test_what_the_broker_dispatched_before_it_was_killed(name: str, mode: Mode) -> None:
    sample = case(name)
    root, made = _rebuilt(sample, mode)
    theirs, mine = _queue_files(root), made.files()
    assert set(theirs) == set(mine)
    assert theirs != mine
    if Reason.BITMAPS not in REASONS[name]:
        for path, found in theirs.items():
            written = len(found.rstrip(b"\0"))
            assert mine[path][:written] == found[:written]
    slots = int(sample.settings(root)["maxHashSlotNum"])
    items, expected = _items(made.index_files(), slots), _items(_index_files(root), slots)
    assert len(expected) < len(items)
    assert (items[: len(expected)] == expected).all()


@pytest.mark.parametrize("name", [name for name in _because_of(Reason.BITMAPS) if Reason.CUT_SHORT not in REASONS[name]])
def test_index_files_beside_ext_units(name: str) -> None:
    root, made = _rebuilt(case(name), Mode.USEFUL)
    assert made.index_files() == _index_files(root)


# What a clean stop leaves is up to the moment of the last flush, except where nothing came between.
FLUSHED = [each.name for each in cases() if not each.crashed and not each.is_broker and each.release != "4.9.8" and each.name in EXACT]


@pytest.mark.parametrize("name", FLUSHED)
def test_checkpoint_of_a_clean_stop(name: str) -> None:
    root, made = _rebuilt(case(name), Mode.FAITHFUL)
    values = clean_checkpoint(made.profile, made.last_time or 0, made.queues, made.index)
    assert values.encode() == (root / "checkpoint").read_bytes()


def test_every_reason_has_a_case() -> None:
    assert set().union(*REASONS.values()) == set(Reason)
    assert all(_because_of(reason) for reason in Reason)


def _units(queue: RebuiltQueue, files: dict[str, bytes], first: int = 0) -> npt.NDArray[np.void]:
    """The units of a queue from queue offset `first` on up to its end, from the files that it has in `files`."""
    directory = queue.files[0].rpartition("/")[0]
    paths = sorted(path for path in files if path.rpartition("/")[0] == directory)
    units = np.frombuffer(b"".join(files[path] for path in paths), UNIT)
    start = int(paths[0].rpartition("/")[2]) // consumequeue.UNIT_SIZE
    return units[max(0, first - start) : queue.end_offset - start]


def _extended(queue: RebuiltQueue, files: dict[str, bytes], tags_code: int) -> tuple[int, int] | int:
    """tagsCode and store time in the ext unit that a tagsCode stands for; a tagsCode that is none as it is."""
    if not consumequeue_ext.is_address(tags_code):
        return tags_code
    directory = f"consumequeue_ext/{queue.topic}/{queue.queue_id}"
    data = b"".join(files[path] for path in sorted(files) if path.rpartition("/")[0] == directory)
    unit = consumequeue_ext.UNIT.parse(data[consumequeue_ext.decode_address(tags_code) :])
    return int(unit.tags_code), int(unit.msg_store_time)


def _items(files: list[bytes], slots: int) -> npt.NDArray[np.void]:
    """All items of these index files, in order."""
    counts = [int(index.HEADER.parse(data).index_count) for data in files]
    first = index.item_position(1, slots)
    return np.concatenate([np.frombuffer(data, ITEM_ROWS, count - 1, first) for data, count in zip(files, counts, strict=True)])
