"""What the library says about damaged databases beside what brokers did with them, and that looking changes nothing."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from rmqstore.store.rocksdb import library
from rmqstore.store.rocksdb.databases import DatabaseUse, databases
from rmqstore.store.rocksdb.library import Place, Report, place_of, probe
from rmqstore.store.root import Store
from tests.rocksdb.bases import QUEUES, STORES, damaged_store, database_of, recorded
from tests.rocksdb.damages import DATABASE_DAMAGES
from tests.support import stores

MESSAGES = 150
CASES = [case for case in recorded("recorded-queues.jsonl") if not case["abort"]]
FUZZED = 40


def in_depth(report: Report) -> bool:
    """Whether every block of every table was read."""
    return report.failed is None and (report.refused is not None or all(family.entries is not None for family in report.families))


def _probed(root: Path) -> Report:
    return probe(database_of(root))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['base']}-{case['damage']}")
def test_the_library_says_what_the_broker_did(case: dict[str, Any], tmp_path: Path) -> None:
    """A database that is refused, or whose offsets cannot be read, stops the load; nothing else does."""
    root = damaged_store(case["base"], case["damage"], tmp_path)
    if case["damage"] == "moved-away":
        assert not Store.open(root).rocksdb_database
        return

    report = _probed(root)

    damaged = {family.name for family in report.damaged}
    refused = report.refused is not None and not report.database.starts_empty
    assert (case["load"] is False) == (refused or "offset" in damaged)
    if case["load"] is not False:
        everything = report.sound and not report.unlisted
        assert (case["messages"] == MESSAGES) or not everything
        assert not ("default" in damaged and case["messages"])
        assert case["tables_deleted"] >= len(report.unlisted)


def _fingerprint(directory: Path) -> dict[str, tuple[int, ...]]:
    """Everything of every entry that a write would change."""
    found = {}
    for path in (directory, *directory.rglob("*")):
        status = path.lstat()
        found[str(path)] = (status.st_ino, status.st_mode, status.st_nlink, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return found


@pytest.mark.parametrize("damage", DATABASE_DAMAGES)
def test_nothing_is_written(damage: str, tmp_path: Path) -> None:
    root = damaged_store("5.3.3-rocksdb", damage, tmp_path)
    before, content = _fingerprint(root), stores.content(root)

    for database in databases(Store.open(root)):
        probe(database)

    assert (_fingerprint(root), stores.content(root)) == (before, content)


@pytest.mark.parametrize("base", [*STORES, "broker-5.5.1-rocksdb-clean"])
def test_every_database_of_a_broker_is_sound(base: str) -> None:
    reports = [probe(database) for database in databases(Store.open(stores.sample_store(base)))]

    assert reports
    assert all(report.sound and in_depth(report) and not report.unlisted for report in reports)


def test_every_entry_is_read() -> None:
    report = _probed(stores.sample_store("5.3.3-rocksdb"))

    assert {family.name: family.entries for family in report.families} == {"offset": 33, "default": MESSAGES}


def test_tables_beyond_the_limit_are_not_read() -> None:
    database = database_of(stores.sample_store("5.3.3-rocksdb"))
    offsets = probe(database).families[0].bytes

    report = probe(database, offsets)

    assert [family.entries for family in report.families] == [33, None]
    assert not in_depth(report)


@pytest.mark.parametrize("seed", range(FUZZED))
def test_hostile_files_give_a_report(seed: int, tmp_path: Path) -> None:
    """Random bytes, lengths and names: the library may say anything, and says it in its own process."""
    random = Random(seed)
    directory = tmp_path / QUEUES
    shutil.copytree(stores.sample_store(random.choice(STORES)) / QUEUES, directory)
    for path in random.sample(sorted(directory.iterdir()), random.randint(1, 4)):
        data = bytearray(path.read_bytes())
        for _ in range(random.randint(1, 50)):
            if data:
                data[random.randrange(len(data))] = random.randrange(256)
        path.write_bytes(
            data[: random.randint(0, len(data))] if random.random() < 0.5 else data + random.randbytes(random.randint(0, 5000))
        )
    before = _fingerprint(directory)

    report = probe(database_of(tmp_path))

    assert report.sound or report.refused or report.damaged or report.failed
    assert _fingerprint(directory) == before


def test_a_crash_of_the_library_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crashing = tmp_path / "crashing"
    crashing.write_text("#!/bin/sh\nkill -SEGV $$\n")
    crashing.chmod(0o700)
    root = stores.fresh_store("5.3.3-rocksdb", tmp_path)
    monkeypatch.setattr(sys, "executable", str(crashing))

    report = _probed(root)

    assert report.failed == "the RocksDB library ended with SIGSEGV"
    assert not report.sound and not in_depth(report)


def test_a_library_that_does_not_end_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    endless = tmp_path / "endless"
    endless.write_text("#!/bin/sh\nexec sleep 60\n")
    endless.chmod(0o700)
    root = stores.fresh_store("5.3.3-rocksdb", tmp_path)
    monkeypatch.setattr(sys, "executable", str(endless))
    monkeypatch.setattr(library, "_SECONDS", 1)

    assert _probed(root).failed == "the RocksDB library did not finish in 1 s"


def test_a_fifo_in_place_of_a_table_is_not_opened(tmp_path: Path) -> None:
    root = damaged_store("5.3.3-rocksdb", "sst-long-missing", tmp_path)
    os.mkfifo(root / QUEUES / "000011.sst")

    refused = _probed(root).refused

    assert refused is not None and "000011.sst" in refused


def test_the_place_that_a_text_names() -> None:
    block = "Corruption: block checksum mismatch: stored = 1, computed = 2, type = 1 in queues/000011.sst offset 4232 size 913 The file x"

    assert place_of(block) == Place("000011.sst", 4232, 913)
    assert place_of("IO error: While opening a file: queues/MANIFEST-000005: No such") == Place("MANIFEST-000005")
    assert place_of("Corruption: CURRENT file does not end with newline") == Place("CURRENT")
    assert place_of("something else") is None


def test_where_databases_are(tmp_path: Path) -> None:
    root = stores.sample_store("broker-5.5.1-rocksdb-clean")

    found = {database.directory.relative_to(root).as_posix(): database.use for database in databases(Store.open(root))}

    assert found == {
        "consumequeue": DatabaseUse.QUEUES,
        "config/topics": DatabaseUse.CONFIGURATION,
        "config/subscriptionGroups": DatabaseUse.CONFIGURATION,
        "config/consumerOffsets": DatabaseUse.CONFIGURATION,
        "rocksdbstore": DatabaseUse.MESSAGES,
    }
