"""The timer's part in a start: slots that point behind the end of the timer log make a broker spin (observed on 5.3.3 and 5.5.1)."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from rmqstore.doctor.areas import Harm
from rmqstore.doctor.verdict import Class
from rmqstore.store.root import Store
from rmqstore.verify.timer.files import open_timer
from tests.doctor.diagnosing import diagnosis_of
from tests.support.cli import rmqstore
from tests.support.stores import fresh_store
from tests.verify.one_check import patch
from tests.verify.timer_files import READ_TIME, UNIT, slot_position, timer_store

SOON = READ_TIME + 60_000
BASE = "broker-5.5.1-crash"


@pytest.mark.parametrize(("release", "lost", "told"), [("5.3.3", 2, 2), ("5.3.3", 0, 0), ("4.9.8", 2, 0)])
def test_a_timer_that_will_spin_is_told_first(release: str, lost: int, told: int, tmp_path: Path) -> None:
    store = timer_store(tmp_path)
    units = [store.put(SOON + number * 1000) for number in range(5)]
    store.build()
    if lost:
        patch(tmp_path / "timerlog" / f"{0:020d}", units[-lost], bytes(lost * UNIT))
    settings = [word for name, value in store.settings.items() for word in ("--set", f"{name}={value}")]

    done = rmqstore("doctor", tmp_path, "--broker-version", release, "--format", "json", *settings)

    found = [entry for entry in done.objects if entry.get("code") == "RMQ-TM-WHEEL-BEYOND"]
    assert [entry["position"] for entry in found] == [slot_position(SOON + number * 1000) for number in range(5 - told, 5)]
    last = done.objects[-1]
    assert ("its timer busy-loops until memory is full" in last["verdict"]) is bool(told)
    assert all(f"rmqstore recover {tmp_path}" in entry["mend"] for entry in found)


@pytest.mark.parametrize(
    ("field", "mask", "words"),
    [
        (0, 1 << 31, "are delivered again: the read time in timercheck is damaged"),
        (2, 1 << 6, "delivered again: the queue offset in timercheck is"),
        (3, 1 << 6, "delivered again: the queue offset in timercheck is"),
    ],
    ids=["read-time", "queue-offset", "queue-offset-of-the-master"],
)
def test_a_flipped_bit_of_timercheck(field: int, mask: int, words: str, tmp_path: Path) -> None:
    root = fresh_store(BASE, tmp_path)
    path = root / "config" / "timercheck"
    data = bytearray(path.read_bytes())
    value = int.from_bytes(data[8 * field : 8 * field + 8], "big")
    assert value & mask
    data[8 * field : 8 * field + 8] = (value ^ mask).to_bytes(8, "big")
    path.write_bytes(data)
    verdict = diagnosis_of(root, BASE).verdict
    assert verdict.cls is Class.STARTS_BUT
    assert words in verdict.headline
    assert verdict.effects[0].harm is Harm.REPEATED


def test_a_timercheck_that_lost_all_but_its_first_bytes(tmp_path: Path) -> None:
    root = fresh_store(BASE, tmp_path)
    os.truncate(root / "config" / "timercheck", 5)
    verdict = diagnosis_of(root, BASE).verdict
    # A broker of 5.3.3 delivered 230 messages of such a store again.
    assert "timed messages delivered again: the queue offset in timercheck is 0" in verdict.headline
    assert verdict.effects[0].harm is Harm.REPEATED


def test_the_last_entries_of_the_timer_log_overwritten(tmp_path: Path) -> None:
    root = fresh_store(BASE, tmp_path)
    log = root / "timerlog" / f"{2 * 8192:020d}"
    data = log.read_bytes()
    end = -(-len(data.rstrip(b"\0")) // UNIT) * UNIT
    patch(log, end - UNIT - 19, bytes(range(1, 65)))
    verdict = diagnosis_of(root, BASE).verdict
    # A 5.5.1 broker delivered 282 messages instead of 284.
    assert verdict.headline == "STARTS, BUT 2 timed messages never delivered: no entry of the timer log leads to them"
    assert verdict.effects[0].harm is Harm.LOST


def test_the_first_file_of_the_timer_log_removed(tmp_path: Path) -> None:
    root = fresh_store(BASE, tmp_path)
    (root / "timerlog" / f"{0:020d}").unlink()
    # A 5.5.1 broker delivered 160 messages instead of 284.
    assert diagnosis_of(root, BASE).verdict.headline.startswith("STARTS, BUT 124 timed messages never delivered")


@pytest.mark.parametrize(
    ("release", "file", "cls"),
    [
        ("5.5.1", 0, Class.DOES_NOT_START),
        ("5.5.1", 2, Class.STARTS_BUT),
        ("5.1.1", 2, Class.DOES_NOT_START),
    ],
)
def test_an_empty_file_of_the_timer_log(release: str, file: int, cls: Class, tmp_path: Path) -> None:
    root = fresh_store(BASE, tmp_path)
    os.truncate(root / "timerlog" / f"{file * 8192:020d}", 0)
    verdict = diagnosis_of(root, BASE, release).verdict
    assert verdict.cls is cls, verdict.headline
    assert cls is not Class.DOES_NOT_START or "of the timer log is 0 bytes long instead of 8192" in verdict.headline


@pytest.mark.parametrize(("damage", "cls"), [("time of the entry", Class.NOTHING_LOST), ("entry of the slot", Class.STARTS_BUT)])
def test_a_slot_and_an_entry_of_different_times(damage: str, cls: Class, tmp_path: Path) -> None:
    """A timer follows the slot, and does not look at the time of the entry (a 5.3.3 broker delivered all messages of such a store)."""
    root = fresh_store(BASE, tmp_path)
    files = open_timer(Store.open(root), 0)
    assert files.slots is not None
    live = np.flatnonzero(files.is_live(files.slots.time) & (files.slots.last < 8192))
    first, second = live[:2]
    if damage == "time of the entry":
        patch(root / "timerlog" / f"{0:020d}", int(files.slots.last[first]) + 20, b"\x5a")
    else:
        last = int(files.slots.last[second]).to_bytes(8, "big")
        patch(root / "timerwheel", int(files.slots.number[first]) * 32 + 16, last)
    verdict = diagnosis_of(root, BASE).verdict
    assert verdict.cls is cls, verdict.headline
