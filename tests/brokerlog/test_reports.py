"""The lines of public reports in docs/reports.md: each is explained by the row that the page names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rmqstore.brokerlog.groups import Groups
from rmqstore.brokerlog.lines import entries
from rmqstore.catalogue.loglines import CAUSES, LOG_LINES

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reports.md").read_text(encoding="utf-8")
_ROW = re.compile(
    r"^\| (?P<report>\S+#\d+) \|.*\| \[(?P<code>[A-Z0-9-]+)\]\(\S+\) \| (?P<runbook>[^|]+) \| `(?P<line>[^`]+)` \|$", re.MULTILINE
)
ROWS = [found.groupdict() for found in _ROW.finditer(PAGE)]


def test_the_page_counts_its_rows() -> None:
    assert len(ROWS) == len(re.findall(r"^\| \S+#\d+ \|", PAGE, re.MULTILINE))
    with_runbook = sum(row["runbook"] != "–" for row in ROWS)
    assert f"All {len(ROWS)} lines are recognised; {with_runbook} of them lead to a runbook." in PAGE


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


@pytest.mark.parametrize("page", sorted({row["runbook"] for row in ROWS} - {"–"}))
def test_a_runbook_of_the_page_exists(page: str) -> None:
    assert (ROOT / "docs" / re.findall(r"\((\S+)\)", page)[0]).is_file()
