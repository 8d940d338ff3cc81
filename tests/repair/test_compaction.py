"""Replacements of compacted files, stopped at each step: `recover` completes or reverts them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rmqstore.formats.batchconsumequeue import UNIT, UNIT_SIZE
from rmqstore.formats.naming import offset_to_file_name
from tests.scan.samples import NOW, encoded
from tests.support import stores
from tests.support.cli import rmqstore
from tests.support.stores import content, fresh_store

STORE = "5.3.3-plain"
QUEUE_SIZE = 10 * UNIT_SIZE
LOG_SIZE = 10 * QUEUE_SIZE
OLD, NEW, LAST = range(10), (4, 7, 9), range(10, 13)
"""Queue offsets of the messages in the first file, in the one that replaces it, and in the last file."""


def built(start: int, numbers: range | tuple[int, ...]) -> tuple[bytes, bytes]:
    """The bytes of a log file that begins at `start`, and of its queue file."""
    log, queue = b"", b""
    for number in numbers:
        place = start + len(log)
        record = encoded(topic=b"compact", queue_id=0, queue_offset=number, physical_offset=place, properties={"KEYS": f"k{number}"})
        unit = {"physical_offset": place, "size": len(record), "tags_code": 0, "store_time": NOW, "msg_base_offset": number}
        queue += UNIT.build({**unit, "batch_size": 1, "compacted_offset": -1, "reserved": 0})
        log += record
    return log.ljust(LOG_SIZE, b"\0"), queue.ljust(QUEUE_SIZE, b"\0")


FIRST, AFTER = offset_to_file_name(0), offset_to_file_name(LOG_SIZE)
(OLD_LOG, OLD_QUEUE), (NEW_LOG, NEW_QUEUE), (LAST_LOG, LAST_QUEUE) = built(0, OLD), built(0, NEW), built(LOG_SIZE, LAST)
WRITTEN_AGAIN, RENAMED, MOVED = f"compacting/{FIRST}", f"{FIRST}.delete", FIRST

STEPS: dict[str, tuple[dict[str, bytes], dict[str, bytes], bool | None]] = {
    "written again": ({FIRST: OLD_LOG, WRITTEN_AGAIN: NEW_LOG}, {FIRST: OLD_QUEUE, WRITTEN_AGAIN: NEW_QUEUE}, None),
    "half written": ({FIRST: OLD_LOG, WRITTEN_AGAIN: NEW_LOG[:700]}, {FIRST: OLD_QUEUE}, None),
    "log renamed": ({RENAMED: OLD_LOG, WRITTEN_AGAIN: NEW_LOG}, {FIRST: OLD_QUEUE, WRITTEN_AGAIN: NEW_QUEUE}, False),
    "log moved": ({MOVED: NEW_LOG, RENAMED: OLD_LOG}, {FIRST: OLD_QUEUE, WRITTEN_AGAIN: NEW_QUEUE}, False),
    "log deleted": ({MOVED: NEW_LOG}, {FIRST: OLD_QUEUE, WRITTEN_AGAIN: NEW_QUEUE}, True),
    "queue renamed": ({MOVED: NEW_LOG}, {RENAMED: OLD_QUEUE, WRITTEN_AGAIN: NEW_QUEUE}, True),
    "queue moved": ({MOVED: NEW_LOG}, {MOVED: NEW_QUEUE, RENAMED: OLD_QUEUE}, True),
    "old log stayed": ({MOVED: NEW_LOG, RENAMED: OLD_LOG}, {MOVED: NEW_QUEUE}, True),
}
"""Files of log and queue at each step, and whether the replacement is finished (True), taken back (False) or left alone (None)."""


def laid(tmp_path: Path, log: dict[str, bytes], queue: dict[str, bytes]) -> Path:
    """A store whose compacted queue has these files, and the last one."""
    root = fresh_store(STORE, tmp_path)
    for tree, files in (("compactionLog", {**log, AFTER: LAST_LOG}), ("compactionCq", {**queue, AFTER: LAST_QUEUE})):
        for name, data in files.items():
            path = root / "compaction" / tree / "compact" / "0" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    return root


def of_compaction(root: Path) -> list[str]:
    found = rmqstore("verify", root, "--json", *stores.case(STORE).set_options(root)).objects
    return [one["code"] for one in found if one["type"] == "finding" and one["code"].startswith("RMQ-CM")]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("strategy", ["salvage", "minimal"])
def test_a_replacement_that_was_stopped(step: str, strategy: str, tmp_path: Path) -> None:
    log, queue, finished = STEPS[step]
    root = laid(tmp_path, log, queue)
    before = content(root)
    assert bool(of_compaction(root)) == (finished is not None)

    done = rmqstore("recover", root, "--yes", "--strategy", strategy, "--json", *stores.case(STORE).set_options(root))

    assert done.status == 0, done.out
    assert of_compaction(root) == []
    wanted = {"compactionLog": NEW_LOG if finished else OLD_LOG, "compactionCq": NEW_QUEUE if finished else OLD_QUEUE}
    for tree, data in wanted.items():
        here = root / "compaction" / tree / "compact" / "0"
        assert (here / FIRST).read_bytes() == data
        assert sorted(path.name for path in here.iterdir() if path.is_file()) == [FIRST, AFTER]
    if finished is None:
        return
    assert rmqstore("undo", root, "--yes").status == 0
    assert {path: digest for path, digest in content(root).items() if not path.startswith(".rmqstore/")} == before


def test_doctor_leads_to_the_start(tmp_path: Path) -> None:
    root = laid(tmp_path, *STEPS["log renamed"][:2])
    found = rmqstore("doctor", root, "--json", *stores.case(STORE).set_options(root)).objects[-1]
    assert found["class"] == "DOES NOT START"
    assert found["next"].startswith("rmqstore recover")


@pytest.mark.parametrize("harm", [lambda data: data, lambda data: data[:2000] + bytes(50) + data[2050:]])
def test_a_damaged_file_does_not_change_the_way(harm: Callable[[bytes], bytes], tmp_path: Path) -> None:
    log, queue, _ = STEPS["log renamed"]
    root = laid(tmp_path, {**log, RENAMED: harm(OLD_LOG)}, queue)
    rmqstore("recover", root, "--yes", *stores.case(STORE).set_options(root))
    assert (root / "compaction" / "compactionLog" / "compact" / "0" / FIRST).read_bytes() == harm(OLD_LOG)


@pytest.mark.parametrize("step", ["written again", "half written"])
def test_damage_does_not_start_a_replacement(step: str, tmp_path: Path) -> None:
    """New files may be incomplete until the first old one is renamed, and look better than a damaged old one."""
    log, queue, _ = STEPS[step]
    root = laid(tmp_path, {**log, FIRST: OLD_LOG[:700] + bytes(50) + OLD_LOG[750:]}, queue)
    before = content(root / "compaction")
    rmqstore("recover", root, "--yes", *stores.case(STORE).set_options(root))
    assert content(root / "compaction") == before


def test_files_that_fit_in_no_way_stay(tmp_path: Path) -> None:
    root = laid(tmp_path, {RENAMED: OLD_LOG}, {offset_to_file_name(2 * LOG_SIZE): OLD_QUEUE})
    before = content(root / "compaction")
    done = rmqstore("recover", root, "--yes", "--json", *stores.case(STORE).set_options(root))
    assert done.status == 1
    assert content(root / "compaction") == before
    (plan,) = (one for one in done.objects if one["type"] == "plan")
    assert any("fit in no way" in str(note) for note in plan["notes"])
