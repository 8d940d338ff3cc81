"""`rmqstore sql` without a statement: several statements in one session, and mistakes that do not end it."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqstore.commands.sql_prompt import statements
from tests.support.cli import rmqstore
from tests.support.stores import sample_store


@pytest.mark.parametrize(
    ("entered", "expected"),
    [
        ("select 1;\nselect\n 2;\n", ["select 1", "select\n 2"]),
        ("select 1", ["select 1"]),
        ("select ';'\n;\n\n", ["select ';'"]),
        ("select 1;\nexit\nselect 2;\n", ["select 1"]),
        ("", []),
    ],
)
def test_statements_end_with_a_semicolon(entered: str, expected: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(entered))
    assert list(statements()) == expected


def test_a_prompt_drops_what_ctrl_c_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    entered: Iterator[str | type[BaseException]] = iter(["select", KeyboardInterrupt, "select 2;", EOFError])
    prompts = []

    def read(prompt: str) -> str:
        prompts.append(prompt)
        line = next(entered)
        if isinstance(line, str):
            return line
        raise line

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("builtins.input", read)
    assert list(statements()) == ["select 2"]
    assert prompts == ["sql> ", "...> ", "sql> ", "sql> "]


def test_a_wrong_statement_does_not_end_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("select nothing from nowhere;\nselect count(*) n from messages;\n"))
    run = rmqstore("sql", sample_store("5.3.3-plain"), "--json", "--master", "local[2,3]")
    assert run.objects == [{"n": 480}]
    assert run.status == 2
    assert run.err.startswith("error: ")
