"""The timer's part in a start: slots that point behind the end of the timer log make a broker spin (observed on 5.3.3 and 5.5.1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqstore.doctor.areas import Harm
from rmqstore.doctor.verdict import Class
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
