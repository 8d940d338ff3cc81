"""`timers` lists what clients of a real broker sent and it had not delivered when it was killed, and nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rmqstore.formats import timer
from rmqstore.formats.delay import DEFAULT_DELAY_LEVELS
from rmqstore.listing.timers import list_timers
from rmqstore.store.root import Store
from tests.support import stores
from tests.support.cli import rmqstore

NAME = "broker-5.5.1-crash"
SLACK_MS = 3000
"""A timed message is due at a whole second, and the broker delivers it a little later."""
LATE_MS = 30_000
"""Offsets of delay levels are written every ten seconds, and here the newest file is lost: what came after its backup comes again."""


def stopped_at(root: Path) -> int:
    return int(timer.parse_check((root / "config" / "timercheck").read_bytes()).last_read_time_ms)


def expected() -> dict[str, tuple[int, bool]]:
    """Return when each delayed or timed message that a client sent is due, and whether it was recalled, by message id."""
    sent = stores.case(NAME).truth()
    recalled = {one["recalled"] for one in sent if "recalled" in one}
    found = {}
    for one in sent:
        name, _, value = one.get("timer", "").partition("=")
        level = one.get("delayLevel")
        if name or level:
            wait = {"TIMER_DELAY_SEC": 1000, "TIMER_DELAY_MS": 1}.get(name)
            due = one["ts"] + DEFAULT_DELAY_LEVELS[level - 1] if level else int(value) if wait is None else one["ts"] + int(value) * wait
            found[one["msgId"]] = due, one["msgId"] in recalled
    return found


def test_what_clients_sent() -> None:
    root = stores.sample_store(NAME)
    stop = stopped_at(root)
    rows = {row.unique_key: row for row in list_timers(Store.open(root), stop)}
    sent = expected()
    waiting = {key for key, (due, recalled) in sent.items() if due > stop + SLACK_MS and not recalled}
    delivered = {key for key, (due, recalled) in sent.items() if due < stop - LATE_MS or recalled}
    assert len(waiting) > 150
    assert len(delivered) > 50
    assert waiting <= rows.keys()
    assert not delivered & rows.keys()
    for key in waiting:
        assert abs((rows[key].due or 0) - sent[key][0]) <= SLACK_MS
        assert rows[key].topic == "delay"
        assert not rows[key].overdue


def test_the_earliest_first() -> None:
    done = rmqstore("timers", stores.sample_store(NAME), "--format", "json")
    due = [row["due"] for row in done.objects]
    assert due == sorted(due)
    assert all(row["overdue"] for row in done.objects if row["due"] < 1_795_260_000_000)
    assert rmqstore("timers", stores.sample_store(NAME), "--limit", "2", "--json").objects == done.objects[:2]
    assert {row["topic"] for row in rmqstore("timers", stores.sample_store(NAME), "--topic", "delay", "--json").objects} == {"delay"}


@pytest.mark.parametrize("name", ["4.9.8-schedule", "5.3.3-schedule-crash"])
def test_delay_levels_without_offsets_begin_with_the_queue(name: str) -> None:
    rows = list_timers(Store.open(stores.sample_store(name)), 0)
    sent = [one for one in stores.case(name).truth() if one["topic"] == "SCHEDULE_TOPIC_XXXX"]
    assert sorted(row.physical_offset for row in rows) == sorted(one["physicalOffset"] for one in sent)
    assert {row.kind for row in rows} == {"delay"}


def test_a_message_that_the_log_lost(tmp_path: Path) -> None:
    root = stores.fresh_store("4.9.8-schedule", tmp_path)
    before = list_timers(Store.open(root), 0)
    file = min((root / "commitlog").iterdir())
    size = file.stat().st_size
    file.unlink()
    rows = list_timers(Store.open(root), 0)
    lost = {row.physical_offset for row in rows if row.problem}
    assert lost == {row.physical_offset for row in before if row.physical_offset < size}
    assert len(rows) == len(before)


def test_delay_levels_in_rocksdb() -> None:
    rows = rmqstore("timers", stores.sample_store("broker-5.5.1-rocksdb-clean"), "--json").objects
    assert {row["kind"] for row in rows} == {"delay", "timer"}
    assert all(row["due"] for row in rows)


def test_a_store_without_any(tmp_path: Path) -> None:
    root = stores.fresh_store("5.5.1-plain", tmp_path)
    shutil.rmtree(root / "timerlog", ignore_errors=True)
    done = rmqstore("timers", root)
    assert (done.status, done.out) == (0, "Nothing to do.\nLISTED 0 messages\n")
