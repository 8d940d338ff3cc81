"""Lengths and types of rebuilt files come from evidence, in this order, and a plan says where a default took its place."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from rmqstore.repair.derived.settings_evidence import evidence_of, settings_of
from rmqstore.repair.procedure import RepairRequest, Result, execute
from rmqstore.repair.recover import Recovery
from rmqstore.store.root import Store
from tests.repair.every_action import Yes
from tests.support import stores

BASE = "5.3.3-plain"
SIZES = {"consumequeue": "mappedFileSizeConsumeQueue", "batchconsumequeue": "mapperFileSizeBatchConsumeQueue"}


def recover(root: Path, base: str, settings: Mapping[str, str], *, completely: bool = True) -> Result:
    release = stores.case(base).release

    def opened() -> Store:
        return Store.open(root, settings=settings)

    result = execute(RepairRequest("recover", release, opened, Recovery(release).plan), Yes())
    assert not completely or (result.errors, result.left) == ({}, 0)
    return result


def without(base: str, root: Path, *keys: str) -> dict[str, str]:
    """The settings of a sample store but some."""
    return {key: value for key, value in stores.case(base).settings(root).items() if key not in keys}


def lengths(root: Path, part: str) -> set[int]:
    return {path.stat().st_size for path in (root / part).rglob("*") if path.is_file()}


def contents(root: Path, part: str) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in (root / part).rglob("*") if path.is_file()}


def notes_on(result: Result, word: str) -> list[str]:
    return [note for note in result.plan.notes if word in note]


def test_without_any_evidence_it_is_the_default_and_the_plan_says_so(tmp_path: Path) -> None:
    root = stores.fresh_store(BASE, tmp_path)
    shutil.rmtree(root / "consumequeue")
    result = recover(root, BASE, without(BASE, root, SIZES["consumequeue"]))
    assert lengths(root, "consumequeue") == {6_000_000}
    (note,) = notes_on(result, "mappedFileSizeConsumeQueue")
    assert "default length of 6000000 bytes" in note
    assert "--set mappedFileSizeConsumeQueue=BYTES" in note


@pytest.mark.parametrize("source", ["setting", "copy", "quarantine", "earlier plan", "other queues"])
def test_evidence_comes_before_the_default(source: str, tmp_path: Path) -> None:
    root = stores.fresh_store(BASE, tmp_path)
    before = contents(root, "consumequeue")
    settings = without(BASE, root, SIZES["consumequeue"])
    tree = root / "consumequeue"
    match source:
        case "setting":
            settings = stores.case(BASE).settings(root)
            shutil.rmtree(tree)
        case "copy":
            tree.rename(root / "consumequeue.old")
        case "quarantine":
            folder = root / ".rmqstore" / "20200101-000000-000000-abcdef" / "quarantine"
            folder.mkdir(parents=True)
            tree.rename(folder / "consumequeue")
        case "earlier plan":
            (root / "commitlog" / "stray").write_text("x")
            recover(root, BASE, stores.case(BASE).settings(root))
            shutil.rmtree(tree)
        case _:
            for directory in sorted(tree.iterdir())[1:]:
                shutil.rmtree(directory)

    result = recover(root, BASE, settings)

    assert contents(root, "consumequeue") == before
    notes = notes_on(result, "mappedFileSizeConsumeQueue")
    if source in ("setting", "other queues"):
        assert notes == []
    else:
        assert ": 400 bytes, from " in notes[0]


@pytest.mark.parametrize("source", ["none", "copy"])
def test_index_files_take_their_shape_from_evidence(source: str, tmp_path: Path) -> None:
    root = stores.fresh_store(BASE, tmp_path)
    (root / "index").rename(root / "index.bak")
    if source == "none":
        shutil.rmtree(root / "index.bak")
    result = recover(root, BASE, without(BASE, root, "maxHashSlotNum", "maxIndexNum"))
    (note,) = notes_on(result, "maxHashSlotNum")
    assert "--set maxHashSlotNum=N --set maxIndexNum=N" in note
    if source == "none":
        assert "5000000 and 20000000, the defaults" in note
        assert lengths(root, "index") == {420_000_040}
    else:
        assert "from index.bak" in note
        assert lengths(root, "index") == lengths(root, "index.bak")


@pytest.mark.parametrize("base", ["5.1.4-batchcq", "5.3.3-batchcq-crash", "5.5.1-batchcq"])
def test_inner_batches_make_batch_queues_without_topics_json(base: str, tmp_path: Path) -> None:
    root = stores.fresh_store(base, tmp_path)
    before = contents(root, "batchconsumequeue")
    shutil.rmtree(root / "batchconsumequeue")

    result = recover(root, base, stores.case(base).settings(root))

    assert contents(root, "batchconsumequeue") == before
    assert not (root / "consumequeue" / "BatchTopic").exists()
    assert notes_on(result, "BatchTopic are inner batches")


def test_a_configured_type_comes_before_that_of_the_records(tmp_path: Path) -> None:
    """With a topic that is configured as SimpleCQ no broker starts on batch queues of it."""
    base = "5.3.3-batchcq-crash"
    root = stores.fresh_store(base, tmp_path)
    shutil.rmtree(root / "batchconsumequeue")
    (root / "config").mkdir()
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": {"BatchTopic": {"topicName": "BatchTopic"}}}))
    recover(root, base, stores.case(base).settings(root), completely=False)
    assert not (root / "batchconsumequeue").exists()
    assert (root / "consumequeue" / "BatchTopic").exists()


@pytest.mark.parametrize("lost", ["all queues", "lite queues"])
def test_offsets_in_lite_topics_say_that_their_queues_were_filled(lost: str, tmp_path: Path) -> None:
    base = "broker-4.9.7-lmq-crash"
    root = stores.fresh_store(base, tmp_path)
    lites = {path: data for path, data in contents(root, "consumequeue").items() if "%LMQ%" in path}
    for directory in (root / "consumequeue").iterdir():
        if lost == "all queues" or directory.name.startswith("%LMQ%"):
            shutil.rmtree(directory)

    result = recover(root, base, without(base, root, "enableLmq", "enableMultiDispatch"))

    assert {path: data for path, data in contents(root, "consumequeue").items() if "%LMQ%" in path} == lites
    (note,) = notes_on(result, "enableLmq")
    assert "config/lmqConsumerOffset.json has offsets in %LMQ% topics" in note


def test_settings_that_are_given_need_no_evidence(tmp_path: Path) -> None:
    base = "broker-4.9.7-lmq-crash"
    root = stores.fresh_store(base, tmp_path)
    shutil.rmtree(root / "consumequeue")
    settings = {**stores.case(base).settings(root), "enableLmq": "false", "enableMultiDispatch": "false"}
    store = Store.open(root, settings=settings)
    assert (settings_of(store).enable_lmq, settings_of(store).enable_multi_dispatch) == (False, False)
    assert "%LMQ%" not in evidence_of(store).notes


@pytest.mark.parametrize("earlier", [True, False])
def test_a_single_log_file_that_was_cut(earlier: bool, tmp_path: Path) -> None:
    root = stores.fresh_store(BASE, tmp_path)
    settings = stores.case(BASE).settings(root)
    first, *others = sorted((root / "commitlog").iterdir())
    for path in others:
        path.unlink()
    if earlier:
        recover(root, BASE, settings)
    with first.open("r+b") as stream:
        stream.truncate(60_000)

    result = recover(root, BASE, without(BASE, root, "mappedFileSizeCommitLog"))

    (note,) = notes_on(result, "--set mappedFileSizeCommitLog=BYTES")
    assert "60000 bytes is used" in note
    assert ("an earlier transaction had 65536" in note) is earlier
