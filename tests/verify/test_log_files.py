"""Findings about the files of the commit log: ends of files, the end of the log, missing and foreign files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from rmqstore.findings import Severity
from rmqstore.store.root import Store
from rmqstore.verify.engine import verify
from tests.support import stores
from tests.support.builder import FIRST_TIMESTAMP, StoreBuilder
from tests.verify.small_stores import SIZE, codes, filled, log_name, patch, place, verified

FILE = 500  # four records and a BLANK of 36 bytes
BLANK = 4 * SIZE
WHERE = ("file", "position", "length", "offset")


def test_a_blank_that_does_not_tell_the_bytes_left(tmp_path: Path) -> None:
    builder = filled(StoreBuilder(tmp_path, log_file_size=FILE), 9)
    patch(builder.build() / log_name(), BLANK, (7).to_bytes(4, "big"))

    (finding,) = verified(builder)

    assert place(finding, *WHERE, "expected", "found") == ("CL-BLANK", log_name(), BLANK, 8, BLANK, FILE - BLANK, 7)


def test_a_blank_in_front_of_records(tmp_path: Path) -> None:
    builder = filled(StoreBuilder(tmp_path), 6)
    patch(builder.build() / log_name(), SIZE + 4, b"\xcb\xd4\x31\x94")

    first, second = verified(builder)

    assert place(first, *WHERE) == ("CL-BLANK", log_name(), SIZE, SIZE, SIZE)
    assert place(second, "queue_offset") == ("CQ-LOST", 1)


def test_a_file_without_blank(tmp_path: Path) -> None:
    builder = filled(StoreBuilder(tmp_path, log_file_size=FILE), 9)
    patch(builder.build() / log_name(FILE), BLANK, bytes(8))

    (finding,) = verified(builder)

    assert place(finding, *WHERE) == ("CL-NOBLANK", log_name(FILE), BLANK, FILE - BLANK, FILE + BLANK)


def test_the_last_file_needs_no_blank(tmp_path: Path) -> None:
    builder = filled(StoreBuilder(tmp_path, log_file_size=FILE), 8)
    builder.build()

    assert verified(builder) == []


# The end of the log

END = 4 * SIZE


def end(tmp_path: Path, injure: Callable[[bytearray], None], *, crashed: bool = False) -> StoreBuilder:
    """Four records, what follows them (and they themselves) changed by `injure`."""
    builder = filled(StoreBuilder(tmp_path), 4)
    path = (builder.crash() if crashed else builder).build() / log_name()
    data = bytearray(path.read_bytes())
    injure(data)
    path.write_bytes(data)
    return builder


@pytest.mark.parametrize("left", [1, 4, 8, 30, 60, SIZE - 30])
def test_a_record_of_which_only_the_beginning_is_there(tmp_path: Path, left: int) -> None:
    def tear(data: bytearray) -> None:
        data[END - SIZE + left : END] = bytes(SIZE - left)

    findings = verified(end(tmp_path, tear))
    torn = findings[0]

    written = len(filled(StoreBuilder(tmp_path / "whole"), 4).log[0][END - SIZE : END - SIZE + left].rstrip(b"\0"))
    if written == 0:  # TOTALSIZE begins with zeros: nothing of the record can be seen
        assert "CL-TORN" not in codes(findings)
    else:
        assert place(torn, *WHERE) == ("CL-TORN", log_name(), END - SIZE, written, END - SIZE)
        assert torn.severity is Severity.ERROR
    assert {"CQ-BEYOND", "IX-BEYOND"} <= set(codes(findings))


def test_a_torn_record_is_normal_after_a_crash(tmp_path: Path) -> None:
    def tear(data: bytearray) -> None:
        data[END - 40 : END] = bytes(40)

    findings = verified(end(tmp_path, tear, crashed=True))

    assert not [finding for finding in findings if finding.severity is Severity.ERROR]
    assert place(next(f for f in findings if f.code == "RMQ-CL-TORN"), "severity", "offset") == ("CL-TORN", Severity.WARNING, END - SIZE)


def test_bytes_that_are_no_record_behind_the_log(tmp_path: Path) -> None:
    def scribble(data: bytearray) -> None:
        data[END : END + 80] = b"garbage!" * 10

    (finding,) = verified(end(tmp_path, scribble))

    assert place(finding, *WHERE) == ("CL-TAILBYTES", log_name(), END, 80, END)


def test_older_records_behind_the_log(tmp_path: Path) -> None:
    old = filled(StoreBuilder(tmp_path / "old"), 9, store_timestamp=FIRST_TIMESTAMP - 9_000_000).log[0]

    def leave(data: bytearray) -> None:
        # the record that was written over an old one ends inside of it
        data[END + 50 : 8 * SIZE] = old[END + 50 : 8 * SIZE]

    (finding,) = verified(end(tmp_path, leave))

    assert place(finding, *WHERE) == ("CL-STALE", log_name(), END, 4 * SIZE, END)
    assert finding.severity is Severity.WARNING


def test_a_record_of_another_place_behind_the_log(tmp_path: Path) -> None:
    def copy(data: bytearray) -> None:
        data[END : END + SIZE] = data[SIZE : 2 * SIZE]

    (finding,) = verified(end(tmp_path, copy))

    assert place(finding, *WHERE) == ("CL-STALE", log_name(), END, SIZE, END)


def test_newer_records_behind_zeros_belong_to_the_log(tmp_path: Path) -> None:
    def lose(data: bytearray) -> None:
        data[SIZE : 2 * SIZE] = bytes(SIZE)

    assert codes(verified(end(tmp_path, lose))) == ["CL-DAMAGE", "CQ-LOST"]


def test_a_zero_file_behind_the_log(tmp_path: Path) -> None:
    builder = filled(StoreBuilder(tmp_path, log_file_size=FILE), 4)
    (builder.build() / log_name(FILE)).write_bytes(bytes(FILE))

    (finding,) = verified(builder)

    assert place(finding, *WHERE, "severity") == ("CL-PREALLOC", log_name(FILE), 0, FILE, FILE, Severity.ERROR)


def test_a_crash_leaves_a_zero_file(tmp_path: Path) -> None:
    builder = filled(StoreBuilder(tmp_path), 4)
    builder.crash().build()

    told = {finding.code: finding.severity for finding in verified(builder)}

    assert told["RMQ-CL-PREALLOC"] is Severity.INFO
    assert Severity.ERROR not in told.values()


# Files


@pytest.fixture
def three_files(tmp_path: Path) -> StoreBuilder:
    """Three files of four records each."""
    builder = filled(StoreBuilder(tmp_path, log_file_size=FILE), 9)
    filled(builder, 3, keys="kx")
    builder.build()
    return builder


def test_a_missing_file_in_the_middle(three_files: StoreBuilder) -> None:
    (three_files.root / log_name(FILE)).unlink()

    gap, lost = verified(three_files)

    assert place(gap, "file", "length", "offset", "expected", "found") == ("CL-GAP", log_name(2 * FILE), FILE, FILE, FILE, 2 * FILE)
    assert place(lost, "queue_offset", "length", "offset") == ("CQ-LOST", 4, 80, FILE)


def test_a_missing_first_file_has_expired(three_files: StoreBuilder) -> None:
    (three_files.root / log_name()).unlink()

    (finding,) = verified(three_files)

    assert place(finding, "queue_offset", "length", "severity") == ("CQ-EXPIRED", 0, 80, Severity.INFO)


def test_a_missing_last_file(three_files: StoreBuilder) -> None:
    (three_files.root / log_name(2 * FILE)).unlink()

    told = {finding.code.removeprefix("RMQ-"): finding for finding in verified(three_files)}

    assert place(told["CQ-BEYOND"], "queue_offset", "length", "offset") == ("CQ-BEYOND", 8, 80, 2 * FILE)
    assert place(told["IX-BEYOND"], "offset") == ("IX-BEYOND", 2 * FILE)
    assert not [code for code in told if code.startswith("CL-")]


def test_a_file_of_zeros_in_the_middle(three_files: StoreBuilder) -> None:
    (three_files.root / log_name(FILE)).write_bytes(bytes(FILE))

    zero, lost = verified(three_files)

    assert place(zero, *WHERE) == ("CL-ZEROFILE", log_name(FILE), 0, FILE, FILE)
    assert place(lost, "queue_offset", "length") == ("CQ-LOST", 4, 80)


def test_a_cut_file(three_files: StoreBuilder) -> None:
    path = three_files.root / log_name(2 * FILE)
    path.write_bytes(path.read_bytes()[:-10])

    (finding,) = verified(three_files)

    assert place(finding, "file", "expected", "found") == ("CL-FILELEN", log_name(2 * FILE), FILE, FILE - 10)


def test_a_file_that_is_too_long_is_read_as_far_as_brokers_read_it(three_files: StoreBuilder) -> None:
    path = three_files.root / log_name(FILE)
    path.write_bytes(path.read_bytes() + b"more than a broker maps")

    (finding,) = verified(three_files)

    assert place(finding, "file", "expected", "found") == ("CL-FILELEN", log_name(FILE), FILE, FILE + 23)


def test_an_empty_file(three_files: StoreBuilder) -> None:
    (three_files.root / log_name(3 * FILE)).touch()

    (finding,) = verified(three_files)

    assert place(finding, "file") == ("CL-ZEROLEN", log_name(3 * FILE))


def test_overlapping_files(three_files: StoreBuilder) -> None:
    shutil.copy(three_files.root / log_name(2 * FILE), three_files.root / log_name(2 * FILE + 100))

    assert "CL-OVERLAP" in codes(verified(three_files))


def test_a_copy_of_a_file_under_a_later_name(three_files: StoreBuilder) -> None:
    shutil.copy(three_files.root / log_name(), three_files.root / log_name(3 * FILE))

    (finding,) = verified(three_files)

    assert place(finding, "file", "position", "length") == ("CL-STALE", log_name(3 * FILE), 0, 4 * SIZE)


def test_a_copy_of_a_file_in_the_middle(three_files: StoreBuilder) -> None:
    shutil.copy(three_files.root / log_name(), three_files.root / log_name(FILE))

    (displaced,) = [finding for finding in verified(three_files) if finding.code == "RMQ-CL-MOVED"]

    assert place(displaced, "offset", "length", "expected", "found") == ("CL-MOVED", FILE, 4 * SIZE, FILE, 0)


def test_queues_without_log(three_files: StoreBuilder) -> None:
    shutil.rmtree(three_files.root / "commitlog")

    assert "CL-EMPTY" in codes(verified(three_files))


def test_displaced_records_that_are_too_many_to_keep_are_told(three_files: StoreBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqstore.scan.walk.BATCH", 1)
    monkeypatch.setattr("rmqstore.verify.log.live._HELD_RECORDS", 2)
    shutil.copy(three_files.root / log_name(), three_files.root / log_name(FILE))

    findings = verified(three_files)

    *told, last = [finding for finding in findings if finding.code == "RMQ-CL-PHYOFFSET"]
    assert [finding.offset for finding in told] == [FILE, FILE + SIZE]
    assert place(last, "offset", "length") == ("CL-PHYOFFSET", FILE + 2 * SIZE, 2 * SIZE)
    assert last.message.startswith("2 more records")


@pytest.mark.parametrize("files", [1, 3])
def test_a_log_of_random_bytes_is_no_sound_log(files: int, tmp_path: Path) -> None:
    noise = Random(1)
    (tmp_path / "commitlog").mkdir()
    for number in range(files):
        (tmp_path / "commitlog" / f"{number * 65536:020d}").write_bytes(noise.randbytes(65536))
    found = {finding.code for finding in verify(Store.open(tmp_path)) if finding.severity is Severity.ERROR}
    assert found == ({"RMQ-CL-NORECORD"} if files == 1 else {"RMQ-CL-MAGIC"})


def test_a_log_under_a_wrong_name_is_no_sound_log(tmp_path: Path) -> None:
    sample = sorted((stores.sample_store("5.3.3-plain") / "commitlog").iterdir())[1]
    (tmp_path / "commitlog").mkdir()
    shutil.copy(sample, tmp_path / "commitlog" / f"{0:020d}")
    assert "RMQ-CL-NORECORD" in {finding.code for finding in verify(Store.open(tmp_path)) if finding.severity is Severity.ERROR}


def test_a_first_record_that_was_torn_is_what_a_crash_leaves(tmp_path: Path) -> None:
    StoreBuilder(tmp_path).message("TopicA", b"x" * 1000).build()
    (log,) = (tmp_path / "commitlog").iterdir()
    with log.open("r+b") as stream:
        stream.seek(500)
        stream.write(bytes(1000))
    assert {finding.code for finding in verify(Store.open(tmp_path)) if finding.code.startswith("RMQ-CL-")} == {"RMQ-CL-TORN"}
