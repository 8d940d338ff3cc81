"""What people see of statistics: bars, sparklines, and a page that holds together whatever a store is called or holds."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from rmqstore.render.bars import bar, sparkline, tables
from rmqstore.render.report import page
from rmqstore.render.timeline import hours
from tests.support.builder import FIRST_TIMESTAMP, StoreBuilder
from tests.support.cli import rmqstore


def row(dimension: str, value: Any, size: int, values: int = 1) -> dict[str, Any]:
    return {"type": "stats", "dimension": dimension, "value": value, "values": values, "messages": 1, "bytes": size}


@pytest.mark.parametrize(
    ("share", "text"), [(0, ""), (1e-9, "▏"), (0.5, "████"), (0.5 + 1 / 64, "████▏"), (0.55, "████▍"), (1, "████████")]
)
def test_a_bar_is_as_long_as_its_share(share: float, text: str) -> None:
    assert bar(share, 8) == text


def test_a_plain_bar_is_of_ascii_characters() -> None:
    assert (bar(0.5, 8, plain=True), bar(1e-9, 8, plain=True), bar(0, 8, plain=True)) == ("####", "#", "")


def test_a_sparkline_has_a_character_per_value_or_sums_neighbours() -> None:
    assert sparkline([0, 1, 4, 8]) == " ▂▅█"
    assert sparkline([1, 1, 8, 8], width=2) == "▂█"
    assert sparkline([1] * 145, width=72) == sparkline([3] * 48 + [1])
    assert sparkline([]) == ""
    assert sparkline([0, 1, 8], plain=True) == " .#"


def test_hours_without_messages_are_gaps() -> None:
    rows = [row("hour", "2026-11-21T22", 5), row("hour", "2026-11-22T01", 7)]

    assert hours(rows) == [("2026-11-21T22", 5), ("2026-11-21T23", 0), ("2026-11-22T00", 0), ("2026-11-22T01", 7)]


@pytest.mark.parametrize("odd", ["146140482-04-24T15", "1970-01-01T00"])
def test_a_clock_that_was_wrong_does_not_stretch_the_line(odd: str) -> None:
    rows = [row("hour", "2026-11-21T22", 5), row("hour", odd, 7)]

    assert hours(rows) == [("2026-11-21T22", 5), (odd, 7)]


def test_tables_tell_what_people_read() -> None:
    found = tables([row("tag", "", 5), row("tag", None, 3, 12), row("size", 1024, 9), row("weight", "dead_letter", 1)])

    assert [one["value"] for one in found["by tag"]] == ["(no tag)", "12 others"]
    assert found["by size of the record"][0]["value"] == "1.0 KiB to 2.0 KiB"
    assert found["live messages and reclaimable bytes"][0]["value"] == "dead letter"


class Nested(HTMLParser):
    """Demands that every element that is opened is closed, in the right order, and collects their names and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


HOSTILE = '<script>alert("1")</script>&amp;\'">'


def test_a_page_is_well_formed_whatever_values_hold() -> None:
    rows = [row(dimension, HOSTILE, 7) for dimension in ("store", "topic", "queue", "tag", "host", "day", "hour", "compression", "weight")]
    rows.insert(6, row("size", 128, 7))
    summary = {
        "stores": 2,
        "messages": 9,
        "bytes": 63,
        "log_bytes": 1024,
        "live_bytes": 7,
        "damaged_ranges": 0,
        "first_store_timestamp": None,
        "last_store_timestamp": None,
        "values": {},
    }

    parser = Nested()
    parser.feed(page(rows, summary, HOSTILE, HOSTILE))

    assert parser.open == []
    assert "script" not in parser.names
    assert not {"src", "href", "onload", "onerror"} & parser.attributes


def test_a_report_of_many_hours_and_sizes(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "store", log_file_size=1 << 20)
    for number in range(60):
        builder.message(
            topic=f"Topic{number % 7}", body=b"x" * (1 << number % 12), store_timestamp=FIRST_TIMESTAMP + number * 40 * 3_600_000
        )
    target = tmp_path / "report.html"

    run = rmqstore("stats", builder.build(), "--html", target, "--format", "json", "--set", "fileReservedTime=24")

    text = target.read_text("utf-8")
    parser = Nested()
    parser.feed(text)
    assert run.status == 0
    assert parser.open == []
    assert "2.0 KiB to 4.0 KiB" in text
    assert text.count('class="column"') <= 2 * 480 + 12
    assert {one["value"] for one in run.objects if one.get("dimension") == "weight"} >= {"expired", "live"}
