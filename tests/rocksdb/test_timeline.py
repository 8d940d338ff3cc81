"""Timed messages in RocksDB: those that wait are listed and verified, in a store of a whole broker 5.5.1 with timerRocksDBEnable."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from rocksdict import Options, Rdict

from rmqstore.formats.rocksdb import DELIVERED_KEY, SCANNED_KEY, TIMELINE_ENTRY, TIMELINE_KEY
from rmqstore.reading.rocksdb.timeline import timeline_of
from rmqstore.store.root import Store
from tests.broker.busy import SIZES
from tests.support.cli import Run, rmqstore

STORES = Path(__file__).parent / "stores"
SETTINGS = {**SIZES, "timerRocksDBEnable": "true", "indexRocksDBEnable": "true", "transRocksDBEnable": "true"}
OPTIONS = tuple(word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}"))


def unpacked(name: str, directory: Path, release: str = "5.5.1-messages") -> Path:
    subprocess.run(["tar", "xJf", STORES / f"{release}-{name}.tar.xz", "-C", directory], check=True)
    return directory / "store"


def changed(root: Path, changes: dict[bytes, bytes | None], family_name: str = "timer") -> None:
    """Puts or deletes keys of a column family."""
    raw = Options(raw_mode=True)
    families = {name: Options(raw_mode=True) for name in Rdict.list_cf(str(root / "rocksdbstore"), raw)}
    database = Rdict(str(root / "rocksdbstore"), raw, column_families=families)
    family = database.get_column_family(family_name)
    for key, value in changes.items():
        if value is None:
            family.delete(key)
        else:
            family.put(key, value)
    family.flush()
    del family
    database.close()
    (root / "rocksdbstore" / "rocksdict-config.json").unlink(missing_ok=True)


def findings(root: Path) -> list[dict[str, Any]]:
    run = rmqstore("verify", root, *OPTIONS, "--part", "timer", "--format", "json")
    assert not run.crashed, run.err
    return [one for one in run.objects if one["type"] == "finding" and one["code"] == "RMQ-RD-TIMER"]


def timers(root: Path) -> Run:
    return rmqstore("timers", root, *OPTIONS, "--format", "json")


@pytest.mark.parametrize("name", ["clean", "crash"])
def test_a_store_of_a_broker_has_no_finding(name: str, tmp_path: Path) -> None:
    root = unpacked(name, tmp_path)
    run = rmqstore("verify", root, *OPTIONS, "--format", "json")
    assert findings(root) == []
    assert run.objects[-1]["errors"] == 0
    assert run.objects[-1]["not_checked"] == []


def test_only_messages_that_wait_are_listed(tmp_path: Path) -> None:
    """Entries of delivered messages stay in the database; until 0.2.0 the whole queue of the timer was listed as overdue."""
    root = unpacked("clean", tmp_path)
    timeline = timeline_of(Store.open(root, settings=SETTINGS))
    assert timeline is not None and timeline.delivered is not None
    listed = [one for one in timers(root).objects if one["kind"] == "timer"]
    assert {one["unique_key"] for one in listed} == {entry.unique_key for entry in timeline.entries if entry.due > timeline.delivered}
    assert 0 < len(listed) < len(timeline.entries)


def test_damages_have_their_findings(tmp_path: Path) -> None:
    root = unpacked("clean", tmp_path)
    timeline = timeline_of(Store.open(root, settings=SETTINGS))
    assert timeline is not None
    gone, moved, *_ = timeline.pending
    key = {one: TIMELINE_KEY.build({"deliver_timestamp": one.due, "unique_key": one.unique_key.encode()}) for one in (gone, moved)}
    entry = TIMELINE_ENTRY.build({"size": moved.size, "physical_offset": moved.physical_offset + 8})
    changed(root, {key[gone]: None, key[moved]: entry})

    found = findings(root)

    assert [(one["offset"], one["count"]) for one in found] == [(moved.physical_offset + 8, 1), (gone.physical_offset, 1)]
    assert moved.unique_key in found[0]["message"] and gone.unique_key in found[1]["message"]
    assert "no record begins at offset" in json.dumps(found[0])


def test_reading_after_the_end_of_the_queue_is_an_error(tmp_path: Path) -> None:
    root = unpacked("clean", tmp_path)
    changed(root, {SCANNED_KEY: (10_000).to_bytes(8, "big"), DELIVERED_KEY: (2**62).to_bytes(8, "big")})
    [one] = findings(root)
    assert (one["found"], one["topic"]) == (10_000, "rmq_sys_wheel_timer")
