"""Delayed messages of whole brokers: the log under the timer is damaged and repaired, and what is not lost is delivered in time.

Without the repair of the timer's own files the timer of 5.x stands still at the first unit that names a filler.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqstore.formats.timer import LOG_BLANK_SIZE, LOG_UNIT_SIZE
from tests.broker.toolchain import WHOLE, JarsMissing, missing, prepared
from tests.broker.whole_start import Asked, start
from tests.support.cli import rmqstore

SETTINGS = {"mappedFileSizeCommitLog": str(1 << 20), "mappedFileSizeConsumeQueue": "20000", "mappedFileSizeTimerLog": "1066"}
SET = [text for name, value in SETTINGS.items() for text in ("--set", f"{name}={value}")]
DELAYS = [55, 56, 57, 58, 58, 58, 59, 60]  # seconds: the first start has ended long before
LATE = 60  # seconds that a message may be late

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(missing() is not None, reason=f"whole brokers cannot run here: {missing()}"),
]


def empty_store(release: str, tmp_path: Path) -> Path:
    """A new directory for the store of a broker, whose jars are there; otherwise the test is skipped."""
    try:
        prepared(release, WHOLE)
    except JarsMissing as error:
        pytest.skip(f"Maven cannot get the jars of a broker {release}: {error}")
    root = tmp_path / "store"
    root.mkdir()
    return root


@pytest.mark.limited(1)
@pytest.mark.sampled(0)  # what is due is waited for, more than a minute
# Of several that are due in the same second; the last one of all; the last one whose unit is left, as after a loss of power.
@pytest.mark.parametrize(("release", "damaged", "units"), [("5.3.3", 3, 8), ("5.5.1", 7, 8), ("5.3.3", 3, 4)])
def test_what_is_not_lost_is_delivered(release: str, damaged: int, units: int, tmp_path: Path) -> None:
    root = empty_store(release, tmp_path)
    sent = start(release, root, SETTINGS, Asked(delayed=DELAYS, wait=4), tmp_path / "first").delayed
    assert [line["status"] for line in sent] == ["SEND_OK"] * len(DELAYS)
    _overwrite(root, sent[damaged]["physicalOffset"])
    _cut(root / "timerlog" / f"{0:020d}", units * LOG_UNIT_SIZE)

    recovered = rmqstore("recover", root, "--yes", "--format", "json", "--broker-version", release, *SET)

    assert recovered.status == 0, recovered.err
    (plan,) = (entry for entry in recovered.objects if entry["type"] == "plan")
    assert [lost["physical_offset"] for lost in plan["lost"]] == [sent[damaged]["physicalOffset"]]
    left = max(int(line["TIMER_DELIVER_MS"]) for line in sent) / 1000 - time.time()
    kept = [line["key"] for number, line in enumerate(sent) if number != damaged]
    asked = Asked(queues=["delayed/0"], delayed=[3], wait=LATE + max(0, int(left)), messages=len(kept) + 1)
    second = start(release, root, SETTINGS, asked, tmp_path / "second")
    delivered = [line["keys"] for line in second.queues["delayed", 0].values()]
    assert sorted(delivered) == sorted([*kept, *(line["key"] for line in second.delayed)])


@pytest.mark.limited(1)
@pytest.mark.sampled(0)  # a whole broker runs for more than a minute
@pytest.mark.parametrize("release", ["5.3.3", "5.5.1"])
def test_a_built_wheel_delivers_every_pending_message_once(release: str, tmp_path: Path) -> None:
    """By itself a start would enter the units of the last two of four files."""
    root = empty_store(release, tmp_path)
    settings = {**SETTINGS, "mappedFileSizeTimerLog": str(3 * LOG_UNIT_SIZE + LOG_BLANK_SIZE)}
    sent = start(release, root, settings, Asked(delayed=[*DELAYS, *DELAYS[:4]], wait=4), tmp_path / "first").delayed
    assert [line["status"] for line in sent] == ["SEND_OK"] * 12
    assert len(list((root / "timerlog").iterdir())) == 4
    wheel = (root / "timerwheel").read_bytes()
    (root / "timerwheel").unlink()
    (root / "timerwheel").mkdir()

    options = [text for name, value in settings.items() for text in ("--set", f"{name}={value}")]
    recovered = rmqstore("recover", root, "--yes", "--format", "json", "--broker-version", release, *options)

    assert recovered.status == 0, recovered.err
    assert (root / "timerwheel").read_bytes() == wheel
    left = max(int(line["TIMER_DELIVER_MS"]) for line in sent) / 1000 - time.time()
    second = start(
        release, root, settings, Asked(queues=["delayed/0"], wait=LATE + max(0, int(left)), messages=len(sent)), tmp_path / "second"
    )
    assert sorted(line["keys"] for line in second.queues["delayed", 0].values()) == sorted(line["key"] for line in sent)


def _gone(log: Path) -> None:
    log.unlink()
    log.parent.rmdir()


def _short(log: Path) -> None:
    log.write_bytes(log.read_bytes()[:-LOG_UNIT_SIZE])


def _garbage(log: Path) -> None:
    data = bytearray(log.read_bytes())
    data[2 * LOG_UNIT_SIZE + 7 : 4 * LOG_UNIT_SIZE] = b"\xa5" * (2 * LOG_UNIT_SIZE - 7)
    log.write_bytes(data)


def _zeros(log: Path) -> None:
    log.write_bytes(bytes(log.stat().st_size))


def _unchecked(log: Path) -> None:
    (log.parents[1] / "config" / "timercheck").unlink()


@pytest.mark.limited(1)
@pytest.mark.sampled(0)  # a whole broker runs for more than a minute
@pytest.mark.parametrize(
    ("damage", "release"),
    [
        (_gone, "5.5.1"),
        (_garbage, "5.3.3"),
        (_short, "5.1.4"),
        (_zeros, "5.5.1"),
        (_unchecked, "5.5.1"),
        (_unchecked, "5.1.4"),
    ],
)
def test_a_rebuilt_log_delivers_every_pending_message_once(damage: Callable[[Path], None], release: str, tmp_path: Path) -> None:
    """Two of them are delivered before the damage."""
    root = empty_store(release, tmp_path)
    sent = start(release, root, SETTINGS, Asked(delayed=[2, 3, *DELAYS], wait=7), tmp_path / "first").delayed
    assert [line["status"] for line in sent] == ["SEND_OK"] * 10
    damage(root / "timerlog" / f"{0:020d}")
    assert rmqstore("doctor", root, "--format", "json", *SET).objects[-1]["next"].startswith("rmqstore recover ")

    recovered = rmqstore("recover", root, "--yes", "--format", "json", "--broker-version", release, *SET)

    assert recovered.status == 0, recovered.err
    assert rmqstore("doctor", root, "--format", "json", *SET).objects[-1]["next"] == "Start the broker."
    left = max(int(line["TIMER_DELIVER_MS"]) for line in sent) / 1000 - time.time()
    asked = Asked(queues=["delayed/0"], delayed=[3], wait=10 + max(0, int(left)))
    second = start(release, root, SETTINGS, asked, tmp_path / "second")
    expected = [line["key"] for line in (*sent, *second.delayed)]
    assert sorted(line["keys"] for line in second.queues["delayed", 0].values()) == sorted(expected)


def _cut(log: Path, position: int) -> None:
    """Zeros from there on, as if these pages had not been written."""
    with log.open("r+b") as stream:
        length = stream.seek(0, os.SEEK_END)
        stream.seek(position)
        stream.write(bytes(length - position))


def _overwrite(root: Path, offset: int) -> None:
    """Makes a record what is none."""
    with (root / "commitlog" / f"{0:020d}").open("r+b") as stream:
        stream.seek(offset)
        size = int.from_bytes(stream.read(4), "big")
        stream.seek(offset)
        stream.write(b"\xa5" * size)
