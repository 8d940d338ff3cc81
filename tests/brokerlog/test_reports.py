"""The lines of public reports in docs/reports.md: each is explained by the row that the page names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rmqstore.brokerlog.groups import Groups
from rmqstore.brokerlog.lines import entries
from rmqstore.catalogue import CATALOGUE
from rmqstore.catalogue.loglines import CAUSES, LOG_LINES
from rmqstore.cli import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
LINES, REPORTS = (ROOT / "docs" / "reports.md").read_text(encoding="utf-8").split("\n## Reports\n")
_ROW = re.compile(
    r"^\| (?P<report>\S+#\d+) \|.*\| \[(?P<code>[A-Z0-9-]+)\]\(\S+\) \| (?P<runbook>[^|]+) \| `(?P<line>[^`]+)` \|$", re.MULTILINE
)
_REPORT = re.compile(
    r"^\| (?P<report>\S+) \| [^|]+ \| [^|]+ \| (?P<does>[^|]+) \| (?P<runbook>[^|]+) \| (?P<score>[^|]+) \|$",
    re.MULTILINE,
)
REPORT_ROWS = [found.groupdict() for found in _REPORT.finditer(REPORTS)][1:]  # the first row is the header
SCORES = ("solved", "helped", "not helped")
ROWS = [found.groupdict() for found in _ROW.finditer(LINES)]


def test_the_page_counts_its_rows() -> None:
    assert len(ROWS) == len(re.findall(r"^\| \S+#\d+ \|", LINES, re.MULTILINE))
    with_runbook = sum(row["runbook"] != "–" for row in ROWS)
    assert f"All {len(ROWS)} lines are recognised; {with_runbook} of them lead to a runbook." in LINES


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["code"])
def test_a_line_is_explained_by_its_row(row: dict[str, str]) -> None:
    groups = Groups(keep_quiet=True)
    for line in entries([row["line"]]):
        groups.add(line)
    (group,) = groups.by_importance(harmless=True)
    assert (group.cause or group.line) is (CAUSES.get(row["code"]) or LOG_LINES.get(row["code"])) is not None


def test_the_reports_are_named_where_they_are_explained() -> None:
    texts = {row.code: " ".join((row.meaning, getattr(row, "then", ""))) for row in (*LOG_LINES.values(), *CAUSES.values())}
    assert sum(row["report"].partition("#")[2] in texts[row["code"]] for row in ROWS) >= len(ROWS) // 2


def test_the_page_counts_its_reports() -> None:
    counts = {score: sum(row["score"] == score for row in REPORT_ROWS) for score in SCORES}
    assert sum(counts.values()) == len(REPORT_ROWS) == len(re.findall(r"^\|", REPORTS, re.MULTILINE)) - 2
    text = ", ".join(f"{count} {score}" for score, count in counts.items())
    assert f"{len(REPORT_ROWS)} reports: {text}, none misleading." in REPORTS
    assert counts["not helped"] * 8 < len(REPORT_ROWS)


@pytest.mark.parametrize("row", REPORT_ROWS, ids=lambda row: row["report"])
def test_codes_and_commands_of_a_report_exist(row: dict[str, str]) -> None:
    named = re.findall(r"`([^`]+)`", row["does"])
    codes = [name for name in named if re.fullmatch(r"[A-Z]+(-[A-Z0-9]+)+", name)]
    commands = [name.split()[0] for name in named if re.match(r"[a-z]", name)]
    assert [code for code in codes if code not in CATALOGUE and code not in LOG_LINES and code not in CAUSES] == []
    assert [command for command in commands if command not in COMMANDS] == []
    assert named or row["score"] == "not helped" or row["runbook"] != "–"


@pytest.mark.parametrize("page", sorted({row["runbook"] for row in (*ROWS, *REPORT_ROWS)} - {"–"}))
def test_a_runbook_of_the_page_exists(page: str) -> None:
    assert (ROOT / "docs" / re.findall(r"\((\S+)\)", page)[0]).is_file()
