"""Findings say what is meant: no false one where brokers did the same, and no evidence that shows nothing."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from rmqstore.findings import Finding, Severity
from rmqstore.formats.checkpoint import CHECKPOINT, parse_checkpoint
from rmqstore.formats.index import HEADER as INDEX_HEADER
from rmqstore.scan.indexshape import guess_geometry
from rmqstore.store.mapped import MappedFile
from rmqstore.store.root import Store
from tests.support import stores
from tests.support.builder import StoreBuilder
from tests.support.cli import rmqstore
from tests.support.verifying import DATA_PARTS, verify

BROKER = "broker-5.5.1-crash"


def codes(findings: Iterable[Finding]) -> list[str]:
    return sorted({finding.code.removeprefix("RMQ-") for finding in findings})


def told(findings: Iterable[Finding], code: str) -> list[Finding]:
    return [finding for finding in findings if finding.code == f"RMQ-{code}"]


@pytest.mark.parametrize(("old", "found"), [(1, ["CL-HOST"]), (2, [])])
def test_a_host_that_another_record_has_as_well_is_not_odd(tmp_path: Path, old: int, found: list[str]) -> None:
    """A broker with a new address writes half messages once more, with the address of before."""
    builder = StoreBuilder(tmp_path / "store")
    for number in range(12):
        builder.message(store_host="10.9.8.7:1" if number in range(3, 3 + 4 * old, 4) else "10.9.8.7:10911")

    assert codes(verify(builder.build(), builder.settings, DATA_PARTS)) == found


def test_offsets_at_the_end_of_the_log_are_not_beyond_it(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "store").message().message()
    root = builder.build()
    path = root / "checkpoint"
    path.write_bytes(CHECKPOINT.build({**parse_checkpoint(path.read_bytes()), "logics_physical_offset": builder.offset}))

    (finding,) = verify(root, builder.settings, ["checkpoint"])

    assert finding.message == f"logicsPhysicalOffset {builder.offset} is the end of the log: no record begins there"


def test_units_of_a_lost_end_name_it_without_equal_numbers(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "store").message(keys="a").message(keys="b")
    root = builder.build()
    path = root / "commitlog" / "00000000000000000000"
    data = bytearray(path.read_bytes())
    half = builder.offset // 2
    data[half:] = bytes(len(data) - half)
    path.write_bytes(data)

    findings = verify(root, builder.settings, DATA_PARTS)

    (unit,), (items,) = told(findings, "CQ-BEYOND"), told(findings, "IX-BEYOND")
    assert (unit.message, unit.expected) == (f"1 entry of records that the log does not have: it ends at {half}", None)
    assert (items.expected, items.found) == (None, half)
    assert all(finding.expected is None or finding.expected != finding.found for finding in findings)


def test_keys_without_an_index(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "store").message(keys="a b").message(keys="c")
    root = builder.build()
    shutil.rmtree(root / "index")

    (finding,) = verify(root, builder.settings, ["index"])

    assert (finding.message, finding.expected, finding.found) == ("none of the 3 keys of the log has an index entry", 3, 0)


def test_a_length_by_the_setting_is_called_a_setting(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "store").message()
    root = builder.build()

    findings = verify(root, {**builder.settings, "mappedFileSizeCommitLog": str(1 << 30)}, DATA_PARTS)

    assert ["the setting (given or default) is 1073741824" in one.message for one in told(findings, "CL-FILELEN")] == [True]


@pytest.mark.parametrize("slots", [32, 50, 100, 1000])
@pytest.mark.parametrize("messages", [1, 2, 10])
def test_slots_of_an_index_file_with_few_items(tmp_path: Path, slots: int, messages: int) -> None:
    builder = StoreBuilder(tmp_path / "store", slots=slots, items=128)
    for number in range(messages):
        builder.message(keys=f"k{number}")
    files = [MappedFile(file.path, 0, file.length, file.allocated) for file in Store.open(builder.build()).index_files()]

    assert guess_geometry(files) == (slots, 128)


@pytest.mark.parametrize("name", ["4.9.8-plain", "5.3.3-manyfiles-crash", "5.5.1-plain-crash", "broker-5.3.3-cqext-crash", BROKER])
def test_slots_of_the_index_files_of_brokers(name: str) -> None:
    """By each file alone; `dump` says the same as `verify` goes by."""
    root = stores.sample_store(name)
    settings = stores.case(name).settings(root)
    shape = int(settings["maxHashSlotNum"]), int(settings["maxIndexNum"])
    for file in Store.open(root).index_files():
        mapped = MappedFile(file.path, 0, file.length, file.allocated)
        if INDEX_HEADER.parse(file.path.read_bytes()[:40]).index_count > 1:
            assert guess_geometry([mapped]) == shape, file.path
            header = rmqstore("dump", file.path, "--format", "json").objects[0]
            assert header["slots"] == shape[0]


@pytest.mark.parametrize("header", [bytes(40), random.Random(5).randbytes(40)], ids=["zeros", "random"])
def test_slots_of_an_index_file_with_a_damaged_header(header: bytes, fresh_store: Callable[[str], Path]) -> None:
    """The content alone shows them, so that `verify` reports the header and `recover` brings the file back."""
    root = fresh_store("5.5.1-batchcq")
    (path,) = (root / "index").iterdir()
    sound = path.read_bytes()
    path.write_bytes(header + sound[40:])

    assert rmqstore("verify", root).status == 1
    assert rmqstore("recover", root, "--yes").status == 0

    (path,) = (root / "index").iterdir()
    assert path.read_bytes() == sound


def test_slots_of_a_file_with_room_for_many(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "store", slots=10_000_000, items=9_000_000)
    for number in range(2000):
        builder.message(keys=f"k{number}")
    (file,) = Store.open(builder.build()).index_files()

    assert guess_geometry([MappedFile(file.path, 0, file.length, file.allocated)]) == (10_000_000, 9_000_000)


@pytest.fixture
def without_topic(tmp_path: Path) -> tuple[Path, dict[str, str], str]:
    """A store of a real broker, and one of its topics with consumers, cut out of topics.json and its backup."""
    root = stores.fresh_store(BROKER, tmp_path)
    topic = "one"  # consumerOffset.json has "one@g_orders"
    for name in ("topics.json", "topics.json.bak"):
        path = root / "config" / name
        if path.exists():
            value = json.loads(path.read_text())
            value["topicConfigTable"].pop(topic, None)
            path.write_text(json.dumps(value))
    return root, stores.case(BROKER).settings(root), topic


def test_a_topic_that_is_cut_out_is_an_error(without_topic: tuple[Path, dict[str, str], str]) -> None:
    root, settings, topic = without_topic

    (finding,) = told(verify(root, settings, ["config"]), "CF-LOST")

    assert (finding.topic, finding.severity) == (topic, Severity.ERROR)


def test_a_lost_topic_is_not_taken_for_a_deleted_one(without_topic: tuple[Path, dict[str, str], str]) -> None:
    root, settings, topic = without_topic
    shutil.rmtree(root / "consumequeue" / topic)

    found = [finding for finding in verify(root, settings, ["consumequeue"]) if finding.topic == topic]

    assert codes(found) == ["CQ-MISSING"]


def test_a_topic_without_consumers_may_have_been_deleted(without_topic: tuple[Path, dict[str, str], str]) -> None:
    root, settings, topic = without_topic
    for name in ("consumerOffset.json", "consumerOffset.json.bak"):
        (root / "config" / name).write_text('{"offsetTable":{}}')
    findings = verify(root, settings, ["config"])
    assert [(one.topic, one.severity) for one in told(findings, "CF-LOST")] == [(topic, Severity.WARNING)]

    shutil.rmtree(root / "consumequeue" / topic)

    assert codes(one for one in verify(root, settings, ["consumequeue"]) if one.topic == topic) == ["CQ-DELETED"]
