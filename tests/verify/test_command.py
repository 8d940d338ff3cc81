"""`rmqstore verify` as a command: exit status, what its options leave out, and what it says at the end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.builder import StoreBuilder
from tests.support.cli import Run, rmqstore
from tests.support.stores import fresh_store
from tests.verify.small_stores import SIZE, filled, log_name, patch, patch_unit, queue_name


def run(builder: StoreBuilder, *arguments: str | Path) -> Run:
    settings = [f"--set={key}={value}" for key, value in builder.settings.items()]
    return rmqstore("verify", builder.root, "--format", "json", *settings, *arguments)


def told(result: Run) -> list[str]:
    assert not result.crashed, result.err
    return sorted(item["code"].removeprefix("RMQ-") for item in result.objects if item["type"] == "finding")


def summary(result: Run) -> dict[str, Any]:
    assert result.objects[-1]["type"] == "summary"
    return result.objects[-1]


@pytest.fixture
def damaged(tmp_path: Path) -> StoreBuilder:
    """Two topics: a body, three units of TopicA and one of TopicB, and an index item are damaged."""
    builder = filled(StoreBuilder(tmp_path / "store"), 6)
    builder.message("TopicB", keys="b")
    root = builder.build()
    patch(root / log_name(), 2 * SIZE + 88, b"\xff")
    for number in (0, 2, 4):
        patch_unit(root, number, bytes(7) + b"\7")
    patch(root / queue_name(topic="TopicB"), 15, b"\5")
    patch(next((root / "index").iterdir()), 39, b"\2")
    return builder


EVERYTHING = ["CL-CRC", "CQ-TAGS", "CQ-UNIT", "CQ-UNIT", "CQ-UNIT", "IX-COUNT"]


def test_all_of_it(damaged: StoreBuilder) -> None:
    result = run(damaged)

    assert result.status == 1
    assert told(result) == EVERYTHING
    last = summary(result)
    assert (last["findings"], last["records"], last["severities"]) == (6, 7, {"info": 0, "warning": 0, "error": 6})
    assert last["codes"] == {"RMQ-CL-CRC": 1, "RMQ-CQ-TAGS": 1, "RMQ-CQ-UNIT": 3, "RMQ-IX-COUNT": 1}
    assert {"bytes", "seconds", "bytes_per_second"} <= set(last)


def test_a_sound_store(tmp_path: Path) -> None:
    builder = filled(StoreBuilder(tmp_path / "store"), 3)
    builder.build()

    result = run(builder)

    assert (result.status, told(result)) == (0, [])


def test_warnings_do_not_fail(tmp_path: Path) -> None:
    builder = filled(StoreBuilder(tmp_path / "store"), 3)
    patch(builder.build() / log_name(), 3 * SIZE, b"not a record")

    result = run(builder)

    assert (result.status, told(result)) == (0, ["CL-TAILBYTES"])


@pytest.mark.parametrize(
    ("parts", "codes"),
    [
        (["commitlog"], ["CL-CRC"]),
        (["consumequeue"], ["CQ-TAGS", "CQ-UNIT", "CQ-UNIT", "CQ-UNIT"]),
        (["index"], ["IX-COUNT"]),
        (["commitlog", "index"], ["CL-CRC", "IX-COUNT"]),
        (["checkpoint"], []),
    ],
)
def test_parts(damaged: StoreBuilder, parts: list[str], codes: list[str]) -> None:
    result = run(damaged, *[f"--part={part}" for part in parts])

    assert told(result) == codes
    assert result.status == (1 if codes else 0)


@pytest.mark.parametrize(
    ("topic", "codes"), [("TopicB", ["CQ-TAGS", "IX-COUNT"]), ("TopicA", ["CL-CRC", "CQ-UNIT", "CQ-UNIT", "CQ-UNIT", "IX-COUNT"])]
)
def test_topics(damaged: StoreBuilder, topic: str, codes: list[str]) -> None:
    assert told(run(damaged, "--topic", topic)) == codes


def test_quick_leaves_bodies_out(damaged: StoreBuilder) -> None:
    assert told(run(damaged, "--quick")) == [code for code in EVERYTHING if code != "CL-CRC"]


@pytest.mark.parametrize(("limit", "printed"), [(0, 0), (1, 4), (2, 5), (9, 6)])
def test_a_limit_is_for_each_code_and_all_are_counted(damaged: StoreBuilder, limit: int, printed: int) -> None:
    result = run(damaged, "--limit", str(limit))

    assert len(told(result)) == printed
    assert summary(result)["codes"]["RMQ-CQ-UNIT"] == 3
    assert result.status == 1


def test_a_baseline_leaves_what_is_new(damaged: StoreBuilder, tmp_path: Path) -> None:
    baseline = tmp_path / "baseline.json"
    baseline.write_text(run(damaged).out)

    again = run(damaged, "--baseline", baseline)
    assert (again.status, told(again), summary(again)["in_baseline"]) == (0, [], 6)

    patch(damaged.root / log_name(), 5 * SIZE + 88, b"\xff")
    new = run(damaged, "--baseline", baseline)
    assert (new.status, told(new), summary(new)["in_baseline"]) == (1, ["CL-CRC"], 6)


@pytest.mark.parametrize("content", ["no json", "[1]\n", None])
def test_a_baseline_that_is_none(damaged: StoreBuilder, tmp_path: Path, content: str | None) -> None:
    baseline = tmp_path / "baseline.json"
    if content is not None:
        baseline.write_text(content)

    result = run(damaged, "--baseline", baseline)

    assert result.status == 4
    assert not result.crashed


@pytest.mark.parametrize("threads", ["1", "2", "5"])
def test_threads_do_not_change_the_findings_or_their_order(tmp_path: Path, threads: str) -> None:
    builder = StoreBuilder(tmp_path / "store", log_file_size=300, slots=20, items=10)
    for number in range(40):
        builder.message("TopicA" if number % 3 else "TopicB", queue_id=number % 2, keys=f"k{number}", tags="T")
    root = builder.build()
    for start in (300, 2100, 4500):
        patch(root / log_name(start), 100, b"\xee" * 30)

    alone = run(builder, "--threads", "1")
    together = run(builder, "--threads", threads)

    assert len(told(alone)) > 5
    assert together.objects[:-1] == alone.objects[:-1]


def test_a_file_that_cannot_be_read_is_a_finding(damaged: StoreBuilder) -> None:
    path = damaged.root / queue_name()
    path.unlink()
    os.mkfifo(path)

    result = run(damaged)

    assert not result.crashed
    assert result.status == 1


def test_positions_and_offsets_in_json(damaged: StoreBuilder) -> None:
    found = next(item for item in run(damaged).objects if item.get("code") == "RMQ-CQ-TAGS")

    assert found["file"] == queue_name(topic="TopicB")
    assert (found["position"], found["length"], found["offset"], found["topic"], found["queue_id"], found["queue_offset"]) == (
        0, 20, 6 * SIZE, "TopicB", 0, 0,
    )  # fmt: skip
    assert found["severity"] == "error"
    assert found["mend"]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["--queue", "TopicA/1"], {("TopicA", 1)}),
        (["--queue", "TopicA/1", "--queue", "Orders/0"], {("TopicA", 1), ("Orders", 0)}),
        (["--queue", "1"], {("TopicA", 1), ("Orders", 1)}),
        (["--topic", "Orders", "--queue", "1"], {("Orders", 1)}),
        (["--topic", "Orders", "--queue", "TopicA/1"], set()),
    ],
)
def test_findings_of_a_queue(options: list[str], wanted: set[tuple[str, int]], tmp_path: Path) -> None:
    root = fresh_store("5.3.3-plain", tmp_path)
    for topic, queue_id in (("TopicA", 0), ("TopicA", 1), ("Orders", 0), ("Orders", 1)):
        path = next((root / "consumequeue" / topic / str(queue_id)).iterdir())
        path.write_bytes(b"\x01" * 20 + path.read_bytes()[20:])

    run = rmqstore("verify", root, *options, "--json")

    *found, summary = run.objects
    assert {(one["topic"], one["queue_id"]) for one in found if one.get("topic")} == wanted
    assert run.status == (1 if wanted else 0)
    assert "of queues only" in summary["verdict"]


def test_a_queue_that_is_none(tmp_path: Path) -> None:
    run = rmqstore("verify", fresh_store("5.3.3-plain", tmp_path), "--queue", "TopicA/x")
    assert (run.status, "is no queue" in run.err) == (2, True)
