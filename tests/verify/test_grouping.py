"""Many findings of one code are one with a count, the first places, and a number by which a later run knows them again."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from rmqstore.verify.grouping import MOST_ALONE
from tests.support.builder import StoreBuilder
from tests.support.cli import Run, rmqstore
from tests.verify.small_stores import log_name, patch

RECORDS = 60
SIZE = 108


@pytest.fixture
def damaged(tmp_path: Path) -> StoreBuilder:
    """Every second body is damaged, and one unit."""
    builder = StoreBuilder(tmp_path / "it's a store")
    for _ in range(RECORDS):
        builder.message(tags="T")
    root = builder.build()
    assert builder.offset == RECORDS * SIZE
    for number in range(0, RECORDS, 2):
        patch(root / log_name(), number * SIZE + 88, b"\xff")
    patch(root / "consumequeue" / "TopicA" / "0" / "00000000000000000000", 15, b"\5")
    return builder


def run(builder: StoreBuilder, *words: str | Path) -> Run:
    settings = [f"--set={key}={value}" for key, value in builder.settings.items()]
    return rmqstore("verify", builder.root, *settings, *words)


def test_one_finding_with_a_count(damaged: StoreBuilder) -> None:
    *findings, summary = run(damaged, "--format", "json").objects

    (group,) = [one for one in findings if one["code"] == "RMQ-CL-CRC"]
    assert group["count"] == RECORDS // 2 > MOST_ALONE
    assert (group["offset"], [place["offset"] for place in group["places"]]) == (0, [number * SIZE for number in (2, 4, 6, 8, 10)])
    assert group["message"].startswith("30 findings of this kind, the first: ")
    assert ["count" in one for one in findings if one["code"] == "RMQ-CQ-TAGS"] == [False]
    assert (summary["codes"]["RMQ-CL-CRC"], summary["errors"]) == (30, 31)


def test_for_people(damaged: StoreBuilder) -> None:
    text = run(damaged).out

    assert text.count("RMQ-CL-CRC  ") == 2  # the finding, and the table of codes
    assert text.count("also: ") == 5
    assert "each of them: --all" in text


@pytest.mark.parametrize("words", [["--all"], ["--limit", "1000"]])
def test_each_of_them(damaged: StoreBuilder, words: list[str]) -> None:
    findings = run(damaged, "--format", "json", *words).objects[:-1]

    assert [one["offset"] for one in findings if one["code"] == "RMQ-CL-CRC"] == [number * SIZE for number in range(0, RECORDS, 2)]


@pytest.mark.parametrize("words", [[], ["--all"]])
def test_a_baseline_knows_them_again_and_notices_one_more(damaged: StoreBuilder, tmp_path: Path, words: list[str]) -> None:
    baseline = tmp_path / "baseline.json"
    baseline.write_text(run(damaged, "--format", "json", *words).out)

    again = run(damaged, "--format", "json", "--baseline", baseline)
    assert (again.status, len(again.objects)) == (0, 1)
    assert again.objects[-1]["in_baseline"] == 31

    patch(damaged.root / log_name(), SIZE + 88, b"\xff")
    more = run(damaged, "--format", "json", "--baseline", baseline)
    assert more.status == 1
    assert "RMQ-CL-CRC" in more.objects[-1]["codes"]


def test_commands_can_be_pasted(damaged: StoreBuilder) -> None:
    for found in run(damaged, "--format", "json").objects[:-1]:
        for command in found["mend"].split("`")[1::2]:
            words = shlex.split(command)
            if words[:2] == ["rmqstore", "recover"]:
                assert words[2] == str(damaged.root)
                assert words[-8:] == [word for item in damaged.settings.items() for word in ("--set", "=".join(item))]


def test_no_command_says_store(damaged: StoreBuilder) -> None:
    assert re.search(r"`rmqstore [^`]*\bSTORE\b", run(damaged).out) is None
