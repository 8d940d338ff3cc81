"""Cells of CSV that a spreadsheet would execute, in the output of commands and in exports."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqstore.render.formulas import defused
from rmqstore.render.output import open_output
from tests.support.builder import StoreBuilder
from tests.support.cli import rmqstore

FORMULAS = ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "=cmd|'/C calc'!A0", "-", "-2+3+cmd|' /C calc'!A0", "\uff1d1"]
HARMLESS = ["a=1", "", "'=1", " x", "-1", "-1.5", "-1.5E-7", "-inf", "{-}", "1+1"]


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_gets_a_mark(text: str) -> None:
    assert defused(text) == "'" + text


@pytest.mark.parametrize("text", HARMLESS)
def test_anything_else_stays(text: str) -> None:
    assert defused(text) == text


def _rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def test_numbers_are_no_text() -> None:
    stream = io.StringIO(newline="")
    open_output("csv", stream=stream).rows([{"=a": "=1", "b": -1, "c": -1.5, "d": None, "e": ["=1"], "f": {"-": 1}}])
    assert _rows(stream.getvalue()) == [["'=a", "b", "c", "d", "e", "f"], ["'=1", "-1", "-1.5", "", '["=1"]', '{"-":1}']]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("formulas") / "store"
    builder = StoreBuilder(root)
    for text in FORMULAS:
        builder.message(topic="=topic", tags=text, keys=text, body=text.encode(), queue_id=0)
    builder.message(topic="plain", tags="plain", keys="plain", body=b"\xff\xbe\x00-binary", queue_id=-0)
    return builder.build()


@pytest.mark.parametrize("raw", [True, False])
def test_dump(raw: bool, store: Path) -> None:
    run = rmqstore("dump", store, "--format", "csv", "--body", "text", *(["--csv-raw"] if raw else []))
    head, *rows = _rows(run.out)
    column = {name: [row[number] for row in rows] for number, name in enumerate(head)}
    mark = "" if raw else "'"
    assert column["tags"][: len(FORMULAS)] == [mark + text for text in FORMULAS]
    assert column["body"][: len(FORMULAS)] == [mark + text for text in FORMULAS]
    assert column["topic"] == [f"{mark}=topic"] * len(FORMULAS) + ["plain"]
    assert all(value.lstrip("-").isdigit() for value in column["tags_code"])
    assert any(value.startswith("-") for value in column["tags_code"])


@pytest.mark.parametrize("words", [("stats",), ("verify",), ("info",), ("dump", "--part", "consumequeue")], ids=" ".join)
def test_other_commands(words: tuple[str, ...], store: Path) -> None:
    name, *options = words
    rows = _rows(rmqstore(name, store, "--format", "csv", *options).out)
    raw = _rows(rmqstore(name, store, "--format", "csv", "--csv-raw", *options).out)
    assert not any(value.startswith(("=", "+", "@")) for row in rows for value in row)
    assert name in ("verify", "info") or any(value.startswith("=topic") for row in raw for value in row)


@pytest.mark.parametrize("raw", [True, False])
def test_export(raw: bool, store: Path, tmp_path: Path) -> None:
    run = rmqstore("export", store, tmp_path / "out", "--format", "csv", "--body", "decoded", *(["--csv-raw"] if raw else []))
    assert run.status == 0, run.err
    (file,) = (tmp_path / "out").glob("part-*.csv")
    head, *rows = _rows(file.read_bytes().decode())
    column = {name: [row[number] for row in rows] for number, name in enumerate(head)}
    mark = "" if raw else "'"
    assert column["tags"][: len(FORMULAS)] == [mark + text for text in FORMULAS]
    assert column["body"][: len(FORMULAS)] == [mark + text for text in FORMULAS]
    assert column["topic"][0] == f"{mark}=topic"
    assert any(value.startswith("-") for value in column["tags_code"])


def test_an_export_is_continued_with_the_same_cells_only(store: Path, tmp_path: Path) -> None:
    assert rmqstore("export", store, tmp_path / "out", "--format", "csv").status == 0
    run = rmqstore("export", store, tmp_path / "out", "--format", "csv", "--csv-raw")
    assert (run.status, "csv raw of it differ" in run.err) == (3, True)


@given(st.lists(st.text(alphabet=st.sampled_from("=+-@\t\r\n\uff1d\uff0b'einf1.5\u2028"), max_size=6)))
def test_exports_and_output_agree(texts: list[str]) -> None:
    import pyarrow as pa

    from rmqstore.pipeline.export.rows import _defused

    assert _defused(pa.array([*texts, None], pa.string())).to_pylist() == [*map(defused, texts), None]
