"""Bytes of the log at wrong places: named by verification, and moved to where they belong, never over sound records."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqstore.formats.naming import offset_to_file_name
from rmqstore.repair.plan.model import Doubt
from rmqstore.repair.transaction.folder import transactions
from rmqstore.verify.engine import verify
from tests.repair.recovering import Damaged, messages_of
from tests.support import stores
from tests.support.cli import rmqstore

PLAIN, SMALL = "5.3.3-plain", "5.5.1-manyfiles"
Harm = Callable[[Path], None]
"""Damages the directory of a log."""


def log_files(log: Path) -> list[Path]:
    return sorted(path for path in log.iterdir() if path.is_file() and path.stat().st_size)


def exchange(one: Path, other: Path) -> None:
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def exchanged_files(first: int, second: int) -> Harm:
    def harm(log: Path) -> None:
        files = log_files(log)
        exchange(files[first], files[second])

    return harm


def renamed_file(number: int, name: Callable[[Path], str]) -> Harm:
    def harm(log: Path) -> None:
        file = log_files(log)[number]
        file.rename(file.with_name(name(file)))

    return harm


def exchanged_blocks(file: int, at: int, other: int, other_at: int, size: int) -> Harm:
    def harm(log: Path) -> None:
        files = log_files(log)
        one, two = bytearray(files[file].read_bytes()), bytearray(files[other].read_bytes())
        if file == other:
            two = one
        one[at : at + size], two[other_at : other_at + size] = two[other_at : other_at + size], one[at : at + size]
        files[file].write_bytes(one)
        files[other].write_bytes(two)

    return harm


def lost_sector(number: int, at: int) -> Harm:
    def harm(log: Path) -> None:
        file = log_files(log)[number]
        data = bytearray(file.read_bytes())
        del data[at : at + 512]
        file.write_bytes(data + bytes(512))

    return harm


def inserted_sector(number: int, at: int) -> Harm:
    def harm(log: Path) -> None:
        file = log_files(log)[number]
        data = bytearray(file.read_bytes())
        data[at:at] = os.urandom(512)
        file.write_bytes(data[: -512 or None])

    return harm


def copied_beside(number: int, *, lost: bool) -> Harm:
    def harm(log: Path) -> None:
        file = log_files(log)[number]
        shutil.copy2(file, file.with_name(file.name + ".bak"))
        if lost:
            file.write_bytes(bytes(file.stat().st_size))

    return harm


def into_directory(*numbers: int) -> Harm:
    def harm(log: Path) -> None:
        (log / "old" / "backup").mkdir(parents=True)
        files = log_files(log)
        for number in numbers:
            files[number].rename(log / "old" / "backup" / files[number].name)

    return harm


def lost_sector_without_queues(log: Path) -> None:
    """Its first record loses the end of its properties, which no checksum covers: the next one but one begins inside of what is there."""
    lost_sector(0, 25088)(log)
    shutil.rmtree(log.with_name("consumequeue"))
    shutil.rmtree(log.with_name("index"))


def both(*harms: Harm) -> Harm:
    def harm(log: Path) -> None:
        for one in harms:
            one(log)

    return harm


# name: (base store, harm, whether the log comes back byte for byte)
WHOLE: dict[str, tuple[str, Harm]] = {
    "two files exchanged": (PLAIN, exchanged_files(1, 3)),
    "the first and the last file exchanged": (PLAIN, exchanged_files(0, -1)),
    "both files exchanged, then pages of them": ("4.9.8-lmq", both(exchanged_files(0, 1), exchanged_blocks(0, 40960, 1, 28672, 4096))),
    "sectors exchanged and a backup beside": (PLAIN, both(copied_beside(1, lost=False), exchanged_blocks(1, 15360, 1, 8192, 512))),
    "a name that is no offset of a file": (PLAIN, renamed_file(2, lambda file: offset_to_file_name(int(file.name) + 1))),
    "a name beyond the end of the log": (PLAIN, renamed_file(1, lambda file: offset_to_file_name(int(file.name) + (20 << 16)))),
    "the name of a backup": (PLAIN, renamed_file(2, lambda file: f"{file.name}.bak")),
    "the first file under another name": (SMALL, renamed_file(0, lambda file: "first")),
    "pages of one file exchanged": (PLAIN, exchanged_blocks(0, 4096, 0, 32768, 4096)),
    "pages of two files exchanged": (SMALL, exchanged_blocks(11, 4096, 14, 4096, 4096)),
    "sectors whose exchange leaves a record valid with bytes of another": ("4.9.8-lmq", exchanged_blocks(0, 46080, 1, 15872, 512)),
    "sectors of one file exchanged": ("4.9.8-lmq", exchanged_blocks(0, 4096, 0, 32256, 512)),
    "a file in a directory below": (PLAIN, into_directory(2)),
    "the first and the last file in a directory below": (PLAIN, into_directory(0, -1)),
    "all files in a directory below": (PLAIN, into_directory(0, 1, 2, 3, 4)),
    "a backup beside": (PLAIN, copied_beside(2, lost=False)),
    "a backup beside a file of zeros": (PLAIN, copied_beside(2, lost=True)),
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("harmed", WHOLE)
def test_what_is_there_in_another_place_comes_back_whole(harmed: str, tmp_path: Path) -> None:
    base, harm = WHOLE[harmed]
    store = Damaged(base, stores.fresh_store(base, tmp_path))
    log = store.root / "commitlog"
    before = {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in log_files(log)}
    harm(log)

    result = store.recover()

    assert (result.errors, result.left, result.plan.lost) == ({}, 0, ())
    assert {file.name: file.read_bytes() for file in log_files(log)} == {name: data for name, (data, _) in before.items()}
    if harmed in ("two files exchanged", "the first and the last file exchanged"):
        assert {file.name: file.stat().st_mtime_ns for file in log_files(log)} == {name: time for name, (_, time) in before.items()}


PARTLY: dict[str, tuple[str, Harm]] = {
    "a lost sector": (PLAIN, lost_sector(1, 16896)),
    "a lost sector of the last file": (PLAIN, lost_sector(-1, 8192)),
    "an inserted sector": (PLAIN, inserted_sector(0, 11776)),
    "sectors exchanged": (PLAIN, exchanged_blocks(1, 33280, 4, 15360, 512)),
    "a lost sector and no queues": ("5.3.3-schedule", lost_sector_without_queues),
    "an inserted sector in one of two exchanged files": (PLAIN, both(inserted_sector(1, 11776), exchanged_files(1, 2))),
    "a file copied over another": (PLAIN, lambda log: shutil.copy2(log_files(log)[0], log_files(log)[2]) and None),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("harmed", PARTLY)
def test_every_message_whose_bytes_are_somewhere_is_kept(harmed: str, tmp_path: Path) -> None:
    base, harm = PARTLY[harmed]
    store = Damaged(base, stores.fresh_store(base, tmp_path))
    log = store.root / "commitlog"
    harm(log)
    there = [file.read_bytes() for file in log_files(log)]

    result = store.recover()

    assert (result.errors, result.left) == ({}, 0)
    read = store.log()
    kept = {message.position for message in messages_of(base) if read(message.position, len(message.data)) == message.data}
    intact = {message.position for message in messages_of(base) if any(message.data in data for data in there)}
    assert intact <= kept
    lost = [message.physical_offset for message in result.plan.lost]
    assert len(lost) == len(set(lost))
    assert not kept & set(lost)


def test_former_files_stay_in_the_folder_of_the_transaction(tmp_path: Path) -> None:
    store = Damaged(PLAIN, stores.fresh_store(PLAIN, tmp_path))
    files = log_files(store.root / "commitlog")
    exchange(files[1], files[3])
    before = {file.name: file.read_bytes() for file in files}

    store.recover()

    (transaction,) = transactions(store.root)
    kept = {path.name: path.read_bytes() for path in (transaction.quarantine / "commitlog").iterdir()}
    assert kept == {file.name: before[file.name] for file in (files[1], files[3])}


def test_a_file_of_another_store_fills_no_hole(tmp_path: Path) -> None:
    store = Damaged(PLAIN, stores.fresh_store(PLAIN, tmp_path / "one"))
    other = log_files(stores.fresh_store("5.3.3-schedule", tmp_path / "two") / "commitlog")[0]
    log = store.root / "commitlog"
    file = log_files(log)[0]
    shutil.copy2(other, log / "backup")
    data = file.read_bytes()
    file.write_bytes(data[:8192] + bytes(4096) + data[12288:])
    foreign = {line["uniqKey"] for line in stores.case("5.3.3-schedule").truth()} - {None}

    result = store.recover()

    assert (result.errors, result.left) == ({}, 0)
    assert not any(key.encode() in path.read_bytes() for key in foreign for path in log_files(log))


def backup_as_next_file(damage: Callable[[bytes], bytes], change: Callable[[bytes], bytes] = bytes) -> Harm:
    """Damages a log file, of which a backup, itself changed, has the name of the file after the end of the log."""

    def harm(log: Path) -> None:
        files = log_files(log)
        data = files[1].read_bytes()
        files[1].write_bytes(damage(data))
        (log / offset_to_file_name(int(files[-1].name) + len(data))).write_bytes(change(data))

    return harm


@pytest.mark.parametrize(
    "change",
    [bytes, lambda data: data[:30000] + bytes(len(data) - 30000), lambda data: data[:16384] + os.urandom(4096) + data[20480:]],
    ids=["whole", "as far as it was copied", "with damage in the middle"],
)
def test_a_backup_in_the_place_of_the_next_file_holds_no_message_of_its_own(change: Callable[[bytes], bytes], tmp_path: Path) -> None:
    store = Damaged(PLAIN, stores.fresh_store(PLAIN, tmp_path))
    log = store.root / "commitlog"
    backup_as_next_file(lambda data: data[:40960] + bytes(4096) + data[45056:], change)(log)

    result = store.recover()

    assert (result.errors, result.left) == ({}, 0)
    assert [message for message in result.plan.lost if message.doubt is not None] == []


def test_bytes_of_no_message_after_the_end_of_the_log_are_listed_as_doubtful(tmp_path: Path) -> None:
    store = Damaged(PLAIN, stores.fresh_store(PLAIN, tmp_path))
    log = store.root / "commitlog"
    backup_as_next_file(bytes, lambda data: os.urandom(4096) + bytes(len(data) - 4096))(log)
    start = int(log_files(log)[-1].name)

    result = store.recover()

    assert (result.errors, result.left) == ({}, 0)
    assert [(message.physical_offset, message.doubt) for message in result.plan.lost] == [(start, Doubt.EXISTENCE)]


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (exchanged_files(1, 3), ["this file holds 196608-262049", "this file holds 65536-129910"]),
        (lost_sector(1, 16896), ["these bytes belong at"]),
        (exchanged_blocks(0, 4096, 0, 32768, 4096), ["these bytes belong at 32985-36053", "these bytes belong at 4740-7905"]),
    ],
    ids=["files", "sector", "pages"],
)
def test_a_run_of_records_of_another_place_is_one_finding(harm: Harm, said: list[str], tmp_path: Path) -> None:
    store = Damaged(PLAIN, stores.fresh_store(PLAIN, tmp_path))
    harm(store.root / "commitlog")

    findings = list(verify(store.open()))

    moved = [finding.message for finding in findings if finding.code == "RMQ-CL-MOVED"]
    assert len(moved) == len(said)
    assert all(message.startswith(text) for message, text in zip(moved, said, strict=True))
    assert not any(finding.code == "RMQ-CL-PHYOFFSET" for finding in findings)


def test_one_of_two_files_under_a_wrong_name_comes_back_without_settings(tmp_path: Path) -> None:
    """Both have the same length, which counts for more than the distance of their names."""
    root = stores.fresh_store("4.9.8-schedule", tmp_path)
    log = root / "commitlog"
    before = {file.name: file.read_bytes() for file in log_files(log)}
    renamed_file(1, lambda file: offset_to_file_name(int(file.name) + 512))(log)

    assert rmqstore("recover", root, "--yes").status == 0

    assert {file.name: file.read_bytes() for file in log_files(log)} == before


@pytest.mark.parametrize("resized", [1, -1, 512])
def test_the_length_of_log_files_is_that_of_their_records_not_of_a_wrong_name(resized: int, tmp_path: Path) -> None:
    """No setting has the length, one file has another one, and the distance of the names fits neither."""
    root = stores.fresh_store("4.5.2-transactions", tmp_path / "store")
    first, second = log_files(root / "commitlog")
    size, whole = first.stat().st_size, [first.read_bytes(), second.read_bytes()]
    os.truncate(first, size + resized)
    second.rename(second.with_name(offset_to_file_name(size + 512)))

    done = rmqstore("recover", root, "--yes", "--broker-version", "4.5.2", "--format", "json")

    assert done.status == 0, done.out
    assert [path.name for path in log_files(root / "commitlog")] == [offset_to_file_name(0), offset_to_file_name(size)]
    after = [path.read_bytes() for path in log_files(root / "commitlog")]
    assert after[1] == whole[1]
    assert after[0][:-8] == whole[0][:-8]  # a byte of the BLANK at the end may be gone
