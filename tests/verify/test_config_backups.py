"""Files of the configuration against their `.bak`, in a store that a broker of 5.3.3 wrote: both are equal there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqstore.doctor.areas import Area, Harm
from rmqstore.doctor.diagnosis import Diagnosis
from rmqstore.doctor.verdict import Class
from rmqstore.findings import Severity
from rmqstore.store import fastjson
from rmqstore.verify.parts import configbackups
from tests.doctor.diagnosing import diagnosis_of
from tests.support import stores
from tests.verify.one_check import only, run

BASE = "broker-5.3.3-cqext-crash"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stores.fresh_store(BASE, tmp_path_factory.mktemp("backups"))


@pytest.fixture
def root(shared: Path) -> Iterator[Path]:
    texts = {path: path.read_bytes() for path in (shared / "config").iterdir() if path.is_file()}
    yield shared
    for path, text in texts.items():
        path.write_bytes(text)


def change(root: Path, name: str, edit: Callable[[Any], None]) -> None:
    path = root / "config" / name
    value = fastjson.parse(path.read_bytes()).value
    edit(value)
    path.write_text(json.dumps(value))


def diagnosis(root: Path) -> Diagnosis:
    return diagnosis_of(root, BASE)


def test_a_broker_leaves_no_contradiction(root: Path) -> None:
    assert run(configbackups, root) == []


@pytest.mark.parametrize("name", ["topics.json", "topics.json.bak"])
def test_the_same_version_with_other_content(name: str, root: Path) -> None:
    change(root, name, lambda value: value["topicConfigTable"]["orders"].update(perm=4))
    found = only(run(configbackups, root), "RMQ-CF-DIFFERS")
    assert (found.file, found.severity) == ("config/topics.json", Severity.ERROR)
    assert "orders.perm is " in found.message
    assert diagnosis(root).verdict.cls is Class.STARTS_BUT


def test_a_new_entry_with_a_new_version_is_no_damage(root: Path) -> None:
    def add(value: Any) -> None:
        value["dataVersion"]["counter"] += 1
        value["topicConfigTable"]["new_one"] = {**value["topicConfigTable"]["orders"], "topicName": "new_one"}

    change(root, "topics.json", add)
    assert run(configbackups, root) == []


def test_an_entry_that_a_new_release_adds_is_no_damage(root: Path) -> None:
    change(root, "topics.json", lambda value: value["topicConfigTable"].update(SYSTEM_TOPIC={"topicName": "SYSTEM_TOPIC"}))
    assert run(configbackups, root) == []


def test_a_file_from_an_older_backup(root: Path) -> None:
    def older(value: Any) -> None:
        value["dataVersion"]["counter"] -= 1
        value["dataVersion"]["timestamp"] -= 60_000

    change(root, "subscriptionGroup.json", older)
    assert "older than" in only(run(configbackups, root), "RMQ-CF-DIFFERS").message


def test_a_letter_of_a_name_in_the_offsets(root: Path) -> None:
    def rename(value: Any) -> None:
        table = value["offsetTable"]
        table["orders@g_orderr"] = table.pop("orders@g_orders")

    change(root, "consumerOffset.json", rename)
    messages = [found.message for found in run(configbackups, root)]
    assert any("orders@g_orderr" in message and "orders@g_orders" in message for message in messages)


def test_a_group_whose_offset_goes_back(root: Path) -> None:
    change(root, "consumerOffset.json", lambda value: value["offsetTable"]["orders@g_orders"].update({"0": 3}))
    found = only(run(configbackups, root), "RMQ-CF-DIFFERS")
    assert (found.topic, found.queue_id, found.found, found.severity) == ("orders", 0, 3, Severity.WARNING)
    effect = diagnosis(root).verdict.effects[0]
    assert (effect.area, effect.harm, effect.count) == (Area.PROGRESS, Harm.REPEATED, found.expected - 3)


def test_a_delay_level_whose_offset_goes_back(root: Path) -> None:
    level = max(_levels(root), key=_levels(root).__getitem__)
    change(root, "delayOffset.json", lambda value: value["offsetTable"].update({level: 1}))
    assert only(run(configbackups, root), "RMQ-CF-DIFFERS").severity is Severity.ERROR
    found = diagnosis(root)
    assert (found.verdict.effects[0].area, found.verdict.effects[0].count) == (Area.DELAYED, _levels(root, ".bak")[level] - 1)
    assert found.next.startswith("diff ")


def test_a_backup_beyond_the_queue_is_no_witness(root: Path) -> None:
    change(root, "delayOffset.json.bak", lambda value: value["offsetTable"].update({"1": 99999}))
    change(root, "consumerOffset.json.bak", lambda value: value["offsetTable"]["orders@g_orders"].update({"0": 99999}))
    assert run(configbackups, root) == []


def test_a_zero_byte_in_the_name_of_a_topic_ends_nothing(root: Path) -> None:
    path = root / "config/consumerOffset.json"
    path.write_bytes(path.read_bytes().replace(b'"orders@', b'"ord\0rs@'))
    assert diagnosis(root).verdict.cls is Class.STARTS_BUT


def _levels(root: Path, ending: str = "") -> dict[str, int]:
    levels: dict[str, int] = fastjson.parse((root / f"config/delayOffset.json{ending}").read_bytes()).value["offsetTable"]
    return levels
