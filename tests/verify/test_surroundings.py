"""What stands around the data of a store (fact sheet commit log §1.1, §4.4, §8.3)."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from rmqstore.findings import Severity
from rmqstore.verify.parts import surroundings
from tests.support import stores
from tests.support.builder import StoreBuilder
from tests.verify.one_check import codes, errors, only, run


def given_store(root: Path, messages: int = 3) -> int:
    """A clean store; returns the end of its log."""
    builder = StoreBuilder(root, log_file_size=4096)
    for _ in range(messages):
        builder.message()
    builder.build()
    return builder.offset


def test_a_clean_store_gives_nothing(tmp_path: Path) -> None:
    given_store(tmp_path)
    assert run(surroundings, tmp_path) == []


def test_abort_with_a_process_that_is_gone(tmp_path: Path) -> None:
    given_store(tmp_path)
    (tmp_path / "abort").write_bytes(b"4194999")  # above the kernel's largest process id
    found = only(run(surroundings, tmp_path), "RMQ-ST-ABORT")
    assert (found.severity, found.found) == (Severity.INFO, 4194999)
    assert "no process of that id" in found.message


def test_abort_with_a_process_that_lives(tmp_path: Path) -> None:
    given_store(tmp_path)
    (tmp_path / "abort").write_text(str(os.getpid()))
    assert "a process of that id runs" in only(run(surroundings, tmp_path), "RMQ-ST-ABORT").message


def test_abort_of_a_release_before_5_0_is_empty(tmp_path: Path) -> None:
    given_store(tmp_path)
    (tmp_path / "abort").write_bytes(b"")
    assert only(run(surroundings, tmp_path), "RMQ-ST-ABORT").found is None


def test_lock(tmp_path: Path) -> None:
    given_store(tmp_path)
    (tmp_path / "lock").write_bytes(b"look")
    found = only(run(surroundings, tmp_path), "RMQ-ST-LOCK")
    assert (found.expected, found.found) == ("lock", "look")
    (tmp_path / "lock").unlink()
    assert only(run(surroundings, tmp_path), "RMQ-ST-LOCK").severity is Severity.INFO


def test_a_process_that_holds_a_file_open_for_writing(tmp_path: Path) -> None:
    given_store(tmp_path)
    path = next((tmp_path / "commitlog").iterdir())
    program = "import sys; file = open(sys.argv[1], 'r+b'); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdout.readline()
        found = run(surroundings, tmp_path)
        process.stdin.close()
    assert str(process.pid) in only(found, "RMQ-ST-IN-USE").message


@pytest.mark.parametrize("name", ["abort", "lock", "timerwheel", "epochFileCheckpoint"])
def test_a_directory_where_a_file_should_be(name: str, tmp_path: Path) -> None:
    given_store(tmp_path)
    (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / name).mkdir()
    assert only(errors(run(surroundings, tmp_path)), "RMQ-ST-KIND").file == name


@pytest.mark.parametrize("name", ["timerlog", "batchconsumequeue", "config"])
def test_a_file_where_a_directory_should_be(name: str, tmp_path: Path) -> None:
    given_store(tmp_path)
    (tmp_path / name).write_bytes(b"x")
    assert only(errors(run(surroundings, tmp_path)), "RMQ-ST-KIND").file == name


def test_names_no_release_knows(tmp_path: Path) -> None:
    given_store(tmp_path)
    for name in ("notes.txt", "old", "lost+found", ".rmqstore", "timerwheel.12345", "rocksdbstore"):
        (tmp_path / name).mkdir() if name in ("old", "lost+found", ".rmqstore", "rocksdbstore") else (tmp_path / name).write_bytes(b"")
    found = run(surroundings, tmp_path)
    assert codes(found) == {"RMQ-ST-FOREIGN": 2}
    assert {one.file for one in found} == {"notes.txt", "old"}


def test_a_file_its_owner_may_not_write(tmp_path: Path) -> None:
    given_store(tmp_path)
    path = next((tmp_path / "commitlog").iterdir())
    path.chmod(0o444)
    found = only(run(surroundings, tmp_path), "RMQ-ST-MODE")
    assert (found.file, found.expected, found.found) == (f"commitlog/{path.name}", "0600", "0444")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_a_file_of_another_owner(tmp_path: Path) -> None:
    given_store(tmp_path)
    path = tmp_path / "consumequeue" / "TopicA"
    os.chown(path, 12345, -1)
    found = only(run(surroundings, tmp_path), "RMQ-ST-OWNER")
    assert (found.file, found.expected, found.found) == ("consumequeue/TopicA", os.geteuid(), 12345)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    given_store(tmp_path)
    (tmp_path / "lock").chmod(0)
    assert "RMQ-ST-UNREADABLE" in codes(run(surroundings, tmp_path))


def test_many_foreign_modes_are_counted_and_not_listed(tmp_path: Path) -> None:
    given_store(tmp_path)
    (tmp_path / "config").mkdir()
    for number in range(50):
        (tmp_path / "config" / f"{number}").write_bytes(b"")
        (tmp_path / "config" / f"{number}").chmod(0o400)
    found = [one for one in run(surroundings, tmp_path) if one.code == "RMQ-ST-MODE"]
    assert len(found) == 21
    assert found[-1].message.startswith("30 more")


# Epoch file


def epoch_file(*entries: tuple[int, int], checksum: int | None = None, count: int | None = None) -> bytes:
    lines = "".join(f"{epoch}-{start}\n" for epoch, start in entries)
    crc = zlib.crc32(lines.encode()) & 0x7FFFFFFF if checksum is None else checksum
    return f"{len(entries) if count is None else count}\n{crc}\n{lines}".encode()


IDENTITIES: dict[str, tuple[bytes, dict[str, str], str | None]] = {
    "valid": (b"LabCluster#broker-a#2", {"brokerName": "broker-a", "brokerClusterName": "LabCluster"}, None),
    "names that are not given": (b"LabCluster#broker-a#2", {}, None),
    "another broker": (b"LabCluster#broker-b#2", {"brokerName": "broker-a"}, "brokerName broker-b"),
    "another cluster": (b"Other#broker-a#2", {"brokerClusterName": "LabCluster"}, "brokerClusterName Other"),
    "no id": (b"LabCluster#broker-a", {}, "is not `cluster#broker name#id`"),
    "an empty file": (b"", {}, "is not `cluster#broker name#id`"),
    "noise": (b"\xff\x00#\x01#x", {}, "is not `cluster#broker name#id`"),
}


@pytest.mark.parametrize("what", IDENTITIES)
def test_the_identity_of_a_broker_with_a_controller(what: str, tmp_path: Path) -> None:
    data, settings, message = IDENTITIES[what]
    StoreBuilder(tmp_path).build()
    (tmp_path / "brokerIdentity").write_bytes(data)
    found = run(surroundings, tmp_path, settings)
    assert [one.code for one in found] == ([] if message is None else ["RMQ-ST-IDENTITY"])
    assert message is None or message in found[0].message


def test_a_sound_epoch_file_gives_nothing(tmp_path: Path) -> None:
    end = given_store(tmp_path)
    for data in (epoch_file((1, 0), (2, 100), (5, end)), epoch_file((1, 0), checksum=0)):
        (tmp_path / "epochFileCheckpoint").write_bytes(data)
        assert run(surroundings, tmp_path) == []


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (epoch_file((1, 0), (2, 100), checksum=5), "checksum"),
        (epoch_file((1, 0), (2, 100), count=3), "announces 3 entries"),
        (epoch_file((2, 0), (1, 100)), "do not increase"),
        (epoch_file((1, 100), (2, 100)), "do not increase"),
        (epoch_file((1, 0), (2, 1 << 30)), "after the end of the log"),
        (b"", "ends within a line"),
        (b"\xff\xfe\n0\n", "is not text"),
    ],
)
def test_a_damaged_epoch_file(data: bytes, message: str, tmp_path: Path) -> None:
    given_store(tmp_path)
    (tmp_path / "epochFileCheckpoint").write_bytes(data)
    assert message in only(run(surroundings, tmp_path), "RMQ-ST-EPOCH").message


def test_the_backup_of_the_epoch_file_is_looked_at(tmp_path: Path) -> None:
    given_store(tmp_path)
    (tmp_path / "epochFileCheckpoint").write_bytes(b"")
    assert ".bak is missing" in only(run(surroundings, tmp_path), "RMQ-ST-EPOCH").message
    (tmp_path / "epochFileCheckpoint.bak").write_bytes(epoch_file((1, 0)))
    assert ".bak is whole" in only(run(surroundings, tmp_path), "RMQ-ST-EPOCH").message


# Stores of brokers


@pytest.mark.parametrize(
    ("name", "code", "file"),
    [
        ("5.5.1-rocksdb", "RMQ-CQ-ROCKSDB", "consumequeue"),
        ("broker-5.3.3-dledger-clean", "RMQ-ST-DLEDGER", "dledger-n0"),
    ],
)
def test_parts_that_are_verified_in_part_only(name: str, code: str, file: str) -> None:
    found = run(surroundings, stores.sample_store(name))
    assert only(found, code).file == file
    assert errors(found) == []
