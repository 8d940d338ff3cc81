"""What comes while an inspection looks: later messages are not lost, and what is only counted has a place."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rmqstore.doctor import diagnosis
from rmqstore.doctor.areas import Area, State
from rmqstore.doctor.checks import losses as counted_by_doctor
from rmqstore.doctor.nextsteps import Commands
from rmqstore.findings import Severity
from rmqstore.formats.consumequeue import UNIT_SIZE
from rmqstore.prediction import simulation
from rmqstore.store.mapped import listing_once
from rmqstore.store.root import Store
from rmqstore.verify.context import Context, Options
from rmqstore.verify.guard import SHOWN, limited
from rmqstore.verify.parts import config
from tests.support.builder import StoreBuilder
from tests.support.cli import rmqstore
from tests.verify.one_check import only, run


def writing_before(count: Callable[..., Any], builder: StoreBuilder) -> Callable[..., Any]:
    """`count`, and before it a broker that stores three messages."""

    def counts(*arguments: Any) -> Any:
        for number in range(3):
            builder.message("Late", b"late", keys=f"late{number}")
        builder.build()
        return count(*arguments)

    return counts


@pytest.fixture
def store(tmp_path: Path) -> StoreBuilder:
    builder = StoreBuilder(tmp_path)
    for number in range(5):
        builder.message(keys=f"key{number}")
    builder.build()
    (tmp_path / "abort").touch()
    return builder


@pytest.mark.parametrize(("module", "words"), [(simulation, ["predict"]), (counted_by_doctor, ["doctor"])])
def test_no_message_is_lost_that_came_since(module: Any, words: list[str], store: StoreBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "lost_records", writing_before(module.lost_records, store))
    settings = [f"--set={name}={value}" for name, value in store.settings.items()]

    told = rmqstore(words[0], store.root, *words[1:], "--format", "json", *settings).objects

    assert sum(one["topic"] == "Late" for one in rmqstore("dump", store.root, "--part", "commitlog", "--format", "json").objects) == 3
    assert told[-1]["lost"]["messages"] == 0
    assert not any(one.get("code") == "RMQ-ST-CUT" for one in told)


def test_messages_behind_a_damage_are_lost(store: StoreBuilder) -> None:
    log = min((store.root / "commitlog").iterdir())
    data = bytearray(log.read_bytes())
    first = int.from_bytes(data[:4], "big")
    data[first : first + 8] = bytes(8)
    log.write_bytes(data)
    settings = [f"--set={name}={value}" for name, value in store.settings.items()]

    for words in (["recover", "--dry-run"], ["doctor"]):
        told = rmqstore(words[0], store.root, *words[1:], "--format", "json", *settings).objects
        assert told[-1]["lost"]["messages"] == 3, words


def test_an_offset_in_a_file_that_came_since_the_queue_was_listed(store: StoreBuilder) -> None:
    """A group reads what a broker appends, and the next file of a queue may appear after a look listed the directory."""
    with listing_once():
        queue = next(Store.open(store.root, settings=store.settings).queue_directories())
        for _ in range(120):
            store.message(queue.topic, keys="later")
        store.build()
        (store.root / "config").mkdir()
        (store.root / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": {f"{queue.topic}@group": {"0": 110}}}))
        assert "RMQ-CF-OFFSET" not in {one.code for one in run(config, store.root, store.settings)}
        (store.root / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": {f"{queue.topic}@group": {"0": 126}}}))
    assert only(run(config, store.root, store.settings), "RMQ-CF-OFFSET").expected == 125


def test_entries_that_a_halted_writer_adds_later_are_not_lost(store: StoreBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing changes during the first look, but a process has the log open for writing."""
    (store.root / "abort").unlink()
    store.message("TopicB").build()
    (path,) = (store.root / "consumequeue" / "TopicA" / "0").iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[: 3 * UNIT_SIZE] + bytes(len(whole) - 3 * UNIT_SIZE))

    def dispatched_after(*arguments: Any) -> bool:
        result = is_written(*arguments)
        calls.append(result)
        if len(calls) > 1:  # the first call is inside of the look
            path.write_bytes(whole)
        return result

    is_written = diagnosis.is_written
    calls: list[bool] = []
    monkeypatch.setattr(diagnosis, "is_written", dispatched_after)
    log = min((store.root / "commitlog").iterdir())
    with log.open("r+b") as stream, subprocess.Popen(["sleep", "60"], stdin=stream) as writer:
        found = diagnosis.diagnose(Store.open(store.root, settings=store.settings), "5.3.3", Commands(store.root))
        writer.kill()

    assert all(area.state is not State.LOSES for area in found.verdict.areas if area.area is Area.QUEUES), found.verdict.headline


@pytest.mark.parametrize(("odd", "offset"), [(None, SHOWN + 100), (SHOWN + 3, None)])
def test_what_is_only_counted_begins_at_its_lowest_offset(odd: int | None, offset: int | None, store: StoreBuilder) -> None:
    """As a writer explains only what lies after the end of the log; one of them without an offset may be anywhere."""
    context = Context(Store.open(store.root), Options())
    places = [None if number == odd else number + 100 for number in range(SHOWN + 5)]
    found = [context.finding("RMQ-TM-MESSAGE", "no message", offset=place) for place in places]

    *shown, rest = limited(context, store.root / "timerlog", found)

    assert shown == found[:SHOWN]
    assert (rest.count, rest.offset) == (5, offset)


def test_what_is_only_counted_is_as_severe_as_the_worst(store: StoreBuilder) -> None:
    context = Context(Store.open(store.root), Options())
    found = [replace(context.finding("RMQ-CF-DIFFERS", "an offset goes back"), severity=Severity.WARNING)] * (SHOWN + 2)
    *_, rest = limited(context, store.root / "config" / "consumerOffset.json", found)
    assert (rest.count, rest.severity) == (2, Severity.WARNING)
