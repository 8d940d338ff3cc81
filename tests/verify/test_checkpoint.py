"""The checkpoint against the log (fact sheet commit log §4.5, sheet of the newer releases §6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqstore.findings import Severity
from rmqstore.verify.parts import checkpoint
from tests.support import stores
from tests.support.builder import StoreBuilder
from tests.verify.one_check import codes, only, patch, run

PHYSIC, LOGICS, INDEX, CONFIRM, LOGICS_OFFSET, RESERVED = 0, 8, 16, 32, 40, 48
LAST = 1_700_000_100_000


def given_store(root: Path, **fields: int) -> StoreBuilder:
    """Three records of 200 s, stopped cleanly; `fields` are longs of the checkpoint by the names above."""
    builder = StoreBuilder(root, log_file_size=4096)
    for time in (LAST - 200_000, LAST - 100_000, LAST):
        builder.message(store_timestamp=time, body=bytes(100))
    builder.build()
    for name, value in fields.items():
        patch(root / "checkpoint", globals()[name], value.to_bytes(8, "big", signed=True))
    return builder


def starts(root: Path) -> list[int]:
    """Physical offsets of the records: they follow each other, each begins with its size."""
    data = max((root / "commitlog").iterdir()).read_bytes()
    found = [0]
    while size := int.from_bytes(data[found[-1] : found[-1] + 4], "big"):
        found.append(found[-1] + size)
    return found[:-1]


def test_a_clean_stop_gives_nothing(tmp_path: Path) -> None:
    given_store(tmp_path)
    assert run(checkpoint, tmp_path) == []


def test_missing(tmp_path: Path) -> None:
    given_store(tmp_path)
    (tmp_path / "checkpoint").unlink()
    assert only(run(checkpoint, tmp_path), "RMQ-CP-MISSING").severity is Severity.WARNING


def test_a_directory_in_its_place(tmp_path: Path) -> None:
    given_store(tmp_path)
    (tmp_path / "checkpoint").unlink()
    (tmp_path / "checkpoint").mkdir()
    assert codes(run(checkpoint, tmp_path)) == {"RMQ-ST-KIND": 1}


@pytest.mark.parametrize("length", [0, 20, 8192])
def test_length(length: int, tmp_path: Path) -> None:
    given_store(tmp_path)
    data = (tmp_path / "checkpoint").read_bytes()
    (tmp_path / "checkpoint").write_bytes(data[:length].ljust(length, b"\0"))
    found = only(run(checkpoint, tmp_path), "RMQ-CP-LENGTH")
    assert (found.expected, found.found) == (4096, length)


@pytest.mark.parametrize("field", ["PHYSIC", "LOGICS", "INDEX"])
def test_a_time_after_the_last_message(field: str, tmp_path: Path) -> None:
    given_store(tmp_path, **{field: LAST + 1})
    found = only(run(checkpoint, tmp_path), "RMQ-CP-AHEAD")
    assert (found.position, found.length, found.expected, found.found) == (globals()[field], 8, LAST, LAST + 1)


@pytest.mark.parametrize("field", ["PHYSIC", "LOGICS"])
@pytest.mark.parametrize(("lag", "expected"), [(10_000, 0), (60_000, 1), (LAST, 1)])
def test_times_advance_every_ten_seconds(field: str, lag: int, expected: int, tmp_path: Path) -> None:
    given_store(tmp_path, **{field: LAST - lag})
    found = [one for one in run(checkpoint, tmp_path) if one.code == "RMQ-CP-BEHIND"]
    assert [one.position for one in found] == [globals()[field]] * expected


def test_from_5_5_on_the_queue_time_may_be_a_minute_old(tmp_path: Path) -> None:
    given_store(tmp_path, LOGICS=LAST - 60_000)
    patch(tmp_path / "checkpoint", LOGICS_OFFSET, starts(tmp_path)[1].to_bytes(8, "big"))
    assert run(checkpoint, tmp_path) == []


def test_behind_is_information_only_after_a_crash(tmp_path: Path) -> None:
    given_store(tmp_path, PHYSIC=0)
    assert only(run(checkpoint, tmp_path), "RMQ-CP-BEHIND").severity is Severity.WARNING
    (tmp_path / "abort").write_bytes(b"")
    assert only(run(checkpoint, tmp_path), "RMQ-CP-BEHIND").severity is Severity.INFO


@pytest.mark.parametrize("field", ["PHYSIC", "LOGICS", "INDEX", "LOGICS_OFFSET"])
def test_a_negative_field(field: str, tmp_path: Path) -> None:
    given_store(tmp_path, **{field: -2})
    found = only(run(checkpoint, tmp_path), "RMQ-CP-INVALID")
    assert (found.position, found.severity) == (globals()[field], Severity.ERROR)


def test_bytes_that_every_release_leaves_zero(tmp_path: Path) -> None:
    given_store(tmp_path)
    patch(tmp_path / "checkpoint", 4000, b"\7")
    found = only(run(checkpoint, tmp_path), "RMQ-CP-INVALID")
    assert (found.position, found.expected, found.found) == (4000, 0, 7)


@pytest.mark.parametrize("position", [CONFIRM, LOGICS_OFFSET])
def test_offsets_are_starts_of_records(position: int, tmp_path: Path) -> None:
    given_store(tmp_path)
    first, second, third = starts(tmp_path)
    for sound in (first, second, third):
        patch(tmp_path / "checkpoint", position, sound.to_bytes(8, "big"))
        assert run(checkpoint, tmp_path) == []
    for unsound in (second + 1, third - 1, 4000, 1 << 40):
        patch(tmp_path / "checkpoint", position, unsound.to_bytes(8, "big"))
        found = only(run(checkpoint, tmp_path), "RMQ-CP-OFFSET")
        assert (found.position, found.offset) == (position, unsound)


def test_an_offset_before_the_log_has_expired(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path, log_file_size=4096, first_offset=8192)
    builder.message(store_timestamp=LAST).build()
    patch(tmp_path / "checkpoint", LOGICS_OFFSET, (5000).to_bytes(8, "big"))
    assert run(checkpoint, tmp_path) == []


def test_index_files_that_the_next_start_deletes() -> None:
    """A 5.5.1 message store deleted this file, and kept the one before that ends at the index time, when it was started on the store."""
    case = stores.case("5.5.1-plain-crash")
    root = stores.sample_store("5.5.1-plain-crash")
    found = only(run(checkpoint, root, case.settings(root)), "RMQ-CP-INDEX")
    assert "deletes 1 of 3 index files: 20261121094218514" in found.message
    assert found.severity is Severity.INFO


def test_no_index_file_ends_after_the_index_time() -> None:
    """A 5.4.0 message store deleted none when it was started on this store."""
    case = stores.case("5.4.0-plain-crash")
    root = stores.sample_store("5.4.0-plain-crash")
    assert "RMQ-CP-INDEX" not in codes(run(checkpoint, root, case.settings(root)))


def test_noise_is_one_kind_of_finding(tmp_path: Path) -> None:
    given_store(tmp_path)
    (tmp_path / "checkpoint").write_bytes(bytes(range(255, 127, -1)) * 32)
    assert set(codes(run(checkpoint, tmp_path))) == {"RMQ-CP-INVALID"}
