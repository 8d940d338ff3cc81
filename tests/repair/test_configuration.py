"""Offsets in the configuration after a repair: none lies outside of its queue, and nothing else in the files changes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rmqstore.formats.naming import SCHEDULE_TOPIC
from rmqstore.repair.procedure import RepairRequest, execute
from rmqstore.repair.recover import Strategy, plan_truncate
from rmqstore.verify.parts import config
from tests.repair.every_action import Yes
from tests.repair.recovering import Damaged, view_of
from tests.support import stores
from tests.verify.one_check import codes, run

BASE = "5.3.3-plain"
TEXT = '{"dataVersion":{"counter":7},"offsetTable":{"%s@grüppe":{0:%d,\t1:%d\n},"Gone@g":{0:99}}}'


@pytest.fixture
def store(tmp_path: Path) -> Damaged:
    return Damaged(BASE, stores.fresh_store(BASE, tmp_path))


def write(store: Damaged, name: str, text: str) -> Path:
    path = store.root / "config" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def ends() -> tuple[str, int, int]:
    """A topic, and where its first two queues end."""
    topic = next(record.record.topic for record in view_of(BASE).records)
    return topic, len(view_of(BASE).units((topic, "0"))), len(view_of(BASE).units((topic, "1")))


def findings(store: Damaged) -> int:
    return codes(run(config, store.root, stores.case(BASE).settings(store.root)))["RMQ-CF-OFFSET"]


@pytest.mark.parametrize(("above", "below"), [(1, 0), (1 << 40, 5)])
def test_an_offset_behind_its_queue_goes_back_to_the_end(above: int, below: int, store: Damaged) -> None:
    topic, first, second = ends()
    path = write(store, config.CONSUMER_OFFSETS, TEXT % (topic, first + above, second - below))
    assert findings(store) == 1

    result = store.recover()

    assert (result.errors, result.left) == ({}, 0)
    assert path.read_text(encoding="utf-8") == TEXT % (topic, first, second - below)


def test_a_negative_offset_becomes_zero(store: Damaged) -> None:
    topic, _, second = ends()
    path = write(store, config.CONSUMER_OFFSETS, TEXT % (topic, -7, second))
    assert store.recover().errors == {}
    assert path.read_text(encoding="utf-8") == TEXT % (topic, 0, second)


def test_offsets_of_a_log_that_is_cut_follow_their_queues(store: Damaged) -> None:
    topic, first, second = ends()
    records = [record for record in view_of(BASE).records if record.record.topic == topic]
    at = records[len(records) // 2].offset
    kept = [sum(record.record.queue_id == queue_id and record.offset < at for record in records) for queue_id in (0, 1)]
    path = write(store, config.CONSUMER_OFFSETS, TEXT % (topic, first, second))

    wish = RepairRequest("truncate", store.release, store.open, lambda planning, opened: plan_truncate(planning, opened, at=at))
    assert execute(wish, Yes()).errors == {}

    assert 0 < kept[0] < first
    assert path.read_text(encoding="utf-8") == TEXT % (topic, *kept)


def test_a_broken_file_gets_its_backup_with_offsets_that_fit(store: Damaged) -> None:
    topic, first, second = ends()
    path = write(store, config.CONSUMER_OFFSETS, "{")
    write(store, config.CONSUMER_OFFSETS + ".bak", TEXT % (topic, first + 3, second))

    assert store.recover().errors == {}
    assert path.read_text(encoding="utf-8") == TEXT % (topic, first, second)


def test_a_missing_file_comes_back_only_with_offsets_that_fit(store: Damaged) -> None:
    topic, first, second = ends()
    write(store, config.CONSUMER_OFFSETS + ".bak", TEXT % (topic, first + 3, second))

    assert store.recover().errors == {}
    assert (store.root / "config" / config.CONSUMER_OFFSETS).read_text(encoding="utf-8") == TEXT % (topic, first, second)


def test_the_minimal_strategy_leaves_offsets_alone(store: Damaged) -> None:
    topic, first, second = ends()
    text = TEXT % (topic, first + 3, second)
    path = write(store, config.CONSUMER_OFFSETS, text)
    store.recover(Strategy.MINIMAL)
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.sampled(3)
@pytest.mark.parametrize("base", ["broker-4.9.7-lmq-crash", "broker-5.3.3-cqext-crash", "broker-5.5.1-crash"])
@pytest.mark.parametrize("damage", [None, "checkpoint", "last record"])
def test_a_delay_level_goes_on_with_what_was_not_delivered(base: str, damage: str | None, tmp_path: Path) -> None:
    """Whatever was delivered is in the log once more, under the topic that it was sent to; also where a time in the store is damaged."""
    store = Damaged(base, stores.fresh_store(base, tmp_path))
    undelivered = _first_undelivered(base)
    far = (1 << 50).to_bytes(8, "big")
    if damage == "checkpoint":
        path = store.root / "checkpoint"
        path.write_bytes(far + path.read_bytes()[8:])
    elif damage == "last record":
        last = view_of(base).records[-1]
        with (store.root / last.path).open("r+b") as stream:
            stream.seek(last.fields["store_timestamp"].offset)
            stream.write(far)
    table = {str(level): 1 << 30 for level in undelivered} | {"17": 5}
    delays = write(store, config.DELAY_OFFSETS, json.dumps({"offsetTable": table}))

    result = store.recover()

    assert (result.errors, result.left) == ({}, 0)
    assert json.loads(delays.read_text())["offsetTable"] == {str(level): offset for level, offset in undelivered.items()} | {"17": 0}
    assert sum("of delay level" in note and "delivered" in note for note in result.plan.notes) == len(table)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("text", ["", "{", "\0\0"])
@pytest.mark.parametrize("base", ["broker-5.3.3-cqext-crash", "5.3.3-plain"])
def test_broken_offsets_of_delay_levels_come_from_the_log(base: str, text: str, tmp_path: Path) -> None:
    store = Damaged(base, stores.fresh_store(base, tmp_path))
    (store.root / "config" / f"{config.DELAY_OFFSETS}.bak").unlink(missing_ok=True)
    delays = write(store, config.DELAY_OFFSETS, text)
    result = store.recover()
    assert (result.errors, result.left) == ({}, 0)
    wanted = {str(level): offset for level, offset in _first_undelivered(base).items()}
    assert json.loads(delays.read_text())["offsetTable"] == wanted
    assert any("whose delivery is not in the log" in note for note in result.plan.notes)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("base", "kept"), [("broker-4.9.7-lmq-crash", 16), ("broker-5.3.3-cqext-crash", 20), ("broker-5.5.1-crash", 53)])
def test_missing_offsets_of_delay_levels_come_from_the_log(base: str, kept: int, tmp_path: Path) -> None:
    """`kept`: messages that a broker delivers again without the file (`delay-missing` of tests/doctor), and with it does not."""
    store = Damaged(base, stores.fresh_store(base, tmp_path))
    delays = store.root / "config" / config.DELAY_OFFSETS
    for path in (delays, delays.with_name(f"{delays.name}.bak")):
        path.unlink(missing_ok=True)
    result = store.recover()
    assert (result.errors, result.left) == ({}, 0)
    offsets = json.loads(delays.read_text())["offsetTable"]
    assert offsets == {str(level): offset for level, offset in _first_undelivered(base).items()}
    assert sum(offsets.values()) == kept
    assert any("every delayed message in the queues would be delivered again" in note for note in result.plan.notes)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("base", ["broker-4.9.7-lmq-crash", "broker-5.3.3-cqext-crash", "broker-5.5.1-crash"])
def test_offsets_of_delay_levels_that_were_reset_come_from_the_log(base: str, tmp_path: Path) -> None:
    """A level that delivered nothing, or nothing before the last seconds, keeps its 0."""
    store = Damaged(base, stores.fresh_store(base, tmp_path))
    undelivered = _first_undelivered(base)
    delays = write(store, config.DELAY_OFFSETS, json.dumps({"offsetTable": dict.fromkeys(map(str, undelivered), 0)}))
    result = store.recover()
    assert (result.errors, result.left) == ({}, 0)
    offsets = {int(level): offset for level, offset in json.loads(delays.read_text())["offsetTable"].items()}
    assert all(offset in (0, undelivered[level]) for level, offset in offsets.items())
    assert offsets[1] == undelivered[1] > 0
    assert sum("was reset" in note for note in result.plan.notes) == sum(offset > 0 for offset in offsets.values())


@pytest.mark.parametrize("base", ["4.9.8-schedule-crash", "5.3.3-schedule", "5.3.3-plain"])
def test_a_file_of_delay_levels_that_delivered_nothing_is_not_missed(base: str, tmp_path: Path) -> None:
    store = Damaged(base, stores.fresh_store(base, tmp_path))
    delays = store.root / "config" / config.DELAY_OFFSETS
    assert not delays.exists()
    assert store.recover().errors == {}
    assert not delays.exists()


def test_messages_that_were_due_while_no_broker_ran_are_not_left_out(tmp_path: Path) -> None:
    """A record of much later time, as after a start that ended at once, does not mean that anything was delivered."""
    base = "broker-5.3.3-cqext-crash"
    store = Damaged(base, stores.fresh_store(base, tmp_path))
    last = view_of(base).records[-1]
    with (store.root / last.path).open("r+b") as stream:
        stream.seek(last.fields["store_timestamp"].offset)
        stream.write((last.record.store_timestamp + 7_200_000 * 2).to_bytes(8, "big"))
    os.utime(store.root / last.path, (last.record.store_timestamp / 1000 + 20_000,) * 2)
    delays = write(store, config.DELAY_OFFSETS, "")
    delays.with_name(f"{delays.name}.bak").unlink(missing_ok=True)
    assert store.recover().errors == {}
    assert json.loads(delays.read_text())["offsetTable"] == {str(level): at for level, at in _first_undelivered(base).items()}


def _first_undelivered(base: str) -> dict[int, int]:
    """By level, the first offset whose message has no second record, the end of the queue where all have one."""
    records = [record.record for record in view_of(base).records]
    others = {record.properties.get("UNIQ_KEY") for record in records if record.topic != SCHEDULE_TOPIC}
    first: dict[int, int] = {}
    for record in records:
        if record.topic == SCHEDULE_TOPIC:
            level = record.queue_id + 1
            if record.properties.get("UNIQ_KEY") in others:
                first[level] = record.queue_offset + 1
            else:
                first.setdefault(level, record.queue_offset)
    return first


def test_offsets_of_lite_topics_stay(store: Damaged) -> None:
    text = json.dumps({"offsetTable": {"%LMQ%a@%LMQ%a": {"0": 1 << 30}}})
    consumers = write(store, config.CONSUMER_OFFSETS, text)
    assert store.recover().errors == {}
    assert consumers.read_text() == text


def test_the_plan_says_what_is_delivered_again(store: Damaged) -> None:
    topic, first, _ = ends()
    write(store, config.CONSUMER_OFFSETS, TEXT % (topic, -7, 1 << 40))
    notes = " ".join(store.recover().plan.notes)
    assert f"set to 0, as every release reads it; up to {first} messages" in notes
    assert "nothing in the queue is skipped or delivered again" in notes
