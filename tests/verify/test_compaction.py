"""Lengths and names of compaction files, as a broker loads them (fact sheet queues §5, observations of brokers §2)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqstore.findings import Severity
from rmqstore.verify.parts import compaction
from tests.support import stores
from tests.support.builder import StoreBuilder
from tests.verify.one_check import codes, only, run

QUEUE_FILE = 2 * 46
LOG_FILE = 5 * QUEUE_FILE
SETTINGS = {"compactionMappedFileSize": str(LOG_FILE - 40), "compactionCqMappedFileSize": str(QUEUE_FILE + 45)}
LOG, QUEUE = "compaction/compactionLog", "compaction/compactionCq"
POSITIONS = "compaction/position-checkpoint"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two queues of a topic with three files each, of which a run left a gap between the first and the others."""
    builder = StoreBuilder(tmp_path).message()
    for queue_id in (0, 1):
        for start in (0, 3 * LOG_FILE, 4 * LOG_FILE):
            builder.file(f"{LOG}/compact/{queue_id}/{start:020d}", bytes(LOG_FILE))
            builder.file(f"{QUEUE}/compact/{queue_id}/{start:020d}", bytes(QUEUE_FILE))
    builder.file(POSITIONS, b'{"queueOffsetMap":{"compact_0":12,"compact_1":7}}')
    return builder.build()


@pytest.mark.parametrize("settings", [{}, SETTINGS])
def test_sound_files(settings: dict[str, str], root: Path) -> None:
    assert run(compaction, root, settings) == []


@pytest.mark.parametrize("name", ["broker-5.5.1-crash", "5.3.3-plain", "4.9.8-plain"])
def test_what_brokers_leave(name: str) -> None:
    store = stores.sample_store(name)
    assert run(compaction, store, stores.case(name).settings(store)) == []
    assert run(compaction, store) == []


@pytest.mark.parametrize(("data", "found"), [(b"\xa5" * LOG_FILE, 1), (bytes(LOG_FILE), 0)])
def test_a_file_that_begins_with_no_record(data: bytes, found: int, root: Path) -> None:
    file = f"{LOG}/compact/1/{3 * LOG_FILE:020d}"
    (root / file).write_bytes(data)
    findings = run(compaction, root, SETTINGS)
    assert [(one.code, one.file) for one in findings] == [("RMQ-CM-GONE", file)] * found


@pytest.mark.parametrize("settings", [{}, SETTINGS])
@pytest.mark.parametrize(("tree", "length"), [(LOG, LOG_FILE), (QUEUE, QUEUE_FILE)])
@pytest.mark.parametrize("found", [0, 1, 46, 10_000])
def test_a_file_of_another_length(found: int, tree: str, length: int, settings: dict[str, str], root: Path) -> None:
    file = f"{tree}/compact/1/{3 * LOG_FILE:020d}"
    (root / file).write_bytes(bytes(found))

    finding = only(run(compaction, root, settings), "RMQ-CM-FILELEN")

    assert (finding.file, finding.expected, finding.found, finding.severity) == (file, length, found, Severity.ERROR)
    assert (finding.topic, finding.queue_id) == ("compact", 1)


@pytest.mark.parametrize(("tree", "length"), [(LOG, LOG_FILE + QUEUE_FILE // 2), (LOG, 4 * QUEUE_FILE), (QUEUE, QUEUE_FILE + 1)])
def test_lengths_that_no_setting_gives(tree: str, length: int, root: Path) -> None:
    for path in (root / tree).glob("compact/*/*"):
        path.write_bytes(bytes(length))

    assert only(run(compaction, root), "RMQ-CM-FILELEN").file == tree


@pytest.mark.parametrize(("length", "effect"), [(LOG_FILE, "the broker does not start"), (17, "this queue is not loaded")])
def test_a_file_that_a_replacement_left(length: int, effect: str, root: Path) -> None:
    file = f"{LOG}/compact/0/{0:020d}.delete"
    (root / file).write_bytes(bytes(length))

    finding = only(run(compaction, root), "RMQ-CM-NAME")

    assert finding.file == file
    assert effect in finding.message


@pytest.mark.parametrize(("tree", "other"), [(LOG, QUEUE), (QUEUE, LOG)])
def test_a_file_without_its_counterpart(tree: str, other: str, root: Path) -> None:
    name = f"compact/0/{3 * LOG_FILE:020d}"
    (root / tree / name).unlink()

    found = run(compaction, root)

    assert codes(found) == {"RMQ-CM-MISMATCH": 1}
    assert only(found, "RMQ-CM-MISMATCH").file == f"{tree}/{name}"
    assert other.removeprefix("compaction/") in found[0].message


def test_a_queue_directory_that_is_missing(root: Path) -> None:
    shutil.rmtree(root / QUEUE / "compact/1")

    assert codes(run(compaction, root)) == {"RMQ-CM-MISMATCH": 3}


@pytest.mark.parametrize(
    ("name", "code"), [("compacting", None), ("replicating", None), ("old", "RMQ-ST-FOREIGN"), ("0" * 19 + "1", "RMQ-ST-KIND")]
)
def test_directories_among_the_files(name: str, code: str | None, root: Path) -> None:
    (root / LOG / "compact/0" / name).mkdir()

    assert codes(run(compaction, root)) == ({code: 1} if code else {})


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


POSITION_DAMAGES: dict[str, tuple[Callable[[Path], object], str | None]] = {
    "missing": (Path.unlink, None),
    "empty": (lambda path: path.write_bytes(b""), "RMQ-CM-POSITION"),
    "half": (lambda path: path.write_bytes(path.read_bytes()[:20]), "RMQ-CM-POSITION"),
    "noise": (lambda path: path.write_bytes(b"\xff\x00\x7f" * 50), "RMQ-CM-POSITION"),
    "negative": (lambda path: path.write_bytes(b'{"queueOffsetMap":{"compact_0":-3}}'), "RMQ-CM-POSITION"),
    "no number": (lambda path: path.write_bytes(b'{"queueOffsetMap":{"compact_0":"x"}}'), "RMQ-CM-POSITION"),
    "no table": (lambda path: path.write_bytes(b'{"queueOffsetMap":[]}'), "RMQ-CM-POSITION"),
    "directory": (directory, "RMQ-ST-KIND"),
}


@pytest.mark.parametrize("damage", POSITION_DAMAGES)
def test_the_position_file(damage: str, root: Path) -> None:
    change, code = POSITION_DAMAGES[damage]
    change(root / POSITIONS)

    assert [(one.code, one.file) for one in run(compaction, root)] == ([(code, POSITIONS)] if code else [])
