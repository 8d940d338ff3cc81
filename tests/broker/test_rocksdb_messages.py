"""A killed broker with timed messages, transactions and index in RocksDB: after `recover` the next one delivers each timed message once.

What RocksDB had only in memory is lost by a kill. A start without a repair delivers the timed messages of all that time again.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from rmqstore.reading.rocksdb.halves import halves_of
from rmqstore.store.root import Store
from tests.broker.busy import SIZES, BusyBroker, delete_empty_files
from tests.broker.whole_start import Asked, require_broker, start
from tests.rocksdb.test_messages import NUMBERS, entries
from tests.support.cli import rmqstore

RELEASE = "5.5.1"
SETTINGS = {
    **SIZES,
    "timerRocksDBEnable": "true",
    "indexRocksDBEnable": "true",
    "transRocksDBEnable": "true",
    "transWriteOriginTransHalfEnable": "false",
}
OPTIONS = [f"--set={name}={value}" for name, value in SETTINGS.items()]


def messages(root: Path) -> list[dict[str, object]]:
    return [one for one in rmqstore("dump", root, "--format", "json", *OPTIONS).objects if one["type"] == "message"]


@pytest.mark.exhaustive  # a busy broker, then a start that waits for the timed messages, for a minute
def test_each_timed_message_is_delivered_once(tmp_path: Path) -> None:
    require_broker(RELEASE)
    root = tmp_path / "store"
    root.mkdir()
    with BusyBroker(RELEASE, root, tmp_path / "busy", rate=60, seed=1, settings=SETTINGS, transactions=True) as broker:
        broker.wait_for(1_700_000)
        broker.kill()
    delete_empty_files(root)
    before = messages(root)
    timed = {one["unique_key"] for one in before if one["topic"] == "rmq_sys_wheel_timer"}
    delivered = {one["unique_key"] for one in before if one["topic"] == "delayed"} & timed
    assert len(delivered) > 10 and len(timed - delivered) > 10
    open_halves = halves_of(Store.open(root, settings=SETTINGS)).open
    assert rmqstore("recover", root, "--yes", *OPTIONS).status == 0

    one = start(RELEASE, root, SETTINGS, Asked(delayed=[2], wait=35), tmp_path / "next")

    assert one.caught_up and not one.refused and not one.abort_left
    after = messages(root)
    counts = Counter(one["unique_key"] for one in after if one["topic"] == "delayed")
    assert {key: counts[key] for key in timed if counts[key] != 1} == {}
    has = entries(root)
    assert {int.from_bytes(key[:8], "big") for key in has["trans"] if key not in NUMBERS} == open_halves.keys()
    keyed = {one["physical_offset"] for one in after if one["unique_key"]}
    assert {int.from_bytes(key[-8:], "big") for key in has["default"] if key not in NUMBERS} == keyed
