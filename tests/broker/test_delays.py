"""delayOffset.json is gone: what `recover` writes keeps a whole broker from delivering again, and leaves out nothing.

The same store is started with the file that `recover` makes and without it. The two differ by as many deliveries as `doctor` says, and what
was still to be delivered is delivered in both.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rmqstore.formats.naming import SCHEDULE_TOPIC
from rmqstore.store.root import Store
from rmqstore.verify.parts.config import EndsOfQueues
from tests.broker.toolchain import WHOLE, JarsMissing, missing, prepared
from tests.broker.whole_start import Asked, start
from tests.doctor.test_observed_starts import OBSERVED, SETTINGS
from tests.support import sparse
from tests.support.cli import rmqstore

SET = [text for name, value in SETTINGS.items() for text in ("--set", f"{name}={value}")]
WAIT = 12  # seconds, until everything that was due has been delivered
TIMED = 3
"""Messages of the timer of 5.x that fall due between the two starts."""
QUEUES = ("delay/0", "delay/1", "%RETRY%g_fail/0")

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(missing() is not None, reason=f"whole brokers cannot run here: {missing()}"),
]


def ends(root: Path) -> int:
    """How many messages the queues have in which scheduled messages are delivered."""
    return sum(_end(root, name) for name in QUEUES)


def _end(root: Path, name: str) -> int:
    topic, _, number = name.rpartition("/")
    return EndsOfQueues(Store.open(root, settings=SETTINGS)).end(topic, int(number)) or 0


def _start(release: str, root: Path, scratch: Path) -> None:
    scratch.mkdir()
    start(release, root, SETTINGS, Asked(wait=WAIT), scratch)


@pytest.mark.limited(1)
@pytest.mark.sampled(0)  # a whole broker runs for more than a minute
@pytest.mark.parametrize("release", ["4.9.7", "5.3.3", "5.5.1"])
def test_nothing_is_delivered_again(release: str, tmp_path: Path) -> None:
    try:
        prepared(release, WHOLE)
    except JarsMissing as error:
        pytest.skip(f"Maven cannot get the jars of a broker {release}: {error}")
    sparse.unpack(OBSERVED / f"broker-{release}-clean.tar.xz", tmp_path)
    root = tmp_path / "store"
    for name in ("delayOffset.json", "delayOffset.json.bak"):
        (root / "config" / name).unlink()
    before, lost = ends(root), sparse.copy_tree(root, tmp_path / "lost")
    diagnosed = rmqstore("doctor", root, "--format", "json", *SET).objects[-1]
    again = next(area["count"] for area in diagnosed["areas"] if area["area"] == "delayed and timed messages")
    assert diagnosed["next"].startswith("rmqstore recover ")

    assert rmqstore("recover", root, "--yes", *SET).status == 0
    assert rmqstore("doctor", root, "--format", "json", *SET).objects[-1]["class"] == "STARTS, NOTHING LOST"

    levels = {int(level) - 1: at for level, at in json.loads((root / "config" / "delayOffset.json").read_text())["offsetTable"].items()}
    undelivered = sum(_end(root, f"{SCHEDULE_TOPIC}/{queue_id}") - at for queue_id, at in levels.items())

    with ThreadPoolExecutor(2) as pool:  # most of a start is waiting
        for started in [pool.submit(_start, release, place, tmp_path / f"scratch-{place.name}") for place in (root, lost)]:
            started.result()
    assert ends(root) - before >= undelivered
    assert abs(ends(lost) - ends(root) - again) <= TIMED
