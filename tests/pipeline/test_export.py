"""An export holds what a dump tells, in every format, however the log is divided."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest

from rmqstore.dump.request import Filters
from rmqstore.errors import UsageError
from rmqstore.pipeline.export.request import PARTITIONS
from tests.pipeline.exporting import FORMATS, dumped, export, lines_of, parts_of, read, request, spelled
from tests.support.builder import StoreBuilder
from tests.support.cli import rmqstore
from tests.support.damages import DAMAGES, apply
from tests.support.stores import PUT_FIELDS, case, cases, fresh_store, sample_store, snapshot
from tests.support.storeview import StoreView

ALL = [one.name for one in cases()]
PUTS = [one.name for one in cases() if not one.is_broker]
WITHOUT_DLEDGER = [one.name for one in cases() if not one.data["settings"].get("enableDLegerCommitLog")]
DAMAGED = ["body-flip-mid", "field-topiclen-mid", "file-missing-middle", "garbage-300-mid", "torn-tail-half", "zero-record-mid"]


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What files hold does not depend on it."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", WITHOUT_DLEDGER)
def test_lines_are_those_of_a_dump(name: str, tmp_path: Path) -> None:
    root = sample_store(name)
    dump = rmqstore("dump", root, "--format", "json", "--body", "text", "--decompress", *case(name).set_options(root))
    expected = "".join(line for line in dump.out.splitlines(keepends=True) if line.startswith('{"type":"message"'))

    run = rmqstore("export", root, tmp_path / "out", "--body", "decoded", "--quiet", *case(name).set_options(root))

    assert run.status == 0, run.err
    assert lines_of(tmp_path / "out").decode() == expected


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", ALL)
def test_small_pieces_hold_the_same_in_every_format(name: str, tmp_path: Path) -> None:
    root = sample_store(name)
    expected = dumped(name, root, "--body", "none")
    # About ten pieces; opening a store for each of many takes its time.
    largest = max(5000, sum(one["size"] for one in expected) // 10)
    for format in FORMATS:
        sums = export(name, root, tmp_path / format, request(format), largest=largest, threads=3)
        assert sums["messages"] == len(expected)
    # CSV knows no null: what is not there is empty.
    assert read(tmp_path / "jsonl", "jsonl") == expected
    assert read(tmp_path / "parquet", "parquet") == expected
    assert without_empty(read(tmp_path / "csv", "csv")) == without_empty(spelled(expected))


def without_empty(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: item for key, item in one.items() if item != ""} for one in messages]


@pytest.mark.parametrize("name", PUTS)
def test_parquet_holds_the_ground_truth(name: str, tmp_path: Path) -> None:
    truth = [line for line in case(name).truth() if line["physicalOffset"] >= case(name).min_phy_offset]

    export(name, sample_store(name), tmp_path / "out", request("parquet", columns=list(PUT_FIELDS.values())))

    assert read(tmp_path / "out", "parquet") == [{ours: line[theirs] for theirs, ours in PUT_FIELDS.items()} for line in truth]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["4.9.8-compressed", "5.5.1-compressed", "broker-5.3.3-dledger-clean"])
@pytest.mark.parametrize(("body", "options"), [("raw", []), ("decoded", ["--decompress"])])
def test_bodies_are_stored_or_decompressed(name: str, body: str, options: list[str], tmp_path: Path) -> None:
    root = sample_store(name)
    as_bytes = [bytes.fromhex(one["body"]) for one in dumped(name, root, "--body", "hex", *options)]
    as_text = dumped(name, root, "--body", "text" if body == "decoded" else "base64", *options)
    for format in FORMATS:
        export(name, root, tmp_path / format, request(format, body=body))

    assert [one["body"] for one in read(tmp_path / "parquet", "parquet")] == as_bytes
    assert read(tmp_path / "jsonl", "jsonl") == as_text
    assert without_empty(read(tmp_path / "csv", "csv")) == without_empty(spelled(as_text))


def test_a_body_that_cannot_be_decompressed_stays_as_it_is(tmp_path: Path) -> None:
    root = StoreBuilder(tmp_path / "store").message(body=b"no zlib", sys_flag=1).message(body=b"plain").build()
    for format in FORMATS:
        assert rmqstore("export", root, tmp_path / format, "--format", format, "--body", "decoded").status == 0
    expected = rmqstore("dump", root, "--format", "json", "--body", "text", "--decompress").objects[0]

    assert expected["faults"] == ["compression"]
    assert read(tmp_path / "jsonl", "jsonl")[0] == {key: item for key, item in expected.items() if key not in ("type", "schema")}
    for format, body in (("parquet", b"no zlib"), ("csv", "no zlib")):
        first, second = read(tmp_path / format, format)
        assert (first["body"], first["faults"]) == (body, ["compression"] if format == "parquet" else '["compression"]')
        assert "faults" not in second


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_store_is_exported_as_far_as_it_can_be_read(name: str, tmp_path: Path) -> None:
    root = fresh_store("5.3.3-plain", tmp_path)
    apply(DAMAGES[name](StoreView(root, case("5.3.3-plain").settings(root))), root)
    dump = rmqstore("dump", root, "--format", "json")
    damages = [one for one in dump.objects if one["type"] == "damage" and one["reason"] not in ("missing_file", "unwritten")]
    expected = dumped("5.3.3-plain", root)
    for format in FORMATS:
        for largest in (20_000, 1 << 30):
            out = tmp_path / f"{format}-{largest}"
            sums = export("5.3.3-plain", root, out, request(format), largest=largest, threads=2)
            assert (sums["damaged_ranges"], sums["damaged_bytes"]) == (len(damages), sum(one["length"] for one in damages))
            assert [int(one["position"]) for one in read(out, format)] == [one["position"] for one in expected]
        assert format == "csv" or read(out, format) == expected
    run = rmqstore("export", root, tmp_path / "told")
    assert run.status == 0
    assert ("damaged range" in run.err) == bool(damages)


FILTERS = [
    {"topic": "TopicA"},
    {"queue_id": 1},
    {"topic": "TopicA", "queue_id": 0, "queue_offset": 3},
    {"from_offset": 20_001},
    {"to_offset": 20_001},
    {"from_offset": 7_000, "to_offset": 70_000},
    {"from_time": 1795254108420},
    {"to_time": 1795254108420},
    {"tag": "TagA"},
    {"key": "common"},
    {"topic": "no such topic"},
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_filters_choose_what_they_choose_in_a_dump(filters: dict[str, Any], tmp_path: Path) -> None:
    name, root = "5.3.3-plain", sample_store("5.3.3-plain")
    names = {"queue_id": "queue"}
    options = [word for key, value in filters.items() for word in (f"--{names.get(key, key).replace('_', '-')}", str(value))]
    expected = dumped(name, root, *options)
    for format in FORMATS:
        for largest in (20_000, 1 << 30):
            out = tmp_path / f"{format}-{largest}"
            export(name, root, out, request(format, filters=Filters(**filters)), largest=largest)
            assert [int(one["position"]) for one in read(out, format)] == [one["position"] for one in expected]


def test_some_filters_choose_something_and_not_all() -> None:
    name, root = "5.3.3-plain", sample_store("5.3.3-plain")
    everything = len(dumped(name, root))

    assert all(0 < len(dumped(name, root, option, value)) < everything for option, value in (("--tag", "TagA"), ("--key", "common")))


def test_columns_come_in_the_order_asked_for(tmp_path: Path) -> None:
    columns = ["topic", "faults", "size", "properties"]
    for format in FORMATS:
        export("5.3.3-plain", sample_store("5.3.3-plain"), tmp_path / format, request(format, columns=columns))
    expected = [{name: one[name] for name in columns if name in one} for one in dumped("5.3.3-plain", sample_store("5.3.3-plain"))]

    assert read(tmp_path / "parquet", "parquet") == expected
    assert read(tmp_path / "jsonl", "jsonl") == expected
    assert parts_of(tmp_path / "csv", "csv")[0].read_text().splitlines()[0] == '"topic","faults","size","properties"'
    assert parts_of(tmp_path / "jsonl", "jsonl")[0].read_text().startswith('{"topic":')


@pytest.mark.parametrize("partition_by", [("topic", "day"), ("queue_id",), PARTITIONS])
def test_parquet_is_divided_as_hive_divides_it(partition_by: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, root = "5.3.3-plain", sample_store("5.3.3-plain")
    monkeypatch.setattr("rmqstore.pipeline.export.writers._GROUP_BYTES", 20_000)
    monkeypatch.setattr("rmqstore.pipeline.export.writers._MOST_OPEN", 3)

    export(name, root, tmp_path / "out", request("parquet", partition_by=partition_by), largest=40_000)

    table = pyarrow.dataset.dataset(tmp_path / "out", format="parquet", partitioning="hive").to_table()
    expected = dumped(name, root)
    assert sorted(table["position"].to_pylist()) == [one["position"] for one in expected]
    by_position = {one["position"]: one for one in expected}
    for row in table.select(["position", *partition_by]).to_pylist():
        message = by_position[row["position"]]
        day = f"{message['store_timestamp'] // 86_400_000}"
        assert all(str(row[column]) == str(message[column]) for column in partition_by if column != "day")
        assert "day" not in partition_by or (row["day"], day) == ("2026-11-21", "20778")


def test_a_topic_is_a_folder_name_even_with_odd_characters(tmp_path: Path) -> None:
    root = StoreBuilder(tmp_path / "store").message(topic="%RETRY%a|b").message(topic="../../x").message(topic="ä").build()

    assert rmqstore("export", root, tmp_path / "out", "--format", "parquet", "--partition-by", "topic").status == 0

    table = pyarrow.dataset.dataset(tmp_path / "out", format="parquet", partitioning="hive").to_table()
    assert table["topic"].to_pylist() == ["%RETRY%a|b", "../../x", "ä"] or set(table["topic"].to_pylist()) == {"%RETRY%a|b", "../../x", "ä"}
    assert {path.parent.parent for path in parts_of(tmp_path / "out", "parquet")} == {tmp_path / "out"}


def test_a_topic_too_long_for_a_folder_is_refused(tmp_path: Path) -> None:
    root = StoreBuilder(tmp_path / "store").message(topic="%" * 120).build()

    run = rmqstore("export", root, tmp_path / "out", "--format", "parquet", "--partition-by", "topic")

    assert (run.status, run.crashed) == (2, False)
    assert parts_of(tmp_path / "out", "parquet") == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"format": "jsonl", "columns": ["nothing"]}, "no column 'nothing'"),
        ({"format": "csv", "columns": ["body"]}, "no column body without bodies"),
        ({"format": "parquet", "columns": ["body_encoding"], "body": "raw"}, "no column 'body_encoding'"),
        ({"format": "csv", "partition_by": ["topic"]}, "--partition-by is for Parquet"),
        ({"format": "parquet", "partition_by": ["size"]}, "cannot be divided by 'size'"),
        ({"format": "parquet", "columns": ["topic"], "partition_by": ["topic", "day"]}, "No column would be left"),
    ],
)
def test_what_does_not_fit_together_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        request(**options)


def test_an_empty_log_gives_no_file_but_the_marks(tmp_path: Path) -> None:
    for format in FORMATS:
        out = tmp_path / format
        run = rmqstore("export", sample_store("5.5.1-empty"), out, "--format", format)
        assert run.status == 0
        assert {path.name for path in out.iterdir()} == {"_manifest", "_SUCCESS"}


def test_the_store_is_left_as_it_is(tmp_path: Path) -> None:
    root = sample_store("broker-5.5.1-crash")
    before = snapshot(root)

    assert rmqstore("export", root, tmp_path / "out", "--format", "parquet", "--body", "decoded").status == 0

    assert snapshot(root) == before
