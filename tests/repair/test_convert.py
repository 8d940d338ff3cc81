"""`rmqstore convert --to files`: queues and configuration leave RocksDB, nothing else changes, and undo brings them back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.rocksdb.bases import opened
from tests.rocksdb.test_entries import entry
from tests.support import stores
from tests.support.cli import Run, rmqstore

BROKER = "broker-5.5.1-rocksdb-clean"
ALONE = ("5.2.0-rocksdb", "5.3.3-rocksdb", "5.5.1-rocksdb")
_REFUSED = 3


def _convert(root: Path, name: str, *words: str) -> Run:
    return rmqstore("convert", root, "--to", "files", "--yes", "--format", "json", *stores.case(name).set_options(root), *words)


def _plan(done: Run) -> dict[str, Any]:
    (plan,) = (one for one in done.objects if one["type"] == "plan")
    return plan


def _rows(command: str, root: Path) -> list[dict[str, Any]]:
    done = rmqstore(command, root, "--format", "json")
    assert done.status == 0, done.err
    changing = ("bytes", "type")
    return [{key: value for key, value in one.items() if key not in changing} for one in done.objects if one["type"] != "summary"]


@pytest.mark.parametrize("name", [*ALONE, BROKER])
def test_lists_show_the_same_from_files(name: str, tmp_path: Path) -> None:
    root = stores.fresh_store(name, tmp_path)
    commands = ("queues", "topics", "groups") if name == BROKER else ("queues",)
    before = {command: _rows(command, root) for command in commands}
    content = stores.content(root)

    done = _convert(root, name)

    assert done.status == 0, done.err
    assert {command: _rows(command, root) for command in commands} == before
    assert not any(path.name == "CURRENT" for path in (root / "consumequeue").rglob("*"))
    assert [path.name for path in (root / "config").rglob("CURRENT")] == []
    assert _plan(done)["lost"] == []
    assert rmqstore("verify", root).status == 0
    assert _plan(_convert(root, name))["actions"] == []

    undone = rmqstore("undo", root, "--yes", *stores.case(name).set_options(root))

    assert undone.status == 0, undone.err
    assert {path: digest for path, digest in stores.content(root).items() if not path.startswith(".rmqstore")} == content


def test_a_store_whose_database_a_repair_moved_away(tmp_path: Path) -> None:
    root = stores.fresh_store("5.3.3-rocksdb", tmp_path)
    before = _rows("queues", root)
    with opened(root / "consumequeue") as families:
        del families["default"][entry(5)]
    assert rmqstore("recover", root, "--yes", *stores.case("5.3.3-rocksdb").set_options(root)).status == 0

    done = _convert(root, "5.3.3-rocksdb")

    assert done.status == 0, done.err
    assert _rows("queues", root) == before
    assert not [path for path in (root / "consumequeue").iterdir() if path.is_file()]
    assert rmqstore("verify", root).out.splitlines()[-1] == "HEALTHY"


def test_configuration_has_all_entries_of_the_databases(tmp_path: Path) -> None:
    root = stores.fresh_store(BROKER, tmp_path)
    with opened(root / "config" / "topics") as families:
        topics = {key.decode(): json.loads(value) for key, value in families["default"].items()}
    with opened(root / "config" / "subscriptionGroups") as families:
        groups = {key.decode(): json.loads(value) for key, value in families["default"].items()}

    assert _convert(root, BROKER).status == 0

    assert json.loads((root / "config" / "topics.json").read_text())["topicConfigTable"] == topics
    assert json.loads((root / "config" / "subscriptionGroup.json").read_text())["subscriptionGroupTable"] == groups


def test_a_store_in_files_stays_as_it_is(tmp_path: Path) -> None:
    root = stores.fresh_store("5.3.3-plain", tmp_path)

    done = _convert(root, "5.3.3-plain")

    assert (done.status, _plan(done)["actions"]) == (0, [])
    assert "in files already" in _plan(done)["notes"][0]


def test_queues_of_which_only_the_database_knows_the_end_are_named(tmp_path: Path) -> None:
    root = stores.fresh_store("5.3.3-rocksdb", tmp_path)
    with opened(root / "consumequeue") as families:
        key = entry(0, 77)
        families["default"][key] = (-1).to_bytes(8, "big", signed=True) + bytes(20)
        families["offset"][key[: -4 - 1 - 8] + b"max\x01" + key[-13:-9]] = bytes(15) + b"\x05"

    notes = " ".join(_plan(_convert(root, "5.3.3-rocksdb"))["notes"])

    assert "1 queue without a record in the log" in notes
    assert "topic-b_2/77" in notes


def test_a_configuration_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    root = stores.fresh_store(BROKER, tmp_path)
    content = stores.content(root)
    with opened(root / "config" / "topics") as families:
        families["default"][b"strange"] = b"{"
    changed = stores.content(root)

    done = _convert(root, BROKER)

    assert done.status == _REFUSED
    assert "cannot be read" in done.err
    assert changed != content
    assert stores.content(root) == changed


def test_queues_in_both_places_are_refused(tmp_path: Path) -> None:
    root = stores.fresh_store("5.3.3-rocksdb", tmp_path)
    queue = root / "consumequeue" / "TopicA" / "0"
    queue.mkdir(parents=True)
    (queue / "0".zfill(20)).write_bytes(bytes(6_000_000))

    done = _convert(root, "5.3.3-rocksdb")

    assert done.status == _REFUSED
    assert "in files and in RocksDB" in done.err


def _to_v2(root: Path, *words: str) -> Run:
    return rmqstore("convert", root, "--to", "config-v2", "--yes", "--format", "json", *words)


@pytest.mark.parametrize("name", ["broker-5.5.1-crash", BROKER])
def test_the_configuration_is_in_one_database(name: str, tmp_path: Path) -> None:
    """From JSON files, and from the databases of v1, into `config/rdb`, and from there into files."""
    root, options = stores.fresh_store(name, tmp_path), stores.case(name).set_options(stores.sample_store(name))
    before, content = {command: _rows(command, root) for command in ("topics", "groups")}, stores.content(root)

    done = _to_v2(root, "--broker-version", "5.5.1", *options)

    assert done.status == 0, done.err
    assert {command: _rows(command, root) for command in before} == before
    assert [path.parent.name for path in (root / "config").rglob("CURRENT")] == ["rdb"]
    assert not list((root / "config").glob("topics*"))
    assert _plan(_to_v2(root, "--broker-version", "5.5.1", *options))["actions"] == []
    assert rmqstore("undo", root, "--yes", *options).status == 0
    assert {path: digest for path, digest in stores.content(root).items() if not path.startswith(".rmqstore")} == content

    assert _to_v2(root, "--broker-version", "5.5.1", *options).status == 0
    assert _convert(root, name).status == 0
    assert {command: _rows(command, root) for command in before} == before
    assert (root / "config" / "topics.json").exists() and not list((root / "config").rglob("CURRENT"))


@pytest.mark.parametrize(("release", "damage", "told"), [("5.3.1", False, "knows no configManagerVersion"), ("5.5.1", True, "topics.json")])
def test_a_configuration_that_cannot_move_is_refused(release: str, damage: bool, told: str, tmp_path: Path) -> None:
    root = stores.fresh_store("broker-5.5.1-crash", tmp_path)
    for name in ("topics.json", "topics.json.bak") if damage else ():
        (root / "config" / name).write_bytes(b"{")
    content = stores.content(root)

    done = _to_v2(root, "--broker-version", release)

    assert done.status == _REFUSED
    assert told in done.err
    assert stores.content(root) == content


def test_what_a_database_of_v2_does_not_hold_is_named(tmp_path: Path) -> None:
    root = stores.fresh_store("broker-5.5.1-crash", tmp_path)
    path = root / "config" / "consumerOffset.json"
    hostile = '"strange":{0:1},"a@b":{"x":1},"a@c":{0:99999999999999999999},"a@d":{0:1.5},"a@e":[],"' + "n" * 70000 + '@g":{0:1},'
    path.write_text(path.read_text().replace('"offsetTable":{', '"offsetTable":{' + hostile, 1))

    notes = " ".join(_plan(_to_v2(root, "--broker-version", "5.5.1"))["notes"])

    assert all(f"'{name}'" in notes for name in ("strange", "a@b", "a@c", "a@d", "a@e")) and "nnn" in notes
