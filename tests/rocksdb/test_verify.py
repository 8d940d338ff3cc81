"""Findings about RocksDB databases: code, severity and place for each damage, and none on sound stores."""

from __future__ import annotations

import fcntl
import shutil
from pathlib import Path

import pytest

from rmqstore.findings import Finding, Severity
from rmqstore.store.root import Store
from rmqstore.verify.context import Context, Options
from rmqstore.verify.parts import rocksdb
from rmqstore.verify.unchecked import not_checked
from tests.rocksdb.bases import QUEUES, STORES, damaged_store, unpack_database
from tests.rocksdb.damages import DATABASE_DAMAGES, STEPS, WAL_DAMAGES
from tests.support import stores
from tests.support.verifying import verify

SOUND = (
    *("intact", "manifest-noise-behind", "options-missing", "options-noise"),
    *("identity-missing", "lock-missing", "wal-missing", "wal-noise"),
)
REFUSED = ("manifest-missing", "manifest-empty", "manifest-flip-03", "sst-all-missing", "sst-short-short")


def _found(root: Path, **settings: str) -> list[Finding]:
    return list(rocksdb.check(Context(Store.open(root, settings=settings), Options())))


def _codes(findings: list[Finding]) -> list[tuple[str, Severity]]:
    return [(finding.code, finding.severity) for finding in findings]


@pytest.mark.parametrize("base", STORES)
@pytest.mark.parametrize("damage", SOUND)
def test_no_finding_where_nothing_is_lost(base: str, damage: str, tmp_path: Path) -> None:
    assert _found(damaged_store(base, damage, tmp_path)) == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("base", STORES)
def test_every_flipped_bit_is_found_but_in_the_bloom_filter(base: str, tmp_path: Path) -> None:
    """Brokers serve every message with a damaged filter, too (recorded-queues.jsonl)."""
    silent = [
        damage
        for damage in (f"sst-{name}-flip-{step:02}" for name in ("long", "short") for step in range(STEPS))
        if not _found(damaged_store(base, damage, tmp_path / damage))
    ]

    assert silent == ["sst-long-flip-12"]


@pytest.mark.parametrize("base", STORES)
@pytest.mark.parametrize(
    ("damage", "code"),
    [
        *((damage, "RMQ-RD-OPEN") for damage in DATABASE_DAMAGES if damage.startswith("current-")),
        *((damage, "RMQ-RD-OPEN") for damage in REFUSED),
        ("sst-long-noise", "RMQ-RD-BLOCK"),
        ("sst-short-noise", "RMQ-RD-BLOCK"),
        ("manifest-half", "RMQ-RD-UNLISTED"),
        ("sst-stray", "RMQ-RD-UNLISTED"),
        ("moved-away", "RMQ-RD-NEW"),
    ],
)
def test_an_error_where_something_is_lost(base: str, damage: str, code: str, tmp_path: Path) -> None:
    found = _found(damaged_store(base, damage, tmp_path))

    assert _codes(found) == [(code, Severity.ERROR)]
    assert found[0].file is not None and found[0].file.startswith(QUEUES)


@pytest.mark.parametrize(
    ("damage", "codes"),
    [
        ("intact", []),
        ("wal-missing", []),
        ("wal-half", []),
        ("wal-short", []),
        *((damage, [("RMQ-RD-WAL", Severity.ERROR)]) for damage in WAL_DAMAGES if damage not in ("wal-half", "wal-short")),
    ],
)
def test_damage_inside_of_a_write_ahead_log(damage: str, codes: list[tuple[str, Severity]], tmp_path: Path) -> None:
    """A log that ends early looks as a crash leaves it."""
    root = stores.fresh_store("5.3.3-rocksdb", tmp_path)
    unpack_database("topics-wal", root / "config")
    (DATABASE_DAMAGES | WAL_DAMAGES)[damage](root / "config" / "topics")

    assert _codes(_found(root)) == codes


def test_the_place_of_a_damaged_block(tmp_path: Path) -> None:
    (found,) = _found(damaged_store("5.3.3-rocksdb", "sst-long-flip-03", tmp_path))

    assert (found.file, found.position, found.length) == ("consumequeue/000011.sst", 0, 3846)
    assert "block checksum mismatch" in found.message


def test_tables_that_are_not_listed_are_a_warning_after_a_crash(tmp_path: Path) -> None:
    root = damaged_store("5.3.3-rocksdb", "sst-stray", tmp_path)
    (root / "abort").touch()

    assert _codes(_found(root)) == [("RMQ-RD-UNLISTED", Severity.WARNING)]


def test_a_missing_database_is_a_note_where_the_next_start_builds_it(tmp_path: Path) -> None:
    root = damaged_store("5.3.3-rocksdb", "moved-away", tmp_path)
    (root / "abort").touch()

    assert _codes(_found(root)) == [("RMQ-RD-NEW", Severity.INFO)]


def test_a_start_that_does_not_reach_the_first_file(tmp_path: Path) -> None:
    root = stores.fresh_store("5.5.1-manyfiles", tmp_path)
    shutil.rmtree(root / QUEUES)
    (root / "abort").touch()

    found = _found(root, storeType="defaultRocksDB")
    reaching = _found(root, storeType="defaultRocksDB", commitLogRecoverMaxNum="19")

    assert _codes(found) == [("RMQ-RD-NEW", Severity.INFO), ("RMQ-RD-REACH", Severity.ERROR)]
    assert (found[1].expected, found[1].found) == (19, 10)
    assert _codes(reaching) == [("RMQ-RD-NEW", Severity.INFO)]


@pytest.mark.parametrize(
    ("setting", "table", "codes"),
    [("false", False, []), ("false", True, ["RMQ-RD-UNUSED"]), ("true", False, ["RMQ-RD-OPEN"]), ("true", True, ["RMQ-RD-OPEN"])],
)
def test_the_database_of_switched_off_features(setting: str, table: bool, codes: list[str], tmp_path: Path) -> None:
    """A whole broker of 5.5.1 starts on it (recorded-brokers.jsonl)."""
    root = damaged_store("5.5.1-rocksdb", "manifest-missing", tmp_path, "rocksdbstore")
    if table:
        (root / "rocksdbstore" / "000010.sst").write_bytes(b"table")

    assert [finding.code for finding in _found(root, timerRocksDBEnable=setting)] == codes


def test_a_database_that_a_broker_has_open_is_not_looked_at(tmp_path: Path) -> None:
    root = damaged_store("5.3.3-rocksdb", "sst-stray", tmp_path)

    with (root / "lock").open("r+b") as held:
        fcntl.lockf(held, fcntl.LOCK_EX)
        found = _found(root)
        (unchecked,) = not_checked(Context(Store.open(root), Options()))

    assert found == []
    assert (unchecked.area, "has the RocksDB database open" in unchecked.reason) == ("RocksDB queues", True)


def test_the_database_is_part_of_a_verification(tmp_path: Path) -> None:
    root = damaged_store("5.3.3-rocksdb", "manifest-missing", tmp_path)

    assert "RMQ-RD-OPEN" in {finding.code for finding in verify(root)}
    assert "RMQ-RD-OPEN" not in {finding.code for finding in verify(root, parts=["commitlog"])}
