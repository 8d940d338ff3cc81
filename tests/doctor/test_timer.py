"""The timer's part in a start: slots that point behind the end of the timer log make a broker spin (observed on 5.3.3 and 5.5.1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli import rmqstore
from tests.verify.one_check import patch
from tests.verify.timer_files import READ_TIME, UNIT, slot_position, timer_store

SOON = READ_TIME + 60_000


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
