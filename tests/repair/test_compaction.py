"""Replacements of compacted files, stopped at each step: `recover` completes or reverts them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rmqstore.formats.batchconsumequeue import UNIT, UNIT_SIZE
from rmqstore.formats.naming import offset_to_file_name
from rmqstore.scan.walk import LogScanner
from rmqstore.store.root import Store
from tests.scan.samples import NOW, encoded
from tests.support import stores
from tests.support.cli import rmqstore
from tests.support.stores import content, fresh_store
from tests.verify.one_check import patch
from tests.verify.test_compacted import CHANGES, LOG, QUEUE, dropped, laid_out, records_of

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

AFTER_OFFSET = LAST[0]

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


def harmed(data: bytes) -> bytes:
    """Zero the beginning of the fifth message of a log file."""
    start = 4 * int.from_bytes(data[:4], "big")
    return data[:start] + bytes(50) + data[start + 50 :]


def copies(root: Path) -> list[int]:
    """The queue offsets of the messages in the compacted log, in its order."""
    (log,) = Store.open(root).compaction_log_directories()
    scanner = LogScanner()
    return [int(offset) for file in log.files.files for batch in scanner.batches(file) for offset in batch.records["queue_offset"]]


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

    assert done.status == 0, done.err
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
    root = laid(tmp_path, {**log, FIRST: harmed(OLD_LOG)}, queue)
    rmqstore("recover", root, "--yes", *stores.case(STORE).set_options(root))
    kept = [one for one in copies(root) if one < AFTER_OFFSET]
    assert set(kept) < set(OLD)
    assert len(kept) == len(OLD) - 1
    assert (root / "compaction" / "compactionLog" / "compact" / "0" / WRITTEN_AGAIN).is_file()


def test_one_of_several_files_was_renamed(tmp_path: Path) -> None:
    """What a compaction wrote before has names of its own, with a file of the last run between them."""
    more = offset_to_file_name(2 * LOG_SIZE)
    log, queue = built(2 * LOG_SIZE, range(13, 16))
    root = laid(tmp_path, {FIRST: OLD_LOG, more: log}, {FIRST: OLD_QUEUE, more: queue})
    before = content(root / "compaction")
    middle = root / "compaction" / "compactionLog" / "compact" / "0" / AFTER
    middle.rename(f"{middle}.delete")
    assert set(of_compaction(root)) == {"RMQ-CM-NAME", "RMQ-CM-MISMATCH"}
    assert rmqstore("recover", root, "--yes", *stores.case(STORE).set_options(root)).status == 0
    assert of_compaction(root) == []
    assert content(root / "compaction") == before


def test_files_that_fit_in_no_way_stay(tmp_path: Path) -> None:
    root = laid(tmp_path, {RENAMED: OLD_LOG}, {offset_to_file_name(2 * LOG_SIZE): OLD_QUEUE})
    before = content(root / "compaction")
    done = rmqstore("recover", root, "--yes", "--json", *stores.case(STORE).set_options(root))
    assert done.status == 1
    assert content(root / "compaction") == before
    (plan,) = (one for one in done.objects if one["type"] == "plan")
    assert any("fit in no way" in str(note) for note in plan["notes"])


# Content


BROKER = "broker-5.5.1-crash"
DAMAGES: dict[str, Callable[[Path], object]] = {
    **{name: change for name, (change, found) in CHANGES.items() if found and "without entry" not in name},
    "log removed": lambda root: shutil.rmtree((root / LOG).parent),
    "queue removed": lambda root: shutil.rmtree((root / QUEUE).parent),
    "random log": lambda root: (root / LOG).write_bytes(np.random.default_rng(3).bytes((root / LOG).stat().st_size)),
    "log of zeros": lambda root: (root / LOG).write_bytes(bytes((root / LOG).stat().st_size)),
    "short queue file": lambda root: os.truncate(root / QUEUE, 460),
    "messages taken out": lambda root: dropped(root, {60, 177, 199}),
    "every file removed": lambda root: [shutil.rmtree(root / "compaction" / tree) for tree in ("compactionLog", "compactionCq")],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_commit_log_gives_back_every_byte(damage: str, tmp_path: Path) -> None:
    """No compaction has run in this store, so its compacted log holds all messages."""
    root = fresh_store(BROKER, tmp_path)
    options = stores.case(BROKER).set_options(root)
    whole = content(root / "compaction")
    DAMAGES[damage](root)
    before = content(root)

    done = rmqstore("recover", root, "--yes", "--json", *options)

    assert done.status == 0, done.err
    after = content(root / "compaction")
    if damage == "messages taken out":  # one of them was not the newest of its key before the log was compacted
        assert sorted(after) == sorted(whole)
    else:
        assert after == whole
    found = rmqstore("verify", root, "--json", *options).objects
    assert [one["code"] for one in found if one.get("code", "").startswith("RMQ-CM")] == []
    assert rmqstore("undo", root, "--yes").status == 0
    assert {path: digest for path, digest in content(root).items() if not path.startswith(".rmqstore/")} == before


def test_what_neither_log_has_is_lost(tmp_path: Path) -> None:
    """The commit log of the store does not have the messages of this compacted log."""
    root = laid(tmp_path, {FIRST: harmed(OLD_LOG)}, {FIRST: OLD_QUEUE})
    done = rmqstore("recover", root, "--yes", "--json", *stores.case(STORE).set_options(root))
    (plan,) = (one for one in done.objects if one["type"] == "plan")
    (lost,) = plan["lost"]
    assert (lost["topic"], lost["queue_id"]) == ("compact", 0)
    assert copies(root) == [one for one in (*OLD, *LAST) if one != lost["queue_offset"]]
    assert of_compaction(root) == []
    assert (root / "compaction" / "compactionLog" / "compact" / "0" / AFTER).read_bytes() == LAST_LOG


@pytest.mark.parametrize("per_file", [7, 50])
def test_files_keep_their_names_and_what_is_sound_its_bytes(per_file: int, tmp_path: Path) -> None:
    root = fresh_store(BROKER, tmp_path)
    length = laid_out(root, per_file=per_file)
    options = stores.case(BROKER).set_options(root)
    queue_length = (per_file + 2) * UNIT_SIZE
    sizes = {"compactionMappedFileSize": length - queue_length, "compactionCqMappedFileSize": queue_length}
    options += [text for name, size in sizes.items() for text in ("--set", f"{name}={size}")]
    whole = content(root / "compaction")
    patch((root / LOG).with_name(offset_to_file_name(length)), 95, b"\xa5\x5a")

    done = rmqstore("recover", root, "--yes", "--json", *options)

    assert done.status == 0, done.err
    (plan,) = (one for one in done.objects if one["type"] == "plan")
    changed = {one["path"] for one in plan["actions"] if one["path"].startswith("compaction/")}
    assert {one for one in changed if "/compact/0/" in one} == {LOG.replace(FIRST, offset_to_file_name(length))}
    after = content(root / "compaction")
    assert {name: digest for name, digest in after.items() if "/1/" not in name} == {
        name: digest for name, digest in whole.items() if "/1/" not in name
    }


def test_files_of_another_length_are_written_from_the_start(tmp_path: Path) -> None:
    """The settings of the store give other lengths than these files have, with which no broker loads them."""
    root = fresh_store(BROKER, tmp_path)
    whole = content(root / "compaction")
    laid_out(root, per_file=50)
    done = rmqstore("recover", root, "--yes", *stores.case(BROKER).set_options(root))
    assert done.status == 0, done.err
    assert content(root / "compaction") == whole


def test_messages_that_a_kill_kept_from_queue_and_compacted_log(tmp_path: Path) -> None:
    """They are in the log alone, and after `recover` no start dispatches them: `recover` itself adds them to both."""
    root = fresh_store(BROKER, tmp_path)
    options = stores.case(BROKER).set_options(root)
    (root / "abort").touch()
    before = content(root / "compaction")
    records = records_of(root)
    end = sum(map(len, records))
    consumed = root / "consumequeue" / "compact" / "0" / offset_to_file_name(0)
    count = len(consumed.read_bytes().rstrip(b"\0")) // 20 + 1
    for path, start, size in ((root / LOG, end - len(records[-1]), len(records[-1])), (consumed, (count - 1) * 20, 20)):
        patch(path, start, bytes(size))
    patch(root / QUEUE, (len(records) - 1) * UNIT_SIZE, bytes(UNIT_SIZE))

    done = rmqstore("recover", root, "--yes", "--format", "json", *options)

    assert (done.status, done.objects[-1]["errors"], done.objects[-1]["second_plan_actions"]) == (0, {}, 0)
    assert content(root / "compaction") == before
