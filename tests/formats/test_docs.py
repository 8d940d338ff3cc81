"""The pages in docs/formats say what the declarations say."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqstore.formats import consumequeue, consumequeue_ext, describe, message, sysflag
from tests.formats.test_inverse import STRUCTURES

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "formats").glob("*.md"))
# What has no bytes of its own.
HELPERS = {"__init__", "describe", "layout", "naming"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_what_the_declarations_make_of_it(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert describe.render_page(text) == text, "run python docs/generate_formats.py"


def test_every_structure_has_its_table() -> None:
    shown = {".".join(name) for page in PAGES for name in describe.described(page.read_text(encoding="utf-8"))}
    assert set(STRUCTURES) <= shown


def test_every_module_and_page_stands_in_the_list() -> None:
    index = (ROOT / "docs" / "formats" / "README.md").read_text(encoding="utf-8")
    modules = {path.stem for path in (ROOT / "formats").glob("*.py")} - HELPERS
    assert [module for module in sorted(modules) if f"`{module}.py`" not in index] == []
    assert [page.name for page in PAGES if page.name != "README.md" and f"({page.name})" not in index] == []


def test_a_table_of_fields() -> None:
    assert describe.field_table(consumequeue.UNIT).splitlines()[:4] == [
        "| offset | width | type | field | meaning |",
        "| --- | --- | --- | --- | --- |",
        "| 0 | 8 | i64 | physical_offset | physical offset of the record in the commit log |",
        "| 8 | 4 | i32 | size | TOTALSIZE of the record |",
    ]


def test_offsets_and_widths_that_depend_on_the_data_name_what_they_depend_on() -> None:
    rows = {row.name: row for row in describe.field_rows(message.MESSAGE)}
    assert rows["born_host"][:3] == ("48", "8 or 20", "address, port")
    assert rows["body"][:3] == ("72 + len(born_host) + len(store_host)", "body_length", "bytes")
    assert rows["topic_length"][1:3] == ("1 or 2", "i8 or i16")
    ext = {row.name: row for row in describe.field_rows(consumequeue_ext.UNIT)}
    assert ext["filter_bit_map"][:2] == ("20", "bit_map_size")


def test_names_of_one_value_share_a_row() -> None:
    assert "| 0xC | TRANSACTION_ROLLBACK, TRANSACTION_MASK |" in describe.value_table(sysflag.SysFlag)


def test_a_stale_table_is_made_anew_and_the_text_around_it_stays() -> None:
    page = "before\n<!-- fields: lock.LOCK -->\nstale\n<!-- end -->\nafter\n"
    assert describe.render_page(page) == (
        "before\n<!-- fields: lock.LOCK -->\n"
        "| offset | width | type | field | meaning |\n| --- | --- | --- | --- | --- |\n| 0 | 4 | bytes | mark | the word `lock` |\n"
        "<!-- end -->\nafter\n"
    )
