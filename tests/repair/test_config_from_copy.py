"""Configuration that is lost here and whole in another copy is taken from there, each entry with its origin, and nothing else."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from rmqstore.store.fastjson import parse
from tests.support import stores
from tests.support.cli import Run, rmqstore

NAME = "broker-5.5.1-crash"
FILES = {"topics.json": "topicConfigTable", "subscriptionGroup.json": "subscriptionGroupTable", "consumerOffset.json": "offsetTable"}


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    root = stores.fresh_store(NAME, tmp_path)
    other = tmp_path / "other"
    shutil.copytree(root, other, symlinks=True)
    return root, other


def table(root: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = parse((root / "config" / name).read_bytes()).value[FILES[name]]
    return found


def garbage(root: Path, name: str) -> None:
    for ending in ("", ".bak"):
        (root / "config" / f"{name}{ending}").write_bytes(b"\0" * 500)


def recovered(root: Path, *options: str | Path) -> Run:
    words = ["--broker-version", stores.case(NAME).release, *stores.case(NAME).set_options(root)]
    return rmqstore("recover", root, "--yes", "--json", *words, *options)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_cannot_be_read_is_taken_from_the_copy(name: str, pair: tuple[Path, Path]) -> None:
    root, other = pair
    garbage(root, name)
    done = recovered(root, "--from", other)
    assert done.status == 0, done.err
    assert table(root, name) == table(other, name)
    origins = {(entry["origin"], entry["why"]) for entry in done.objects[0]["configuration"] if entry["file"] == name}
    assert origins == {("other copy", f"{other}/config/{name}")}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", ["archive", "URI"])
def test_archives_and_uris_have_it_too(kind: str, name: str, pair: tuple[Path, Path], tmp_path: Path) -> None:
    root, other = pair
    archive = tmp_path / "other.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(other, "backup/store")
    copy = str(archive) if kind == "archive" else other.as_uri()
    garbage(root, name)
    done = recovered(root, "--from", copy)
    assert done.status == 0, done.err
    assert table(root, name) == table(other, name)
    origins = {(entry["origin"], entry["why"]) for entry in done.objects[0]["configuration"] if entry["file"] == name}
    assert origins == {("other copy", f"{copy}/config/{name}")}


def test_a_missing_file_is_taken_from_the_copy(pair: tuple[Path, Path]) -> None:
    root, other = pair
    for ending in ("", ".bak"):
        (root / "config" / f"topics.json{ending}").unlink(missing_ok=True)
    assert recovered(root, "--from", other).status == 0
    assert table(root, "topics.json") == table(other, "topics.json")


def test_what_can_be_read_here_counts_more(pair: tuple[Path, Path]) -> None:
    """The first half of the file is here, with other offsets than in the copy."""
    root, other = pair
    path = root / "config" / "consumerOffset.json"
    for each in (other / "config").glob("consumerOffset.json*"):
        offsets = parse(each.read_bytes()).value
        offsets["offsetTable"] = {key: dict.fromkeys(queues, 0) for key, queues in offsets["offsetTable"].items()}
        each.write_text(json.dumps(offsets))
    before = table(root, "consumerOffset.json")
    text = path.read_text()
    garbage(root, "consumerOffset.json")
    path.write_text(text[: len(text) // 2])

    done = recovered(root, "--from", other)

    after = table(root, "consumerOffset.json")
    assert after.keys() == before.keys()
    kept = [key for key in after if after[key] == before[key] and any(before[key].values())]
    taken = [key for key in after if not any(after[key].values())]
    assert len(kept) > 2 and len(taken) > 2
    assert "can be older than the lost ones" in " ".join(done.objects[0]["notes"])


def test_the_newest_copy_is_taken(pair: tuple[Path, Path], tmp_path: Path) -> None:
    root, other = pair
    newer = tmp_path / "newer"
    shutil.copytree(other, newer, symlinks=True)
    topics = json.loads((newer / "config" / "topics.json").read_text())
    topics["dataVersion"]["timestamp"] += 1000
    topics["topicConfigTable"]["added_later"] = {**topics["topicConfigTable"]["orders"], "topicName": "added_later"}
    (newer / "config" / "topics.json").write_text(json.dumps(topics))
    garbage(root, "topics.json")
    assert recovered(root, "--from", other, "--from", newer).status == 0
    assert "added_later" in table(root, "topics.json")


def test_nothing_is_taken_where_all_is_whole(pair: tuple[Path, Path]) -> None:
    root, other = pair
    topics = json.loads((other / "config" / "topics.json").read_text())
    topics["topicConfigTable"]["only_there"] = {**topics["topicConfigTable"]["orders"], "topicName": "only_there"}
    (other / "config" / "topics.json").write_text(json.dumps(topics))
    done = recovered(root, "--from", other)
    assert "only_there" not in table(root, "topics.json")
    assert [entry for entry in done.objects[0]["configuration"] if entry["origin"] == "other copy"] == []
