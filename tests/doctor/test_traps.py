"""Traps of releases, settings, locks and disks."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.doctor.diagnosing import FreshStore, codes, damaged, diagnosis_of
from tests.support.stores import sample_store


def traps(base: str, release: str, root: Path | None = None, **settings: str) -> list[str]:
    found = diagnosis_of(root or sample_store(base), base, release, **settings)
    return [finding.message for finding in found.findings if finding.code == "RMQ-ST-RELEASE"]


def test_long_topics_cut_the_log_of_4_9() -> None:
    found = diagnosis_of(sample_store("5.1.4-longtopic"), "5.1.4-longtopic", "4.9.8")
    assert any("version 2" in message for message in traps("5.1.4-longtopic", "4.9.8"))
    assert "RMQ-ST-CUT" in codes(found)
    assert found.loss.messages > 0


def test_the_property_crc_demanded_of_records_without_one() -> None:
    found = diagnosis_of(sample_store("5.3.3-plain"), "5.3.3-plain", forceVerifyPropCRC="true")
    assert any("forceVerifyPropCRC" in finding.message for finding in found.findings if finding.code == "RMQ-ST-RELEASE")
    assert "RMQ-ST-CUT" in codes(found)


def test_a_demanded_property_crc_that_is_there() -> None:
    found = diagnosis_of(sample_store("5.2.0-propcrc"), "5.2.0-propcrc", forceVerifyPropCRC="true")
    assert "RMQ-ST-CUT" not in codes(found)


def test_the_skipped_record_of_5_3_2(fresh_store: FreshStore) -> None:
    root = damaged(fresh_store, "5.3.3-plain", "undispatched-two")
    assert any("skip the first record" in message for message in traps("5.3.3-plain", "5.3.3", root))
    assert traps("5.3.3-plain", "5.2.0", root) == []


def test_recovery_looks_back_ten_files(fresh_store: FreshStore) -> None:
    root = damaged(fresh_store, "5.4.0-manyfiles", "checkpoint-missing", abort=True)
    assert any("commitLogRecoverMaxNum" in message for message in traps("5.4.0-manyfiles", "5.4.0", root))
    assert traps("5.4.0-manyfiles", "5.4.0", root, commitLogRecoverMaxNum="100") == []


@pytest.mark.parametrize(("base", "release"), [("5.3.3-plain", "5.4.0"), ("5.5.1-plain", "5.3.3")])
def test_tags_are_indexed_from_5_4_0_on(base: str, release: str) -> None:
    assert any("index tags" in message for message in traps(base, release))


def test_the_offset_in_the_checkpoint_of_5_5() -> None:
    assert any("no logicsPhysicalOffset yet" in message for message in traps("5.3.3-plain", "5.5.1"))
    assert any("leave the checkpoint's logicsPhysicalOffset" in message for message in traps("5.5.1-plain", "5.3.3"))


@pytest.mark.parametrize("base", ["4.9.8-plain", "5.1.4-plain", "5.3.3-plain", "5.4.0-plain", "5.5.1-plain"])
def test_the_release_that_wrote_the_store_runs_into_none(base: str) -> None:
    assert traps(base, base.partition("-")[0]) == []


def test_abort_removed_by_hand(fresh_store: FreshStore) -> None:
    root = damaged(fresh_store, "5.3.3-plain-crash", "none", abort=False)
    found = diagnosis_of(root, "5.3.3-plain-crash")
    (finding,) = [finding for finding in found.findings if finding.code == "RMQ-ST-ABORT-GONE"]
    assert finding.mend is not None
    assert finding.mend.endswith(f"rmqstore recover {root} --dry-run --what-if abort=present,absent")


def test_a_store_that_is_locked(fresh_store: FreshStore) -> None:
    root = fresh_store("5.3.3-plain")
    child, parent = os.pipe()
    pid = os.fork()
    if pid == 0:
        with (root / "lock").open("r+b") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX, 1, 0)
            os.write(parent, b"x")
            time.sleep(60)
        os._exit(0)
    try:
        os.read(child, 1)
        found = diagnosis_of(root, "5.3.3-plain")
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert found.starts is False
    assert found.findings[0].code == "RMQ-ST-IN-USE"
    assert found.log[-1].endswith("Lock failed,MQ already started")


@pytest.mark.parametrize(
    ("used", "free", "said"), [(95, 5, "takes no messages"), (88, 12, "deletes the oldest"), (50, 50, "the next 2 commit log files need")]
)
def test_a_disk_that_is_nearly_full(used: int, free: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    status = SimpleNamespace(f_blocks=used + free, f_bfree=free, f_bavail=free, f_frsize=1)
    monkeypatch.setattr("rmqstore.doctor.checks.space.os.statvfs", lambda path: status)
    found = diagnosis_of(sample_store("5.3.3-plain"), "5.3.3-plain")
    (finding,) = [finding for finding in found.findings if finding.code == "RMQ-ST-SPACE"]
    assert said in finding.message


def test_room_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    status = SimpleNamespace(f_blocks=100 << 30, f_bfree=80 << 30, f_bavail=80 << 30, f_frsize=1)
    monkeypatch.setattr("rmqstore.doctor.checks.space.os.statvfs", lambda path: status)
    assert "RMQ-ST-SPACE" not in codes(diagnosis_of(sample_store("5.3.3-plain"), "5.3.3-plain"))
