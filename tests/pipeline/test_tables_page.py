"""The page about tables says what the tables are, and its examples work."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rmqstore.pipeline.job import StoreAt
from rmqstore.pipeline.sql import query
from rmqstore.pipeline.tables.registry import TABLE_NAMES, find_table
from rmqstore.pipeline.tables.selection import Selection
from tests.pipeline.reading import rows_of
from tests.support.stores import sample_store

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "tables.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_the_page_has_every_column(name: str) -> None:
    table = find_table(name)
    chapter = PAGE.partition(f"\n## {name}\n")[2].partition("\n## ")[0].strip()

    assert chapter.splitlines() == [
        table.summary,
        "",
        "| column | type | meaning |",
        "|---|---|---|",
        *(f"| `{one.name}`{'*' if one.name in table.selectable else ''} | {one.type} | {one.meaning} |" for one in table.columns),
    ]


def test_the_example_without_spark(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = (block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "Selection(" in block)

    root = sample_store("5.3.3-plain")

    exec(example.replace("/path/to/store", str(root)), {})

    rows = rows_of("messages", StoreAt.of(root), Selection(("queue_id",)))
    assert 0 < sum(map(int, capsys.readouterr().out.split())) == sum(row["queue_id"] <= 3 for row in rows) < len(rows)


def test_the_examples_in_sql() -> None:
    examples = re.findall(r'^rmqstore sql STORE "(.*?)"', PAGE, re.MULTILINE)
    at = StoreAt.of(sample_store("broker-5.5.1-crash"))

    answers = [list(query(at, example, 2).rows) for example in examples]

    assert len(answers) == 5
    assert all(answers)
