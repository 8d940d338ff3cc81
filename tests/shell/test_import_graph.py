"""No module imports itself by way of others, not even inside of functions or for types."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDERS = {"rmqstore": "rmqstore", "formats": "rmqstore.formats", "commands": "rmqstore.commands"}


def modules() -> dict[str, Path]:
    """Every module of the package by its name."""
    found = {}
    for folder, package in FOLDERS.items():
        for path in (REPOSITORY / folder).rglob("*.py"):
            parts = path.relative_to(REPOSITORY / folder).with_suffix("").parts
            found[".".join((package, *parts)).removesuffix(".__init__")] = path
    return found


def imported(path: Path, known: dict[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module is not None, f"{path}: a relative import"
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                name = name if name in known else node.module
                if name in known:
                    yield name


def graph() -> dict[str, set[str]]:
    known = modules()
    return {name: set(imported(path, known)) - {name} for name, path in known.items()}


def test_there_is_no_cycle() -> None:
    found = graph()
    assert len(found) > 300
    assert sum(map(len, found.values())) > 1000
    try:
        TopologicalSorter(found).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))
